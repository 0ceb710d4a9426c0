"""Decides when to give up polling: by count, by time, or without progress."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.core.errors import Misused
from holdfast.core.outcome import Duration, as_seconds

POLLS_EXHAUSTED = "TASK_POLLS_EXHAUSTED"
POLLING_OVERDUE = "TASK_POLLING_OVERDUE"
NO_PROGRESS = "TASK_NO_PROGRESS"


class Polled(NamedTuple):
    """What is known of a task that has snoozed before, in seconds since 1970."""

    since: float
    progress: float | None
    progressed_at: float


@dataclass(frozen=True, slots=True)
class Polling:
    """Bounds of a kind that snoozes until something elsewhere is done; None means that there is none.

    `answers` counts polls that came back with a snooze, never errors; `total` is counted from the first poll,
    `no_progress` from the last time that progress rose.
    """

    answers: int | None = None
    total: Duration | None = None
    no_progress: Duration | None = None

    def __post_init__(self) -> None:
        if self.answers is not None and self.answers < 1:
            raise Misused(f"polling with {self.answers} answers cannot be: there is at least one poll")
        for name, given in (("total", self.total), ("no_progress", self.no_progress)):
            if given is not None and not as_seconds(given) > 0:
                raise Misused(f"polling with {name} of {as_seconds(given):g} s would end before it began")

    def after(
        self, wait: float, polls: int, polled: Polled | None, progress: float | None, now: datetime
    ) -> "float | Overdue":
        """How long to wait for the next poll, no longer than a deadline; or why there is none.

        `polls` is how many were answered, this one among them.
        """
        clock = now.timestamp()
        since = clock if polled is None else polled.since
        progressed = clock if polled is None or _rose(polled.progress, progress) else polled.progressed_at
        if self.answers is not None and polls >= self.answers:
            return Overdue(POLLS_EXHAUSTED, f"it was not done after {polls} polls")
        for code, begun, most, what in (
            (POLLING_OVERDUE, since, self.total, "it was not done {} after the first poll"),
            (NO_PROGRESS, progressed, self.no_progress, "it made no progress for {}"),
        ):
            if most is None:
                continue
            left = begun + as_seconds(most) - clock
            if left <= 0:
                return Overdue(code, what.format(timedelta(seconds=round(clock - begun))))
            wait = min(wait, left)
        return wait


class Overdue(NamedTuple):
    """Which bound was reached."""

    code: str
    reason: str


def _rose(before: float | None, now: float | None) -> bool:
    return now is not None and (before is None or now > before)
