"""One call of a bulk handler: many tasks in, one outcome each; where it fails, its culprits are searched for.

Only the items of the call at work are in the flight record: if the process dies, those alone are suspects.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.core.handler import Bulk, Handler
from holdfast.core.outcome import Failed, Outcome
from holdfast.runtime.execute import execute_many_async, execute_many_here, overdue
from holdfast.runtime.flight import FlightRecord
from holdfast.runtime.run import Run, cancelled_itself
from holdfast.runtime.search import Search


class BulkCall:
    """The call; `end` is told the outcome of each item."""

    def __init__(
        self,
        handler: Handler,
        runs: Sequence[Run],
        seconds: float,
        flight: FlightRecord,
        threads: ThreadPoolExecutor,
        end: Callable[[Run, Outcome], None],
    ) -> None:
        self.handler = handler
        self.deadline_at = float("inf")
        self.doing: asyncio.Task[None] | None = None
        self._search = Search(runs)
        self._seconds = seconds
        self._flight = flight
        self._threads = threads
        self._end = end
        self._overdue = False

    async def work(self) -> None:
        """Call the handler until every item has an outcome."""
        try:
            while group := self._search.next():
                self._heard(group, await self._call(group))
        except asyncio.CancelledError:
            for run in self._search.left():
                self._end(run, run.told or cancelled_itself())

    def _heard(self, group: Sequence[Run], answer: Sequence[Outcome] | Failed) -> None:
        if not isinstance(answer, Failed):
            self._search.passed()
            for run, outcome in zip(group, answer, strict=True):
                self._end(run, outcome)
        elif finished := [run for run in group if run.task is not None and run.task.settled]:
            # It failed after some were finished: those are done, whatever came after.
            self._search = Search([run for run in self._search.left() if run not in finished])
            for run in finished:
                self._end(run, answer)
        elif (culprit := self._search.failed()) is not None:
            self._end(culprit, answer)

    def expire(self) -> None:
        """The call has run for too long: one of its items may be why."""
        self.deadline_at = float("inf")
        if self.handler.awaits and self.doing is not None:
            self._overdue = True
            self.doing.cancel()

    def told(self) -> None:
        """An item was told to stop: once all of them were, the call is cancelled."""
        left = self._search.left()
        if all(run.told is not None for run in left) and self.handler.awaits and self.doing is not None:
            self.doing.cancel()

    async def _call(self, group: Sequence[Run]) -> Sequence[Outcome] | Failed:
        self.deadline_at = time.monotonic() + self._seconds
        tasks: list[Any] = [run.task for run in group]
        bulk: Bulk[Any] = Bulk(tasks)
        self._flight.start_many(
            [(run.slot, run.claim.id, run.claim.fence) for run in group if run.slot is not None],
            self.deadline_at,
        )
        try:
            if self.handler.awaits:
                return await execute_many_async(self.handler, bulk)
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, context.run, execute_many_here, self.handler, bulk
            )
        except asyncio.CancelledError:
            doing = asyncio.current_task()
            if not self._overdue or doing is None:
                raise
            self._overdue = False
            doing.uncancel()
            return overdue(self._seconds)
        finally:
            self.deadline_at = float("inf")
            self._flight.end_many([run.slot for run in group if run.slot is not None])
