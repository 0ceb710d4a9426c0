"""Cron expressions in a time zone, and which missed ticks fire."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from holdfast.core.errors import Misused
from holdfast.core.outcome import Duration, as_seconds

# A tick that fires no later than this is on time: nothing was missed.
LATE_SECONDS = 60.0
MISSED_MAX = 100
# Clocks are put forward or back by no more.
SHIFT_MAX = timedelta(hours=2)


class Missed(StrEnum):
    """What becomes of ticks that nobody was there to fire."""

    SKIP = "skip"
    ONE = "one"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Cron:
    """When tasks of a kind are made by themselves: `Cron("0 3 * * 1-5", zone="Europe/Paris")`.

    After an outage `missed="one"` makes up for all missed ticks with one task, `"skip"` with none, `"all"`
    with one each, for the last `most` of them. `jitter` spreads the starts over so long. Without a `name`
    the schedule is called after its kind.
    """

    expression: str
    zone: str = "UTC"
    name: str | None = None
    payload: object = field(default_factory=dict)
    missed: Missed | str = Missed.ONE
    most: int = MISSED_MAX
    jitter: Duration = 0.0

    def __post_init__(self) -> None:
        if len(self.expression.split()) != 5:
            raise Misused(
                f"the cron expression {self.expression!r} cannot be read: it has five fields, "
                "minute, hour, day, month, day of the week"
            )
        try:
            next(self.after(datetime.now(UTC)))
        except CronSimError as error:
            raise Misused(f"the cron expression {self.expression!r} cannot be read: {error}") from error
        except StopIteration as error:
            raise Misused(f"the cron expression {self.expression!r} never comes true") from error
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise Misused(f"there is no time zone {self.zone!r}: write Europe/Paris, or UTC") from error
        if self.missed not in set(Missed):
            raise Misused(f"missed is {self.missed!r}: it is 'skip', 'one' or 'all'")
        if not 1 <= self.most <= 10_000:
            raise Misused(f"most is {self.most}: of the ticks that were missed 1 to 10000 are made up for")
        if not 0 <= as_seconds(self.jitter) <= 86_400:
            raise Misused(f"jitter is {as_seconds(self.jitter):g} s: it is at most a day")

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The ticks after a moment, in order, in UTC."""
        # In the hour that comes twice the expression is read for its first time: that one has been.
        return (tick for tick in self._ticks(moment, reverse=False) if tick > moment)

    def until(self, moment: datetime) -> Iterator[datetime]:
        """The ticks up to a moment, the latest first, in UTC."""
        return (tick for tick in self._ticks(moment + SHIFT_MAX, reverse=True) if tick <= moment)

    def _ticks(self, moment: datetime, *, reverse: bool) -> Iterator[datetime]:
        local = moment.astimezone(ZoneInfo(self.zone))
        return (tick.astimezone(UTC) for tick in CronSim(self.expression, local, reverse))

    def due(self, next_at: datetime, now: datetime, *, failed: bool = False) -> "Due":
        """Which ticks fire now, given the one that was to come next.

        A tick that could not be fired was not missed: with `failed`, `skip` makes up for it like `one`.
        """
        earliest = next_at
        most = self.most if self.missed == Missed.ALL else 1
        if self.missed == Missed.SKIP and not failed:
            earliest = max(next_at, now - timedelta(seconds=LATE_SECONDS))
        fires: list[datetime] = []
        for tick in self.until(now):
            if tick < earliest or len(fires) >= most:
                break
            fires.append(tick)
        return Due(fires[::-1], next(self.after(now)))

    def delay(self, name: str, tick: datetime) -> timedelta:
        """The jitter of one tick: always the same for it, whoever asks."""
        digest = hashlib.blake2b(f"{name}@{tick.isoformat()}".encode(), digest_size=8).digest()
        return timedelta(seconds=int.from_bytes(digest) / 2**64 * as_seconds(self.jitter))


class Due(NamedTuple):
    """The ticks that fire, the oldest first, and the next one to come."""

    fires: list[datetime]
    next_at: datetime
