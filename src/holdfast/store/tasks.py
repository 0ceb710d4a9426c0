"""Claims tasks, settles them, and takes back those of lost workers; keeps the rows of workers.

Every method runs on the connection it is given, so that it commits with whatever else is there. What
an operator does to tasks that nobody holds is in `operate.py`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from operator import attrgetter

from psycopg.rows import TupleRow

from holdfast.config import Settings
from holdfast.core.decide import Policy, decide
from holdfast.core.events import (
    Listener,
    TasksClaimed,
    TasksParked,
    WorkersLost,
    silent,
)
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Failed, Outcome, Release, Released, WorkerLost
from holdfast.core.step import Step
from holdfast.core.task import KEY_WINDOW_SECONDS, TIMEOUT_SECONDS, Claim, Enqueued, NewTask
from holdfast.db.bridges import bridge_async
from holdfast.db.connect import Conn
from holdfast.db.statements import load_all
from holdfast.store.enqueue import Enqueuer
from holdfast.store.floor import Floor, Range, Snapshot
from holdfast.store.permits import NOTHING_AT_ONCE, AtOnce, Leasing
from holdfast.store.settle import Settled, Settlement, Settler

SHUNT_LIMIT = 1_000
RECLAIM_LIMIT = 50
HINT_CHANNEL = "ready"
_IN_TIME = attrgetter("run_at", "id")


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took, what it moved behind buckets on the way, and whether it saw a bucket's turn."""

    claims: Sequence[Claim]
    parked: int
    turns: bool
    seen: Snapshot
    paused: frozenset[str]


