"""Runs one call of a bulk handler; if it fails, finds the items that made it fail.

Only the items of the call at work are in the flight record: if the process dies, those alone are suspects.
"""

import asyncio
import contextvars
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from holdfast.core.handler import Bulk, Handler
from holdfast.core.outcome import Failed, Outcome, Release, Released
from holdfast.worker.executor.culprits import CulpritSearch
from holdfast.worker.executor.handlers import execute_many_async, execute_many_here
from holdfast.worker.executor.run import Run
from holdfast.worker.flight_record import FlightRecord, RunMode
from holdfast.worker.outcomes import cancelled_itself, ended_by, timed_out, timed_out_in_bulk


class BulkCall:
    """The call; `end` is called with the outcome of each item."""

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
        self._search = CulpritSearch(runs)
        self._single = len(runs) == 1
        self._seconds = seconds
        self._flight = flight
        self._threads = threads
        self._end = end
        self._overdue = False
        self._over_at = float("inf")

    async def work(self) -> None:
        """Call the handler until every item has an outcome; all calls together have the time of one."""
        self._over_at = time.monotonic() + self._seconds
        try:
            while (group := self._search.next()) and not all(run.stop_outcome for run in self._search.left()):
                self._heard(group, await self._call(group))
                if left := set(self._search.left()):
                    self._flight.clear(run.key for run in group if run in left)
            self._end_all(cancelled_itself())
        except asyncio.CancelledError:
            self._end_all(cancelled_itself())
        except BaseException as error:  # noqa: BLE001 (the last resort)
            self._end_all(ended_by(error))

    def _end_all(self, outcome: Outcome) -> None:
        """End the remaining items, each with the outcome of its own stop or else with this one."""
        for run in self._search.left():
            self._end(run, run.stop_outcome or outcome)
        self._search = CulpritSearch([])

    def _heard(self, group: Sequence[Run], answer: Sequence[Outcome] | Failed | None) -> None:
        if answer is None:
            # Nobody knows which one it was, and there is no time left to search: they run next alone.
            left = [run for run in self._search.left() if run not in group]
            for run in group:
                self._end(run, timed_out_in_bulk())
            for run in left:
                self._end(run, Released(Release.COLLATERAL))
            self._search = CulpritSearch([])
        elif not isinstance(answer, Failed):
            self._search.passed()
            for run, outcome in zip(group, answer, strict=True):
                self._end(run, outcome)
        elif finished := [run for run in group if run.task is not None and run.task.settled]:
            # It failed after some were finished: those are done, whatever came after.
            self._search = CulpritSearch([run for run in self._search.left() if run not in finished])
            for run in finished:
                self._end(run, answer)
        elif (culprit := self._search.failed()) is not None:
            self._end(culprit, answer)

    def expire(self) -> None:
        """The call has run for too long: one of its items may be why."""
        self.deadline_at = float("inf")
        if self.handler.awaits:
            self._overdue = True
            self._cancel()

    def item_stopped(self) -> None:
        """An item was asked to stop; once all of them were, the call is cancelled."""
        left = self._search.left()
        if all(run.stop_outcome is not None for run in left) and self.handler.awaits:
            self._cancel()

    def _cancel(self) -> None:
        if self.doing is not None:
            # Not before its first step, which would leave it without an end.
            self.doing.get_loop().call_soon(self.doing.cancel)

    async def _call(self, group: Sequence[Run]) -> Sequence[Outcome] | Failed | None:
        """What the handler said; a failure of the whole call; or nothing, because its time was over."""
        doing = asyncio.current_task()
        self.deadline_at = self._over_at
        tasks: list[Any] = [run.task for run in group]
        bulk: Bulk[Any] = Bulk(tasks)
        for run in group:
            self._flight.start(run.claim.id, run.claim.fence, self.deadline_at, RunMode.BULK_ITEM)
        try:
            if self.handler.awaits:
                return await execute_many_async(self.handler, bulk)
            context = contextvars.copy_context()
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, context.run, execute_many_here, self.handler, bulk
            )
        except asyncio.CancelledError:
            if self._overdue:
                return timed_out(self._seconds) if self._single else None
            if doing is not None and doing.cancelling() > 0:
                raise
            return cancelled_itself()
        except BaseException as error:  # noqa: BLE001 (whatever it is, one of the items may be why)
            return ended_by(error)
        finally:
            if self._overdue and doing is not None:
                self._overdue = False
                doing.uncancel()
            self.deadline_at = float("inf")
