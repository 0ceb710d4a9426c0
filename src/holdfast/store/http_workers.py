"""The rows of HTTP workers: register, renew, and lock while a request acts for one.

Nothing about them is in anybody's memory: what such a worker holds is what stands in its name.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from uuid_utils import uuid7

from holdfast.core.errors import Misused, WorkerNotFound
from holdfast.core.state import Move
from holdfast.core.task import Claim
from holdfast.db.connect import Conn
from holdfast.db.statements import load_all
from holdfast.store.operate import Operator
from holdfast.store.store import Store
from holdfast.store.workers import as_claims

# A worker of ours counts its connections; one of these has none, and whoever speaks for it holds its row.
GENERATION = 0
# Workers of one token that are alive at once.
LIVE_MAX = 200


@dataclass(frozen=True, slots=True)
class Lease:
    """An outside worker that is alive, and until when it is believed to be."""

    worker: str
    expires_at: datetime
    queues: Sequence[str]
    kinds: Sequence[str]


class HttpWorkerRows:
    """What is written for outside workers, each in the name of the token that entered it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sql = load_all(["store/http_workers.sql", "store/permits.sql"], store.settings.schema_name)

    async def enter(
        self,
        conn: Conn,
        token: str,
        name: str,
        queues: Sequence[str],
        kinds: Sequence[str],
        lease_seconds: float,
    ) -> Lease:
        """A new worker, with its lease."""
        row = await (await conn.execute(self._sql["live_outside"], {"token": token})).fetchone()
        assert row is not None, "a count always answers"
        if row[0] >= LIVE_MAX:
            raise Misused(
                f"{LIVE_MAX} workers of this token are alive: let some leave, or let their leases end"
            )
        worker = str(uuid7())
        values = {
            "worker": worker,
            "name": name,
            "lease": lease_seconds,
            "queues": list(queues),
            "kinds": list(kinds),
            "token": token,
        }
        row = await (await conn.execute(self._sql["register_outside"], values)).fetchone()
        assert row is not None, "an insert answers"
        return Lease(worker, row[0], queues, kinds)

    async def renew(self, conn: Conn, token: str, worker: str) -> Lease:
        """Prolong its lease; nobody else speaks for it until this transaction ends."""
        values = {"worker": worker, "token": token}
        row = await (await conn.execute(self._sql["renew_outside"], values)).fetchone()
        if row is None:
            raise WorkerNotFound(worker)
        return Lease(worker, *row)

    async def lock(self, conn: Conn, token: str, worker: str) -> None:
        """Nobody else speaks for it until this transaction ends."""
        values = {"worker": worker, "token": token}
        if await (await conn.execute(self._sql["lock_outside"], values)).fetchone() is None:
            raise WorkerNotFound(worker)

    async def holds(self, conn: Conn, worker: str, task: str, fence: int) -> Claim | None:
        """The claim, if it is still this worker's; nobody takes it back until this transaction ends."""
        values = {"worker": worker, "task": task, "fence": fence}
        cursor = await conn.execute(self._sql["held_task"], values)
        return next(iter(as_claims(await cursor.fetchall())), None)

    async def told(self, conn: Conn, worker: str, task: str, fence: int) -> Claim:
        """The claim as a worker speaks of it, which does not hold the task."""
        view = await Operator(self._store.settings).show(conn, task)
        began, counters = view.last_attempt_at or view.enqueued_at, view.counters
        return Claim(
            view.id,
            fence,
            view.kind,
            view.queue,
            view.priority,
            view.payload or "{}",
            version=1,
            run_at=began,
            enqueued_at=view.enqueued_at,
            expires_at=None,
            subject=view.subject,
            trace_id=view.trace_id,
            key=view.key,
            bucket=view.bucket,
            max_attempts=view.max_attempts,
            timeout_seconds=None,
            attempts=counters.attempts,
            failures=counters.failures,
            crashes=counters.crashes,
            polls=counters.polls,
            rate_limits=counters.rate_limits,
            isolate=False,
            polled=None,
            claimed_at=began,
            worker=worker,
        )

    async def ended_as(
        self, conn: Conn, worker: str, task: str, fence: int, moves: Sequence[Move]
    ) -> Move | None:
        """How this worker ended that claim, if it did in one of these ways."""
        values = {"worker": worker, "task": task, "fence": fence, "moves": list(moves)}
        row = await (await conn.execute(self._sql["ended_as"], values)).fetchone()
        return None if row is None else Move(row[0])

    async def may_be_late(self, conn: Conn, worker: str, task: str, fence: int) -> bool:
        """Whether it held that claim, so that its late result is to be recorded, and was not before."""
        values = {"worker": worker, "task": task, "fence": fence}
        row = await (await conn.execute(self._sql["may_be_late"], values)).fetchone()
        return row is not None and bool(row[0])

    async def keep_permits(self, conn: Conn, worker: str, ended: Sequence[Claim] = ()) -> None:
        """Give back the permits of limits that nothing in its name needs any more.

        Where some have ended, only if they can have had one.
        """
        if ended:
            values = {"worker": worker, "names": list(_limits_of(ended))}
            row = await (await conn.execute(self._sql["has_permits"], values)).fetchone()
            if row is None or not row[0]:
                return
        held = await self._store.workers.held(conn, worker)
        # Names without a permit are passed over: limits that it does not have cost nothing.
        await self._store.permits.set_permits(conn, worker, GENERATION, _limits_of(held))


def _limits_of(claims: Sequence[Claim]) -> Counter[str]:
    """The limits that these may count against, each with how many."""
    return Counter(
        name
        for claim in claims
        for name in (claim.bucket, f"kind:{claim.kind}", f"queue:{claim.queue}")
        if name is not None
    )
