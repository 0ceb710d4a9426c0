"""Decides when an executor has served long enough and is replaced."""

import time

from holdfast.worker.options import WorkerOptions


class Recycling:
    """The age of one executor, in seconds and in tasks."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._began_at = time.monotonic()
        self._tasks = 0
        self._said = False

    def ended(self) -> None:
        """One more task."""
        self._tasks += 1

    def out(self) -> str | None:
        """Why it should be replaced; said once."""
        options = self._options
        old = (
            options.max_time_seconds is not None
            and time.monotonic() - self._began_at >= options.max_time_seconds
        )
        worn = options.max_tasks is not None and self._tasks >= options.max_tasks
        if self._said or not (old or worn):
            return None
        self._said = True
        return "max-time" if old else "max-tasks"
