"""How long one executor serves before another takes its place."""

import time

from holdfast.runtime.plan import Plan


class Wear:
    """The age of one executor, in seconds and in tasks."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._began_at = time.monotonic()
        self._tasks = 0
        self._said = False

    def ended(self) -> None:
        """One more task."""
        self._tasks += 1

    def out(self) -> str | None:
        """Why it should be replaced; said once."""
        plan = self._plan
        old = plan.max_time_seconds is not None and time.monotonic() - self._began_at >= plan.max_time_seconds
        worn = plan.max_tasks is not None and self._tasks >= plan.max_tasks
        if self._said or not (old or worn):
            return None
        self._said = True
        return "max-time" if old else "max-tasks"
