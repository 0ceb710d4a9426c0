"""Turns outcomes into verdicts, collects them for a few milliseconds, and writes them in groups.

None is lost. One group is written at a time; what ends meanwhile is the next group. When the answer to
a group is lost it is settled again, and history and attempts tell what had landed.
"""

import asyncio
from collections.abc import Callable, Sequence

import psycopg

from holdfast.core.events import FailedAfterFinish, Listener, StatementFailed, TasksSettled
from holdfast.core.outcome import Complete, Failed, Outcome
from holdfast.core.task import Claim
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.settle import Settled, Settlement
from holdfast.store.store import Store
from holdfast.worker.flight_record import UNSETTLED_MAX
from holdfast.worker.policies import Policies

GROUP_MAX = 500
GATHER_SECONDS = 0.003


class Settling:
    """The verdicts of one executor; `written` is told of each group that the database acknowledged."""

    def __init__(
        self,
        store: Store,
        link: Link,
        policies: Policies,
        written: Callable[[Sequence[Settlement]], None],
    ) -> None:
        self._written = written
        self._store = store
        self._link = link
        self._listen: Listener = store.listen
        self._policies = policies
        self._waiting: list[Settlement] = []
        self._writing: Sequence[Settlement] = ()
        self._there = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._uncertain = False
        self.accepted = 0
        # Whether more verdicts are to be expected within moments: then a small group waits for them.
        self.busy = False

    def end(self, claim: Claim, outcome: Outcome, *, uncertain: bool = False) -> None:
        """Settle a claim; an uncertain outcome may have been written already, so it is looked up."""
        self._waiting.append((claim, self._policies.judge(claim, outcome)))
        self._uncertain |= uncertain
        if len(self._waiting) == 1:
            self._there.set()
            self._quiet.clear()

    def finished(self, claim: Claim, then: Outcome) -> None:
        """It was settled in the handler's own commit: whatever came after that changes nothing."""
        self._listen(TasksSettled([(claim, self._policies.judge(claim, Complete()))]))
        if isinstance(then, Failed) and (failure := self._policies.judge(claim, then).failure):
            self._listen(FailedAfterFinish(claim, failure.message))

    @property
    def full(self) -> bool:
        """So many verdicts wait to be written that no more tasks are to be started."""
        return len(self._waiting) >= UNSETTLED_MAX

    def pending(self) -> list[Settlement]:
        """Verdicts that are not known to be written."""
        return [*self._writing, *self._waiting]

    async def flushed(self) -> None:
        """Wait until everything is written."""
        await self._quiet.wait()

    async def run(self) -> None:
        """Write groups for ever."""
        while True:
            await self._there.wait()
            if self.busy and len(self._waiting) < GROUP_MAX:
                await asyncio.sleep(GATHER_SECONDS)
            group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
            if not self._waiting:
                self._there.clear()
            self._writing = group
            settled = await self._write(group)
            self._writing = ()
            self.accepted += len(settled.accepted)
            self._written(group)
            if not self._waiting:
                self._quiet.set()

    async def _write(self, group: Sequence[Settlement]) -> Settled:
        delay = ReconnectDelay()
        if self._uncertain:
            self._uncertain = bool(self._waiting)
            first = self._store.settler.settle_again
        else:
            first = self._store.settler.settle
        try:
            return await self._link.use(lambda conn: first(conn, group))
        except LinkLost:
            pass
        except psycopg.Error as error:
            self._listen(StatementFailed("settle", str(error).strip()))
        while True:
            await asyncio.sleep(delay.next())
            try:
                return await self._link.use(lambda conn: self._store.settler.settle_again(conn, group))
            except LinkLost:
                continue
            except psycopg.Error as error:
                self._listen(StatementFailed("settle", str(error).strip()))
