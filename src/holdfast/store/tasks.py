"""The life of a task in the database: enqueue, claim, settle, take back; `tasks.sql` has the words.

Every method runs on the connection it is given, so that it commits with whatever else is there. What
an operator does to tasks that nobody holds is in `operate.py`.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg
from psycopg.rows import TupleRow
from uuid_utils import uuid7

from holdfast.config import Settings
from holdfast.core.decide import Policy, decide
from holdfast.core.errors import KeyConflict, LeaseLost, PayloadTooLarge
from holdfast.core.events import (
    Listener,
    TasksClaimed,
    TasksEnqueued,
    TasksParked,
    WorkersLost,
    silent,
)
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Failed, Outcome, Release, Released, WorkerLost
from holdfast.core.task import KEY_WINDOW_SECONDS, Claim, Enqueued, NewTask
from holdfast.store.floor import Floor, Range, Snapshot
from holdfast.store.pool import Conn
from holdfast.store.settle import Settled, Settlement, Settler, array_literal
from holdfast.store.sql import load

TIMEOUT_SECONDS = 600.0
SHUNT_LIMIT = 1_000
RECLAIM_LIMIT = 50
KEY_CONFLICT = "HF001"


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took, and what it moved behind buckets on the way."""

    claims: Sequence[Claim]
    parked: int
    seen: Snapshot
    paused: frozenset[str]


class TaskStore:
    """The door through which every task is written."""

    def __init__(self, settings: Settings | None = None, listen: Listener = silent) -> None:
        self.settings = settings or Settings()
        self.listen = listen
        self._sql = load("tasks.sql", self.settings.schema_name)
        self._settler = Settler(self.settings, listen)

    async def enqueue(self, conn: Conn, task: NewTask) -> Enqueued:
        """Add one task, in the caller's transaction."""
        (enqueued,) = await self.enqueue_many(conn, [task])
        return enqueued

    async def enqueue_many(
        self, conn: Conn, tasks: Sequence[NewTask], key_seconds: float = KEY_WINDOW_SECONDS
    ) -> list[Enqueued]:
        """Add many tasks in one statement; a key that stands for another task answers with that."""
        limit = self.settings.payload_bytes_max
        for task in tasks:
            # A character takes at least one byte, so most payloads need no encoding to be measured.
            if len(task.payload) * 4 > limit and (size := len(task.payload.encode())) > limit:
                raise PayloadTooLarge(task.kind, size, limit)
        ids = [task.id or str(uuid7()) for task in tasks]
        values = _columns(ids, tasks) | {"key_seconds": key_seconds}
        try:
            cursor = await conn.execute(self._sql["enqueue_many"], values)
        except psycopg.Error as error:
            if error.sqlstate == KEY_CONFLICT:
                raise KeyConflict(error.diag.message_primary or str(error)) from error
            raise
        known: dict[str, str] = dict(await cursor.fetchall())
        enqueued = [Enqueued(known.get(id_, id_), id_ not in known) for id_ in ids]
        self.listen(TasksEnqueued(list(zip(tasks, enqueued, strict=True))))
        return enqueued

    async def claim(
        self, conn: Conn, floor: Floor, worker: str, limit: int, timeout: float = TIMEOUT_SECONDS
    ) -> Claimed:
        """Take up to so many tasks from the floor on, in strict order of queue and priority."""
        claimed = await self.claim_ranges(conn, floor.ranges(), worker, limit, timeout)
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
    ) -> Claimed:
        """Take up to so many tasks out of these ranges; nobody's floor learns from it."""
        values = _arrays(ranges) | {"limit": limit, "worker": worker, "timeout": timeout}
        cursor = await conn.execute(self._sql["claim"], values)
        head, *rows = await cursor.fetchall()
        seen = Snapshot(xmin=head[1], number=head[19], at=head[8].astimezone(UTC))
        claims = [Claim._make((*row, seen.at, worker)) for row in rows]
        order = {(r.queue, r.priority): place for place, r in enumerate(ranges)}
        claims.sort(key=lambda claim: (order[claim.queue, claim.priority], claim.run_at, claim.id))
        if claims:
            self.listen(TasksClaimed(worker, claims))
        parked: int = head[16]
        if parked:
            self.listen(TasksParked(parked))
        return Claimed(claims, parked, seen, frozenset(json.loads(head[5] or "[]")))

    async def claim_waiting(
        self,
        conn: Conn,
        queues: Sequence[str],
        worker: str,
        limit: int,
        timeout: float = TIMEOUT_SECONDS,
    ) -> list[Claim]:
        """Take up to so many tasks from behind buckets that have room."""
        values = {"queues": list(queues), "limit": limit, "worker": worker, "timeout": timeout}
        cursor = await conn.execute(self._sql["claim_waiting"], values)
        claims = [Claim._make((*row, worker)) for row in await cursor.fetchall()]
        if claims:
            self.listen(TasksClaimed(worker, claims))
        return claims

    async def shunt(self, conn: Conn, floor: Floor, limit: int = SHUNT_LIMIT) -> int:
        """Move tasks that stand behind buckets out of the way of claims, many at a time."""
        values = _arrays(floor.ranges()) | {"limit": limit}
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

    async def register(self, conn: Conn, worker: str, name: str, lease_seconds: float) -> None:
        """Begin a lease."""
        values = {"worker": worker, "name": name, "lease": lease_seconds}
        await conn.execute(self._sql["register_worker"], values)

    async def renew(self, conn: Conn, worker: str, lease_seconds: float) -> datetime:
        """Prolong a lease that has not ended; answers its new end."""
        values = {"worker": worker, "lease": lease_seconds}
        row = await (await conn.execute(self._sql["renew"], values)).fetchone()
        if row is None:
            raise LeaseLost(worker)
        end: datetime = row[0]
        return end

    async def cancel_requests(self, conn: Conn, worker: str) -> list[tuple[str, int, str]]:
        """The claims (task, fence) that a worker was asked to stop, and why."""
        cursor = await conn.execute(self._sql["cancel_requests"], {"worker": worker})
        return [(task_id, fence, reason) for task_id, fence, reason in await cursor.fetchall()]

    async def retire(self, conn: Conn, worker: str) -> None:
        """Forget a worker that holds nothing any more."""
        await conn.execute(self._sql["retire_worker"], {"worker": worker})

    async def reconcile(self, conn: Conn, worker: str, held: Iterable[Claim]) -> Settled:
        """Give back, unspent, what stands in a worker's name and is not in its hands."""
        known = {(claim.id, claim.fence) for claim in held}
        cursor = await conn.execute(self._sql["held"], {"worker": worker})
        strays = [
            (claim, decide(claim, Released(Release.UNKNOWN_CLAIM), Policy()))
            for claim in _lapsed(await cursor.fetchall())
            if (claim.id, claim.fence) not in known
        ]
        return await self._settler.write(conn, strays)

    async def reclaim(
        self,
        conn: Conn,
        policy: Policy,
        *,
        grace_seconds: float = 30.0,
        limit: int = RECLAIM_LIMIT,
    ) -> Settled:
        """Take back what silent workers hold, and what is long past its deadline."""
        lost = [id_ for (id_,) in await (await conn.execute(self._sql["lose_workers"])).fetchall()]
        if lost:
            self.listen(WorkersLost(lost))
        values = {"grace": grace_seconds, "limit": limit}
        rows = await (await conn.execute(self._sql["lapsed"], values)).fetchall()
        settlements = [
            (claim, decide(claim, _fate(claim, overdue=row[-2], alone=row[-1]), policy))
            for claim, row in zip(_lapsed(rows), rows, strict=True)
        ]
        # Whoever was refused here lost a race with the holder or with another reclaimer: no news.
        return await self._settler.write(conn, settlements)


