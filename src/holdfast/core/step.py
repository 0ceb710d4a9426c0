"""Detects that a clock was set, by comparing it with a monotonic clock."""

from dataclasses import dataclass
from datetime import datetime, timedelta

# Smaller differences come from clock drift and network delay.
STEP_SECONDS_MIN = 0.5


@dataclass(frozen=True, slots=True)
class Step:
    """The clock was set forward (`seconds` is positive) or back (`seconds` is negative).

    `before` is the latest possible reading before the step, `after` the earliest possible one after it.
    """

    seconds: float
    before: datetime
    after: datetime


class StepWatch:
    """Compares readings of the clock with the monotonic seconds that passed between them."""

    def __init__(self) -> None:
        self._last: tuple[datetime, float, float] | None = None

    def learn(self, told: datetime, asked_at: float, answered_at: float) -> Step | None:
        """Record a reading taken between these moments; return the step since the last one, if any."""
        last, self._last = self._last, (told, asked_at, answered_at)
        if last is None:
            return None
        told_before, asked_before, answered_before = last
        passed = (told - told_before).total_seconds()
        # It was read at some moment between question and answer, this time and the last.
        least, most = asked_at - answered_before, answered_at - asked_before
        seconds = passed - min(max(passed, least), most)
        if abs(seconds) < STEP_SECONDS_MIN:
            return None
        return Step(seconds, told_before + timedelta(seconds=most), told - timedelta(seconds=most))