class TaskStore:
    """The door through which every task is written."""

    def __init__(self, settings: Settings | None = None, listen: Listener = silent) -> None:
        self.settings = settings or Settings()
        self.listen = listen
        self._sql = load_all(["store/claim.sql", "store/workers.sql"], self.settings.schema_name)
        self._settler = Settler(self.settings, listen)
        self._enqueuer = Enqueuer(self.settings, listen)
        self.leasing = Leasing(self.settings, listen)

    async def enqueue(self, conn: Conn, task: NewTask) -> Enqueued:
        """Add one task, in the caller's transaction."""
        (enqueued,) = await self.enqueue_many(conn, [task])
        return enqueued

    async def enqueue_many(
        self, conn: Conn, tasks: Sequence[NewTask], key_seconds: float = KEY_WINDOW_SECONDS
    ) -> list[Enqueued]:
        """Add many tasks in one statement; a key that stands for another task answers with that."""
        return await self._enqueuer.enqueue(bridge_async(conn), tasks, key_seconds)

    async def claim(
        self,
        conn: Conn,
        floor: Floor,
        worker: str,
        limit: int,
        timeout: float = TIMEOUT_SECONDS,
        at_once: AtOnce = NOTHING_AT_ONCE,
    ) -> Claimed:
        """Take up to so many tasks from the floor on, in strict order of queue and priority."""
        claimed = await self.claim_ranges(conn, floor.ranges(), worker, limit, timeout, at_once)
        floor.learn(
            claimed.seen,
            [(claim.queue, claim.priority, claim.run_at) for claim in claimed.claims],
            full=len(claimed.claims) + claimed.parked >= limit,
            unread=claimed.paused,
        )
        return claimed

    async def claim_ranges(
        self,
        conn: Conn,
        ranges: Sequence[Range],
        worker: str,
        limit: int,
        timeout: float = TIMEOUT_SECONDS,
        at_once: AtOnce = NOTHING_AT_ONCE,
    ) -> Claimed:
        """Take up to so many tasks out of these ranges; nobody's floor learns from it."""
        values = _arrays(ranges) | {
            "limit": limit,
            "worker": worker,
            "timeout": timeout,
            "at_once": at_once.tasks,
            "known": list(at_once.kinds),
            "epoch": at_once.epoch,
            "turns": at_once.turns,
        }
        cursor = await conn.execute(self._sql["claim"], values)
        head, *rows = await cursor.fetchall()
        seen = Snapshot(xmin=head[1], number=head[19], at=head[8].astimezone(UTC))
        claims = [Claim._make((*row, seen.at, worker, (row[13],) if row[13] else (), None)) for row in rows]
        if claims:
            claims.sort(key=_IN_TIME)
            if len({(claim.queue, claim.priority) for claim in claims}) > 1:
                order = {(r.queue, r.priority): place for place, r in enumerate(ranges)}
                claims.sort(key=lambda claim: order[claim.queue, claim.priority])
            self.listen(TasksClaimed(worker, claims))
        parked: int = head[16]
        if parked:
            self.listen(TasksParked(parked))
        return Claimed(claims, parked, bool(head[21]), seen, frozenset(json.loads(head[5] or "[]")))

    async def shunt(self, conn: Conn, ranges: Sequence[Range], limit: int = SHUNT_LIMIT) -> int:
        """Move tasks that stand behind buckets out of the way of claims, many at a time."""
        values = _arrays(ranges) | {"limit": limit}
        cursor = await conn.execute(self._sql["shunt"], values)
        row = await cursor.fetchone()
        assert row is not None, "a count always answers"
        moved: int = row[0]
        if moved:
            self.listen(TasksParked(moved))
        return moved

    async def take_sweep(self, conn: Conn, queues: Sequence[str], every: float) -> list[str]:
        """The queues whose walk below the floor is now this claimer's."""
        values = {"queues": sorted(queues), "every": every}
        cursor = await conn.execute(self._sql["take_sweep"], values)
        return [queue for (queue,) in await cursor.fetchall()]

    async def settle(self, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
        """Write the verdicts of one holder; late ones are refused, recorded and told."""
        return await self._settler.settle(conn, settlements)

    async def settle_again(self, conn: Conn, settlements: Sequence[Settlement]) -> Settled:
        """Settle after an answer was lost: what was written the first time counts as accepted."""
        return await self._settler.settle_again(conn, settlements)

    async def refuse(self, conn: Conn, late: Sequence[Settlement]) -> None:
        """Record and tell that these came from somebody who does not hold the task any more."""
        await self._settler.refuse(conn, late)

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
            "release": self.settings.release or None,
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
        await self.leasing.offer(conn, freed)
        return bool(gone)

    async def reconcile(self, conn: Conn, worker: str, held: Iterable[Claim]) -> Settled:
        """Give back, unspent, what stands in a worker's name and is not in its hands."""
        known = {(claim.id, claim.fence) for claim in held}

        def fate(claim: Claim, _: bool) -> Outcome | None:  # noqa: FBT001 (a row's column)
            return None if (claim.id, claim.fence) in known else Released(Release.UNKNOWN_CLAIM)

        return await self.take_back(conn, worker, fate, lambda _: Policy())

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
        fate: Callable[[Claim, bool], Outcome | None],
        policy: Callable[[str], Policy],
    ) -> Settled:
        """Settle what stands in one worker's name by the outcome that each claim is given, if any.

        `fate` is given the claim, and whether a process died under its task before.
        """
        rows = await self._held(conn, worker)
        fates = [(claim, fate(claim, row[-1])) for claim, row in zip(as_claims(rows), rows, strict=True)]
        return await self._settler.write(
            conn,
            [(claim, decide(claim, outcome, policy(claim.kind))) for claim, outcome in fates if outcome],
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
        await self.leasing.offer(conn, freed)
        if lost:
            self.listen(WorkersLost(lost))
        values = {
            "grace": grace_seconds,
            "limit": limit,
            "before": forward and forward.before,
            "forward": forward and forward.seconds,
        }
        found = await (await conn.execute(self._sql["lapsed"], values)).fetchall()
        rows = await self._with_facts(conn, found)
        settlements = [
            (claim, decide(claim, _fate(claim, *row[-3:]), policy(claim.kind)))
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


def _fate(claim: Claim, overdue: bool, alone: bool | None, lost_before: bool) -> Outcome:  # noqa: FBT001 (a row's columns)
    if overdue:
        message = f"it was still running past its deadline in worker {claim.worker}"
        return Failed(Failure.of(FailureClass.TIMEOUT, message))
    if alone is None:
        return Released(Release.UNKNOWN_CLAIM)
    # A whole tree goes down with its machine far more often than by a task, and nobody knows what had
    # started: only what is lost again is a suspect.
    return WorkerLost(alone=alone, how="its worker's lease ended", suspect=lost_before)


def _arrays(ranges: Sequence[Range]) -> dict[str, object]:
    return {
        "queues": [stretch.queue for stretch in ranges],
        "priorities": [stretch.priority for stretch in ranges],
        "froms": [stretch.start for stretch in ranges],
        "tos": [stretch.end for stretch in ranges],
    }


def as_claims(rows: Iterable[TupleRow]) -> list[Claim]:
    """Rows of `lapsed` and `held`: the claim's columns, when it started, who has it; three about its fate."""
    return [Claim._make((*row[:-3], (), None)) for row in rows]
