"""Decides how many tasks to claim and how long to wait after an empty claim.

At most 50 ms of work is claimed ahead of the slots, by the recent mean; so short tasks come in large
groups, and a long one never waits behind another.
"""

import asyncio
from contextlib import suppress

AHEAD_SECONDS = 0.05
# What a machine takes along when it dies is taken back, but after the lease: no more than so many.
AHEAD_MAX = 500
# A claim waits for its commit: smaller groups leave handlers without work meanwhile (measured, 200 at a
# time drained three quarters of what 500 do), larger ones gain little.
GROUP = 500
IDLE_SECONDS_MIN = 0.02
_WEIGHT = 0.05


class Pace:
    """The pace of one executor."""

    def __init__(self, slots: int, sleep_seconds: float) -> None:
        self._slots = slots
        self._sleep = sleep_seconds
        self._mean: float | None = None
        self._idle = IDLE_SECONDS_MIN
        self._woken = asyncio.Event()

    def ended(self, seconds: float) -> None:
        """A handler took so long."""
        self._mean = seconds if self._mean is None else self._mean + (seconds - self._mean) * _WEIGHT

    def forget(self) -> None:
        """The mean was a wrong guess: claim no more than fits until it is known again."""
        self._mean = None

    def want(self, free: int, buffered: int) -> int:
        """How many tasks to claim now."""
        if self._mean is None:
            return free - buffered
        ahead = int(min(AHEAD_MAX, self._slots * AHEAD_SECONDS / max(self._mean, 1e-6)))
        short = free + ahead - buffered
        if buffered and short < min(GROUP, ahead // 2):
            return 0
        return min(short, GROUP)

    def found(self) -> None:
        """There was work."""
        self._idle = IDLE_SECONDS_MIN

    def wake(self) -> None:
        """Look again now."""
        self._idle = IDLE_SECONDS_MIN
        self._woken.set()

    async def idle(self) -> None:
        """Wait before the next look: twice as long each time, up to the worker's sleep."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), min(self._idle, self._sleep))
        self._woken.clear()
        self._idle = min(self._idle * 2, self._sleep)
