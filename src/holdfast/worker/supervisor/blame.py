"""Takes back a dead executor's tasks and decides which of them are to blame for its death."""

import asyncio

import psycopg

from holdfast.core.decide import Policy
from holdfast.core.events import StatementFailed
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.store import Store
from holdfast.worker.options import WorkerOptions
from holdfast.worker.supervisor.executor_process import Child, Fates

LAST_CLAIM_SECONDS = 0.5


class Burials:
    """The burials of one supervisor, on a connection that is there only while it is needed."""

    def __init__(self, options: WorkerOptions, store: Store) -> None:
        self._options = options
        self._store = store
        self._link = Link(
            options.url,
            f"holdfast {options.name} burials",
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

    async def bury(self, child: Child) -> None:
        """Give back what it held, however long the database takes to be there."""
        fates = child.fates(self._timeouts)
        child.bury()
        delay = ReconnectDelay()
        while True:
            try:
                if not await self._take_back(child.worker, fates):
                    # A claim of its last moment may have landed meanwhile.
                    await asyncio.sleep(LAST_CLAIM_SECONDS)
                    await self._take_back(child.worker, fates)
            except LinkLost:
                await asyncio.sleep(delay.next())
            except psycopg.Error as error:
                self._store.listen(StatementFailed("take back", str(error).strip()))
                await asyncio.sleep(delay.next() * 10)
            else:
                await self.close()
                return

    async def _take_back(self, worker: str, fates: Fates) -> bool:
        """Whether nothing of it is left, so that it could be crossed off."""
        await self._link.use(lambda conn: self._store.workers.take_back(conn, worker, fates.of, self._policy))
        return await self._link.use(lambda conn: self._store.workers.retire(conn, worker))

    async def close(self) -> None:
        """Let its connection go."""
        await self._link.close()

    def _policy(self, kind: str) -> Policy:
        return self.policies.get(kind) or Policy(self._options.max_attempts)
