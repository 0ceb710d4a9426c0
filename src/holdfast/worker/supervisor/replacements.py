"""Keeps the number of executors: starts missing ones and replaces those that served long enough.

One rule decides, after every event and at every tick. Each executor that is not worn holds one of the
worker's places until it ends. Whenever a place is free, an executor is started in it. A worn executor goes
on working until the full number of executors is at work without it, and is drained then.
"""

import time
from collections.abc import Callable, Collection

from holdfast.worker.supervisor.executor_process import ExecutorProcess, Leaving

RESTART_SECONDS = 1.0
RESTART_SECONDS_MAX = 30.0
# An executor that lived so long did not die of its own start.
SETTLED_SECONDS = 5.0
# After so many early deaths in a row the next executor is still started without a pause.
RESTARTS_AT_ONCE = 2


class Replacements:
    """Starts and drains executors; `start` says whether the operating system allowed another process."""

    def __init__(
        self,
        children: Collection[ExecutorProcess],
        processes: int,
        start: Callable[[], bool],
        drain: Callable[[ExecutorProcess], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._children = children
        self._places = processes
        self._start = start
        self._drain = drain
        self._clock = clock
        self._failures = 0
        self._start_at = float("-inf")

    @property
    def finished(self) -> bool:
        """Whether all executors that the worker should have found nothing more to do."""
        return self._places == 0

    def keep(self) -> None:
        """Start what is missing, and drain the worn executors that can be spared."""
        while self._clock() >= self._start_at and self._fresh() < self._places:
            if not self._start():
                self._start_at = self._clock() + RESTART_SECONDS
        working = [child for child in self._children if child.ready and child.leaving is None]
        worn = [child for child in working if child.worn]
        for child in worn[: max(0, len(working) - self._places)]:
            self._drain(child)

    def ended(self, child: ExecutorProcess, *, done: bool) -> None:
        """An executor ended; `done` if it found nothing more to do, so that its place stays empty."""
        if done:
            # The place of a worn executor was passed on to its successor.
            self._places -= not child.worn
        elif child.leaving is not Leaving.RECYCLED:
            lived = self._clock() - child.began_at
            self._failures = 0 if lived > SETTLED_SECONDS else self._failures + 1
            self._start_at = self._clock() + self._pause()

    def _fresh(self) -> int:
        return sum(not child.worn for child in self._children)

    def _pause(self) -> float:
        if self._failures <= RESTARTS_AT_ONCE:
            return 0.0
        return min(RESTART_SECONDS_MAX, 0.1 * 2.0 ** min(self._failures, 10))
