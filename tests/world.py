"""The store and its surroundings for tests: short verbs, the past changed at will, invariants checked."""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.decide import Policy, Verdict, decide
from holdfast.core.events import Event
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Complete, Failed, Outcome
from holdfast.core.state import State
from holdfast.core.task import Claim, NewTask, TaskView
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import function_statements
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.operate import Operator
from holdfast.store.permits import BlockedRequest, whole_line
from holdfast.store.settle import Settled
from holdfast.store.store import Store
from holdfast.store.unserved_kinds import UnservedKinds
from holdfast.testing import TABLES

LEASE_SECONDS = 30.0
AUDIT = ("audit_log", "audit_unsealed", "audit_seals", "audit_pruned")
ACCESS = ("api_sessions", "api_tokens", "api_answers")

# Nothing in two places, nothing nowhere, nothing counted wrong. Each line names a broken promise.
INVARIANTS = """
with places as (
    select id, 'ready' as place from holdfast.ready
    union all select id, 'blocked' from holdfast.blocked
    union all select id, 'running' from holdfast.running
)
select 'in two places: ' || id::text || ' ' || string_agg(place, '+')
from places group by id having count(*) > 1
union all
select 'a place without facts: ' || p.place || ' ' || p.id::text from places p
where not exists (select from holdfast.tasks t where t.id = p.id)
union all
select 'nowhere: ' || t.id::text from holdfast.tasks t
where t.mark is null and not exists (select from places p where p.id = t.id)
union all
select 'marked ' || t.mark || ' and still in ' || p.place
from holdfast.tasks t join places p on p.id = t.id where t.mark is not null
union all
select 'alive and in history: ' || t.id::text
from holdfast.tasks t join holdfast.task_history h on h.id = t.id
union all
select 'completed twice: ' || h.id::text from holdfast.task_history h group by h.id having count(*) > 1
union all
select 'ready row that its facts do not know: ' || r.id::text
from holdfast.ready r join holdfast.tasks t on t.id = r.id
where (r.queue, r.priority, r.run_at, r.kind) is distinct from (t.queue, t.priority, t.run_at, t.kind)
union all
select 'limit ' || b.name || ' of ' || b.capacity || ' has leased ' || sum(s.permits)
from holdfast.buckets b join holdfast.permits s on s.bucket = b.name
group by b.name having sum(s.permits) > b.capacity
union all
select 'a lane with two: ' || s.bucket
from holdfast.permits s where s.bucket like 'lane%' group by s.bucket having sum(s.permits) > 1
union all
select 'a bucket with work, room and no turn: ' || w.bucket
from (select distinct bucket from holdfast.blocked) w
left join holdfast.buckets b on b.name = w.bucket
left join holdfast.buckets d on d.name = left(w.bucket, strpos(w.bucket, '=')) || '*'
where not exists (select from holdfast.line t where t.bucket = w.bucket)
    and w.bucket not like 'after:%'
    -- The claim that meets one of the bucket in ready gives it its turn.
    and not exists (select from holdfast.ready r where r.bucket = w.bucket and r.run_at <= now())
    and (select coalesce(sum(s.permits), 0) from holdfast.permits s where s.bucket = w.bucket)
        < coalesce(b.capacity, d.capacity, case when w.bucket like 'lane%' then 1 else 1000000 end)
    and (w.bucket not like 'lane%' or (
        select t.id from holdfast.tasks t
        where t.bucket = w.bucket
            and (t.mark is null or t.bucket like 'lane!:%' and t.mark in ('failed', 'paused'))
        order by t.position limit 1
    ) in (select o.id from holdfast.blocked o))
union all
select 'a follow-up that nobody will release: ' || t.id::text
from holdfast.tasks t
left join holdfast.blocked w on w.id = t.id
where 'after:' || t.id in (t.bucket, w.bucket)
    and not exists (select from holdfast.followups f where f.task_id = t.id and f.released_at is null)
union all
select 'a fence accepted twice: ' || f.fence || ' ' || f.id::text from (
    select id, fence from holdfast.task_history
    union all select task_id, fence from holdfast.task_attempts where ended_as <> 'late'
    union all select id, fence from holdfast.running
) f group by f.id, f.fence having count(*) > 1
"""


