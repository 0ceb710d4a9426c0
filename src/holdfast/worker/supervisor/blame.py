"""Takes back a dead executor's tasks and decides which of them are to blame for its death."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from holdfast.core.decide import Policy
from holdfast.core.events import StatementFailed
from holdfast.core.outcome import Outcome, Release, Released, WorkerLost
from holdfast.core.task import Claim
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.store import Store
from holdfast.worker.flight_record import Flight, RunMode
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcomes import timed_out, timed_out_in_bulk
from holdfast.worker.signals import describe_exit
from holdfast.worker.supervisor.executor_process import ExecutorProcess

LAST_CLAIM_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Blame:
    """The blame rule: who is accused when a process dies.

    Whoever ran past its deadline is to blame for being killed, and its neighbours are not; of the items
    of a bulk call nobody knows which one it was, so they run next alone. When the
    process died by itself with several handlers at work nobody is accused; they run next alone. Only a
    death alone counts against a task. What had not started goes back as if never claimed.

    A task whose handler had ended, and whose outcome was not written, goes back unspent the first time. Up to
    500 of them may wait for one settle, so only a task that was lost before becomes a suspect. Suspects are
    settled one at a time, so a death before the settle counts against that suspect and no other; it does
    not count if another handler was at work in the process that died. A task in a process of its own is
    judged by the end of that process. If the executor above it dies, only the second such death counts.
    """

    died: bool
    flights: Mapping[tuple[str, int], Flight]
    overdue: set[tuple[str, int]]
    # Items of a bulk call that ran past its deadline together.
    mates: set[tuple[str, int]]
    how: str
    timeouts: Mapping[str, float]

    @classmethod
    def for_end_of(cls, executor: ExecutorProcess, timeouts: Mapping[str, float]) -> "Blame":
        """For the tasks that a process held when it ended."""
        flights = {flight.key: flight for flight in executor.flight.entries()}
        status = executor.process.returncode
        died = not executor.killed and (executor.leaving is None or status < 0)
        mates = Counter(
            flight.deadline_at for flight in executor.overdue.values() if flight.how is RunMode.BULK_ITEM
        )
        sole = {key for key, flight in executor.overdue.items() if mates[flight.deadline_at] <= 1}
        return cls(died, flights, sole, set(executor.overdue) - sole, describe_exit(status), timeouts)

    def outcome_of(self, claim: Claim, lost_before: bool) -> Outcome:  # noqa: FBT001 (a row's column)
        """The outcome of one claim; `lost_before` says that a process died under the task already."""
        claimed = claim.id, claim.fence
        flight = self.flights.get(claimed)
        ended = flight is not None and flight.ended
        if claimed in self.overdue:
            return timed_out(claim.timeout_seconds or self.timeouts.get(claim.kind, 0.0))
        if claimed in self.mates:
            return timed_out_in_bulk()
        if not self.died:
            unharmed = Release.COLLATERAL if self.overdue or self.mates else Release.DRAINED
            return Released(Release.UNSETTLED if ended else unharmed)
        if flight is None:
            return Released(Release.NOT_STARTED)
        if ended:
            sole = claim.isolate and not self._ran_here
            return WorkerLost(sole=sole, how=self.how, suspect=lost_before, ended=True)
        if flight.how is not RunMode.OWN_PROCESS:
            return WorkerLost(sole=len(self.flights) == 1, how=self.how)
        # It ran in another process than the one that died.
        if self._ran_here:
            return Released(Release.COLLATERAL)
        sole = lost_before and len(self.flights) == 1
        return WorkerLost(sole=sole, how=self.how, suspect=lost_before)

    @property
    def _ran_here(self) -> bool:
        """Whether a handler was at work in the process that died."""
        return any(
            not flight.ended and flight.how is not RunMode.OWN_PROCESS for flight in self.flights.values()
        )


class Reclaimer:
    """Takes back what dead executors held, on a connection that is open only while it is needed."""

    def __init__(self, options: WorkerOptions, store: Store) -> None:
        self._options = options
        self._store = store
        self._link = Link(
            options.url,
            f"holdfast {options.name} reclaim",
            store.listen,
            deadline_seconds=options.statement_seconds,
        )
        # What the executors told of their kinds; the supervisor itself loads no handlers.
        self.policies: dict[str, Policy] = {}
        self._timeouts: dict[str, float] = {}

    def learn(self, kind: str, policy: Policy, timeout_seconds: float | None) -> None:
        """How often a kind may be tried, and how long it may take."""
        self.policies[kind] = policy
        self._timeouts[kind] = timeout_seconds or self._options.timeout_seconds

    async def take_back(self, child: ExecutorProcess) -> None:
        """Give back what it held, however long the database takes to be there."""
        blame = Blame.for_end_of(child, self._timeouts)
        child.close()
        delay = ReconnectDelay()
        while True:
            try:
                if not await self._try(child.worker, blame):
                    # A claim of its last moment may have landed meanwhile.
                    await asyncio.sleep(LAST_CLAIM_SECONDS)
                    await self._try(child.worker, blame)
            except LinkLost:
                await asyncio.sleep(delay.next())
            except psycopg.Error as error:
                self._store.listen(StatementFailed("take back", str(error).strip()))
                await asyncio.sleep(delay.next() * 10)
            else:
                await self.close()
                return

    async def _try(self, worker: str, blame: Blame) -> bool:
        """Whether nothing of it is left, so that it could be crossed off."""
        await self._link.use(
            lambda conn: self._store.workers.take_back(conn, worker, blame.outcome_of, self._policy)
        )
        return await self._link.use(lambda conn: self._store.workers.retire(conn, worker))

    async def close(self) -> None:
        """Let its connection go."""
        await self._link.close()

    def _policy(self, kind: str) -> Policy:
        return self.policies.get(kind) or Policy(self._options.max_attempts)