def _fate(claim: Claim, *, overdue: bool, alone: bool) -> Outcome:
    if overdue:
        message = f"it was still running past its deadline in worker {claim.worker}"
        return Failed(Failure.of(FailureClass.TIMEOUT, message))
    return WorkerLost(alone=alone)


def _columns(ids: Sequence[str], tasks: Sequence[NewTask]) -> dict[str, object]:
    """The tasks as arrays, a null for each column that nobody used."""
    columns: dict[str, list[object]] = {
        "kinds": [task.kind for task in tasks],
        "payloads": [task.payload for task in tasks],
        "queues": [task.queue for task in tasks],
        "priorities": [task.priority for task in tasks],
        "run_ats": [task.run_at for task in tasks],
        "versions": [task.version for task in tasks],
        "subjects": [task.subject for task in tasks],
        "trace_ids": [task.trace_id for task in tasks],
        "keys": [task.key for task in tasks],
        "uniques": [str(task.unique) for task in tasks],
        "expires_ats": [task.expires_at for task in tasks],
        "bucket_names": [task.bucket for task in tasks],
        "attempts_max": [task.max_attempts for task in tasks],
        "timeouts": [task.timeout_seconds for task in tasks],
    }
    values: dict[str, object] = {
        name: column if any(value is not None for value in column) else None
        for name, column in columns.items()
    }
    values["ids"] = array_literal(ids)
    return values


def _arrays(ranges: Sequence[Range]) -> dict[str, object]:
    return {
        "queues": [stretch.queue for stretch in ranges],
        "priorities": [stretch.priority for stretch in ranges],
        "froms": [stretch.start for stretch in ranges],
        "tos": [stretch.end for stretch in ranges],
    }


def _lapsed(rows: Iterable[TupleRow]) -> list[Claim]:
    """Rows of `lapsed` and `held`: the claim's columns, when it started, who has it, overdue, alone."""
    return [Claim._make(row[:-2]) for row in rows]