class World:
    """One database with a store, an operator, an owned policy, and a worker named `a`."""

    def __init__(self, conn: Conn, url: str) -> None:
        self.conn = conn
        self.url = url
        self.events: list[Event] = []
        settings = Settings(database_url=url)
        self.store = Store(settings, self.events.append)
        self.unserved = UnservedKinds(settings, self.events.append)
        self.operator = Operator(settings, self.events.append, by="ada")
        self.policy = Policy(max_attempts=3, jitter=random.Random(7))
        self.worker = str(uuid4())
        self._registered: set[str] = set()
        self._stack = AsyncExitStack()

    @staticmethod
    async def empty(conn: Conn) -> None:
        """Leave no row behind."""
        # Few rows: deleting them takes a hundredth of what truncating a dozen tables takes.
        # The audit lets nothing go; only the owner of the whole server can look past its triggers.
        statements = ["set local session_replication_role = replica"]
        statements += [f"delete from holdfast.{table}" for table in (*TABLES, *AUDIT, *ACCESS)]
        async with conn.transaction():
            await conn.execute("; ".join(statements))

    @staticmethod
    async def reset_prunes(conn: Conn) -> None:
        """Let entries of any age be pruned again: a test that migrated as users do has left the default."""
        row = await (await conn.execute("select holdfast.audit_prune_days_min()")).fetchone()
        if row != (0,):
            for statement in function_statements("holdfast", audit_prune_days_min=0):
                await conn.execute(statement)

    async def open(self) -> Conn:
        """Another connection, closed at the end of the test."""
        return await self._stack.enter_async_context(await connect(self.url))

    async def open_direct(self, url: str) -> Conn:
        """Another connection past any pooler, for a transaction that stays open."""
        return await self._stack.enter_async_context(await connect(url))

    async def close(self) -> None:
        await self._stack.aclose()

    async def check(self, conn: Conn | None = None) -> None:
        """Raise if an invariant is broken."""
        cursor = await (conn or self.conn).execute(INVARIANTS)
        broken = [row[0] for row in await cursor.fetchall()]
        assert not broken, "\n".join(broken)

    async def enqueue(self, kind: str = "mail.send", conn: Conn | None = None, **options: object) -> str:
        payload = options.pop("payload", {})
        task = NewTask(kind, json.dumps(payload), **options)  # type: ignore[arg-type]
        return (await self.store.enqueue(conn or self.conn, task)).id

    async def claim(
        self,
        limit: int = 100,
        *,
        queues: Sequence[str] = ("default",),
        worker: str | None = None,
        conn: Conn | None = None,
        kinds: Sequence[str] | None = None,
    ) -> list[Claim]:
        """Claim from the very beginning: from ready, and from behind buckets."""
        worker = worker or self.worker
        conn = conn or self.conn
        await self.register(worker)
        cursor = await conn.execute("select distinct kind from holdfast.tasks")
        there = [kind for (kind,) in await cursor.fetchall()]
        ready = ClaimRequest(all_ranges(queues), kinds or there, at_once=limit)
        claimed = await self.store.claims.claim(conn, worker, limit, ready)
        claims = list(claimed.claims)
        if len(claims) < limit:
            request = BlockedRequest(whole_line(queues, kinds or there), queues, kinds)
            room = limit - len(claims)
            claims += (await self.store.permits.claim_blocked(conn, worker, room, request)).claims
        return claims

    async def register(self, worker: str, queues: Sequence[str] = (), kinds: Sequence[str] = ()) -> None:
        if worker not in self._registered:
            self._registered.add(worker)
            await self.store.workers.register(
                self.conn, worker, "test", LEASE_SECONDS, queues=queues, kinds=kinds
            )

    async def mark_unserved(self, kind: str) -> None:
        """As maintenance does while no live worker serves a kind."""
        await self.conn.execute(
            "insert into holdfast.buckets (name, kind, unserved_at) values (%s, %s, now())",
            [f"kind:{kind}", kind],
        )

    async def claim_one(self, **options: object) -> Claim:
        (claim,) = await self.claim(1, **options)  # type: ignore[arg-type]
        return claim

    def verdict(self, claim: Claim, outcome: Outcome) -> tuple[Claim, Verdict]:
        return claim, decide(claim, outcome, self.policy)

    async def settle(self, *pairs: tuple[Claim, Outcome], conn: Conn | None = None) -> Settled:
        group = [self.verdict(claim, outcome) for claim, outcome in pairs]
        settled = await self.store.settler.settle(conn or self.conn, group)
        for claim, _ in settled.accepted:
            if claim.limits:
                await self.store.permits.free_permits(
                    conn or self.conn, claim.worker, 0, dict.fromkeys(claim.limits, 1)
                )
        return settled

    async def reclaim(self, conn: Conn, **options: object) -> Settled:
        """As maintenance does it."""
        return await self.store.workers.reclaim(conn, lambda _: self.policy, **options)  # type: ignore[arg-type]

    async def complete(self, claim: Claim) -> bool:
        return bool((await self.settle((claim, Complete()))).accepted)

    async def state(self, task_id: str) -> State:
        return (await self.show(task_id)).state

    async def show(self, task_id: str) -> TaskView:
        return await self.operator.show(self.conn, task_id)

    async def attempts(self, task_id: str) -> list[str]:
        """How each claim of a task ended, in order, success left out."""
        cursor = await self.conn.execute(
            "select ended_as from holdfast.task_attempts where task_id = %s order by fence, ended_at",
            [task_id],
        )
        return [row[0] for row in await cursor.fetchall()]

    async def elapse(self, seconds: float) -> None:
        """Let time pass by moving the past: everything happened so much earlier."""
        ago = timedelta(seconds=seconds)
        async with self.conn.transaction():
            for table, columns in {
                "tasks": ("run_at", "expires_at", "marked_at", "polling_since", "progressed_at"),
                "ready": ("run_at",),
                "running": ("started_at", "deadline_at"),
                "workers": ("lease_expires_at",),
                "task_keys": ("expires_at",),
                "sweeps": ("due_at",),
            }.items():
                moved = ", ".join(f"{column} = {column} - %(ago)s" for column in columns)
                await self.conn.execute(f"update holdfast.{table} set {moved}", {"ago": ago})

    async def lapse(self, *workers: str) -> None:
        """End the leases of workers."""
        await self.conn.execute(
            "update holdfast.workers set lease_expires_at = now() - interval '1 s' "
            "where id = any (%s::uuid[])",
            [list(workers)],
        )

    async def rows_of(self, table: str, columns: str) -> list[tuple[object, ...]]:
        return await (await self.conn.execute(f"select {columns} from holdfast.{table}")).fetchall()

    async def rows(self, table: str, conn: Conn | None = None) -> int:
        row = await (await (conn or self.conn).execute(f"select count(*) from holdfast.{table}")).fetchone()
        assert row is not None
        count: int = row[0]
        return count


@asynccontextmanager
async def proven(conn: Conn, token: str, address: str = "") -> AsyncIterator[None]:
    """A transaction in which the HTTP API says whose token it is."""
    async with conn.transaction():
        if token and ":" not in token:
            # Only a token that holds is believed.
            await conn.execute(
                "insert into holdfast.api_tokens (id, name, role, secret_hash, created_at, created_by)"
                " values (%s, %s, 'operator', '', now(), 'test') on conflict do nothing",
                [token, token],
            )
        await conn.execute(
            "select set_config('holdfast_audit.token', %s, true),"
            " set_config('holdfast_audit.address', %s, true)",
            [token, address],
        )
        yield


def broken(message: str = "connection reset", kind: FailureClass = FailureClass.TRANSIENT) -> Failed:
    """A failure as the runtime would report it."""
    return Failed(Failure.of(kind, message, stack="Traceback …"))
