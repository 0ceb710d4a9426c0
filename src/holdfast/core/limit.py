"""Concurrency limits, rate limits, and shares per key."""

import re
from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.errors import Misused

WEIGHT_MAX = 1000
WINDOW_SECONDS_MAX = 10 * 366 * 86_400.0
# What the database keeps.
COUNT_MAX = 2_147_483_647
ANY = "*"
_RATE = re.compile(r"(\d+)/(\d+(?:\.\d+)?)?(s|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Limit:
    """What may run: `Limit(running=50)`, `Limit(rate="100/m", burst=10)`, `Limit(weight=3)`, or several.

    In any window no more than the rate and its burst start; without one the burst is a tenth of the rate.
    """

    running: int | None = None
    rate: str | None = None
    burst: int | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        if self.running is not None and self.running < 0:
            raise Misused(f"a limit of {self.running} running tasks cannot be: it is 0 or more")
        if self.rate is not None and _RATE.fullmatch(self.rate) is None:
            raise Misused(f"the rate {self.rate!r} cannot be read: write 100/s, 100/m, 20/10s or 500/h")
        if self.rate is not None and not (self.rate_count and self.rate_seconds):
            raise Misused(f"the rate {self.rate!r} lets nothing start: pause the kind instead")
        if (self.rate_seconds or 0) > WINDOW_SECONDS_MAX or (self.rate_count or 0) > COUNT_MAX:
            raise Misused(f"the rate {self.rate!r} is too large: at most {COUNT_MAX} tasks, and ten years")
        if self.burst is not None and (self.rate is None or self.burst < 1):
            raise Misused(f"a burst of {self.burst} needs a rate, and is 1 or more")
        if not 1 <= self.weight <= WEIGHT_MAX:
            raise Misused(f"a weight of {self.weight:g} cannot be: it is 1 to {WEIGHT_MAX}")

    @property
    def rate_count(self) -> int | None:
        """How many may start in a window."""
        return None if self.rate is None else int(self._parts[0])

    @property
    def rate_seconds(self) -> float | None:
        """How long a window is."""
        return None if self.rate is None else float(self._parts[1] or 1) * _SECONDS[self._parts[2]]

    @property
    def rate_burst(self) -> int | None:
        """How many more may start at once after a quiet time."""
        return None if self.rate_count is None else self.burst or max(1, self.rate_count // 10)

    @property
    def _parts(self) -> tuple[str, str | None, str]:
        found = _RATE.fullmatch(self.rate or "")
        assert found is not None, "it was checked when it was made"
        return found[1], found[2], found[3]


class Scope(StrEnum):
    """What a limit is for."""

    KIND = "kind"
    QUEUE = "queue"
    KEY = "key"


def bucket_of_key(kind: str, field: str, value: object) -> str:
    """The name of what tasks of one kind with one key stand behind."""
    text = str(value)
    if not text or text == ANY:
        raise Misused(f"the {field} of a {kind} task is {text!r}: a key is a name, and * stands for all")
    return f"{kind}/{field}={text}"


def bucket_of_lane(lane: str, *, blocks: bool) -> str:
    """The name of a lane; one that a failed task blocks is another one."""
    return f"lane!:{lane}" if blocks else f"lane:{lane}"
