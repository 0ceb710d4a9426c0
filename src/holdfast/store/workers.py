"""The rows of workers: their leases, what they hold, and taking back what lost ones held."""

from collections.abc import Callable, Iterable, Sequence

from psycopg.rows import TupleRow

from holdfast.config import Settings
from holdfast.core.decide import Policy, decide
from holdfast.core.events import Listener, WorkersLost
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Failed, Outcome, Release, Released, WorkerLost
from holdfast.core.step import Step
from holdfast.core.task import Claim
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.permits import Permits
from holdfast.store.settle import Settled, Settler

RECLAIM_LIMIT = 50


class Workers:
    """Registers workers, renews their leases and takes back their tasks."""

    def __init__(self, settings: Settings, listen: Listener, settler: Settler, permits: Permits) -> None:
        self._sql = load("store/workers.sql", settings.schema_name)
        self._release = settings.release
        self._listen = listen
        self._settler = settler
        self._permits = permits

    async def register(
        self,
        conn: Conn,
        worker: str,
        name: str,
        lease_seconds: float,
        *,
        queues: Sequence[str] = (),
        kinds: Sequence[str] = (),
    ) -> None:
        """Begin a lease, and tell what this worker serves."""
        values = {
            "worker": worker,
            "name": name,
            "lease": lease_seconds,
            "queues": list(queues),
            "kinds": list(kinds),
            "release": self._release or None,
        }
        await conn.execute(self._sql["register_worker"], values)

    async def renew(self, conn: Conn, workers: Sequence[str], lease_seconds: float) -> frozenset[str]:
        """Prolong leases that have not ended; a worker that is not in the answer has lost its own."""
        values = {"workers": list(workers), "lease": lease_seconds}
        cursor = await conn.execute(self._sql["renew"], values)
        return frozenset(worker for (worker,) in await cursor.fetchall())

    async def cancel_requests(self, conn: Conn, worker: str) -> list[tuple[str, int, str]]:
        """The claims (task, fence) that a worker was asked to stop, and why."""
        cursor = await conn.execute(self._sql["cancel_requests"], {"worker": worker})
        return [(task_id, fence, reason) for task_id, fence, reason in await cursor.fetchall()]

    async def retire(self, conn: Conn, worker: str) -> bool:
        """Forget a worker that holds nothing any more; whether it was there and could be forgotten."""
        row = await (await conn.execute(self._sql["retire_worker"], {"worker": worker})).fetchone()
        assert row is not None, "a select without a table always answers"
        gone, freed = row
        await self._permits.enlist(conn, freed)
        return bool(gone)

    async def reconcile(self, conn: Conn, worker: str, held: Iterable[Claim]) -> Settled:
        """Give back, unspent, what stands in a worker's name and is not in its hands."""
        known = {(claim.id, claim.fence) for claim in held}

        def outcome_of(claim: Claim, _: bool) -> Outcome | None:  # noqa: FBT001 (a row's column)
            return None if (claim.id, claim.fence) in known else Released(Release.UNKNOWN_CLAIM)

        return await self.take_back(conn, worker, outcome_of, lambda _: Policy())

    async def held(self, conn: Conn, worker: str) -> list[Claim]:
        """What stands in running under a worker's name."""
        return as_claims(await self._held(conn, worker))

    async def _held(self, conn: Conn, worker: str) -> list[TupleRow]:
        cursor = await conn.execute(self._sql["held"], {"worker": worker})
        return await self._with_facts(conn, await cursor.fetchall())

    async def _with_facts(self, conn: Conn, rows: Sequence[TupleRow]) -> list[TupleRow]:
        """Rows of `lapsed` and `held`; claims on tasks that somebody has deleted are dropped."""
        missing = [(row[0], row[1]) for row in rows if row[2] is None]
        if missing:
            await self._settler.drop_missing(conn, missing)
        return [row for row in rows if row[2] is not None]

    async def take_back(
        self,
        conn: Conn,
        worker: str,
        outcome_of: Callable[[Claim, bool], Outcome | None],
        policy: Callable[[str], Policy],
    ) -> Settled:
        """Settle what stands in one worker's name by the outcome that each claim is given, if any.

        `outcome_of` is given the claim, and whether a process died under its task before.
        """
        rows = await self._held(conn, worker)
        outcomes = [
            (claim, outcome_of(claim, row[-1])) for claim, row in zip(as_claims(rows), rows, strict=True)
        ]
        return await self._settler.write(
            conn,
            [(claim, decide(claim, outcome, policy(claim.kind))) for claim, outcome in outcomes if outcome],
        )

    async def reclaim(
        self,
        conn: Conn,
        policy: Callable[[str], Policy],
        *,
        grace_seconds: float = 30.0,
        limit: int = RECLAIM_LIMIT,
        forward: Step | None = None,
    ) -> Settled:
        """Take back what silent workers hold, and what is long past its deadline.

        What started before the clock was put forward has not run for as long as it seems.
        """
        row = await (await conn.execute(self._sql["lose_workers"])).fetchone()
        assert row is not None, "a select without a table always answers"
        lost, freed = row
        await self._permits.enlist(conn, freed)
        if lost:
            self._listen(WorkersLost(lost))
        values = {
            "grace": grace_seconds,
            "limit": limit,
            "before": forward and forward.before,
            "forward": forward and forward.seconds,
        }
        found = await (await conn.execute(self._sql["lapsed"], values)).fetchall()
        rows = await self._with_facts(conn, found)
        settlements = [
            (claim, decide(claim, _outcome_of_lost(claim, *row[-3:]), policy(claim.kind)))
            for claim, row in zip(as_claims(rows), rows, strict=True)
        ]
        # Whoever was refused here lost a race with the holder or with another reclaimer: no news.
        return await self._settler.write(conn, settlements)

    async def take_maintenance(self, conn: Conn, holder: str, lease_seconds: float) -> tuple[bool, float]:
        """Take or prolong the lease on the chores: whether it is ours, and for how long it holds."""
        values = {"holder": holder, "lease": lease_seconds}
        row = await (await conn.execute(self._sql["take_maintenance"], values)).fetchone()
        # Whoever held it may have left between the two looks of the statement: then it is free now.
        return (row[0], row[1]) if row is not None else (False, 0.0)

    async def leave_maintenance(self, conn: Conn, holder: str) -> None:
        """Let someone else have the chores."""
        await conn.execute(self._sql["leave_maintenance"], {"holder": holder})


def _outcome_of_lost(claim: Claim, overdue: bool, sole: bool | None, lost_before: bool) -> Outcome:  # noqa: FBT001 (a row's columns)
    if overdue:
        message = f"it was still running past its deadline in worker {claim.worker}"
        return Failed(Failure.of(FailureClass.TIMEOUT, message))
    if sole is None:
        return Released(Release.UNKNOWN_CLAIM)
    # A whole tree goes down with its machine far more often than by a task, and nobody knows what had
    # started: only what is lost again is a suspect.
    return WorkerLost(sole=sole, how="its worker's lease ended", suspect=lost_before)


def as_claims(rows: Iterable[TupleRow]) -> list[Claim]:
    """Rows of `lapsed` and `held`: the claim's columns, when it started, who has it, and three more."""
    return [Claim._make((*row[:-3], (), None)) for row in rows]
