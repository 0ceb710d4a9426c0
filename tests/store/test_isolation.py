"""Whatever isolation an administrator has set: limits hold, work goes on, and what cannot be right says so.

`default_transaction_isolation` is set on a database of each level's own.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from holdfast.config import Settings
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Complete
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect, connect_sync
from holdfast.db.partitions import ensure_partitions
from holdfast.http.service import Service
from holdfast.ops.doctor import Doctor
from holdfast.store.limits import Limits
from tests.commands import typed
from tests.conftest import direct
from tests.pooler import refusing_options
from tests.world import World

LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
STRICT = LEVELS[2:]
SESSIONS = 6


@contextmanager
def database_at(level: str, template: str) -> Iterator[str]:
    """The address of a database whose sessions begin transactions at this level."""
    name = f"holdfast_isolated_{uuid4().hex}"
    identifier = sql.Identifier(name)
    with psycopg.connect(f"{direct()}/postgres", autocommit=True) as admin:
        admin.execute(sql.SQL("create database {} template {}").format(identifier, sql.Identifier(template)))
        admin.execute(
            sql.SQL("alter database {} set default_transaction_isolation = {}").format(identifier, level)
        )
        yield f"{direct()}/{name}"
        admin.execute(sql.SQL("drop database {} with (force)").format(identifier))


@pytest.fixture(scope="module", params=LEVELS)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def at_level(level: str, template: str) -> Iterator[str]:
    """A database of every level."""
    with database_at(level, template) as url:
        yield url


@pytest.fixture(scope="module", params=STRICT)
def at_strict_level(request: pytest.FixtureRequest, template: str) -> Iterator[str]:
    """One of the levels at which the snapshot is the transaction's."""
    with database_at(request.param, template) as url:
        yield url


@asynccontextmanager
async def world_of(url: str) -> AsyncIterator[World]:
    """An empty world there, whose invariants hold in the end."""
    async with await connect(url) as conn:
        await World.empty(conn)
        await ensure_partitions(conn, "holdfast")
        world = World(conn, url)
        yield world
        await world.close()
        await world.check()


async def plain(url: str) -> Conn:
    """A connection that asks for nothing, as ours are behind a pooler."""
    return await AsyncConnection.connect(url, autocommit=True)


# -- claims

DECIDING = {
    "claim": "holdfast.claim('{}', '{}', '{}', '{}', 1, '{}', gen_random_uuid(), 0, 1, 60, false)",
    "claim_blocked": "holdfast.claim_blocked('{}', '{}', '{}', '{}', '{}', gen_random_uuid(), 0, 1, 60,"
    " '{}', '{}', '{}', '{}', '{}', '{}')",
    "lease_at_once": "holdfast.lease_at_once(array['render/episode=7'], gen_random_uuid(), 0, 1)",
    "block_heads": "holdfast.block_heads('{}', '{}', '{}', 1, null)",
    "free_permits": "holdfast.free_permits(gen_random_uuid(), 0, '{}', '{}')",
    "enlist": "holdfast.enlist('{}')",
    "release_followups": "holdfast.release_followups(1)",
    "seal_audit": "holdfast.seal_audit(1)",
}


@pytest.mark.catches("decides-by-an-old-snapshot")
@pytest.mark.parametrize("function", DECIDING)
async def test_what_decides_by_the_commits_of_others_refuses_to_decide_by_an_old_snapshot(
    at_level: str, level: str, function: str
) -> None:
    async with await plain(at_level) as conn:
        if level in STRICT:
            with pytest.raises(
                psycopg.Error, match=f"read committed, and the transaction is {level}"
            ) as refused:
                await conn.execute(f"select {DECIDING[function]}")
            assert refused.value.sqlstate == "HF006"
        else:
            await conn.execute(f"select {DECIDING[function]}")


@pytest.mark.catches("decides-by-an-old-snapshot")
async def test_a_permit_that_was_leased_after_the_snapshot_is_not_leased_again(at_strict_level: str) -> None:
    lease = "select permits from holdfast.lease_at_once(array['render/episode=7'], gen_random_uuid(), 0, 1)"
    async with world_of(at_strict_level) as world, await plain(at_strict_level) as late:
        await world.conn.execute(
            "insert into holdfast.buckets (name, capacity) values ('render/episode=*', 1)"
        )
        await late.execute("begin")
        assert await (await late.execute("select count(*) from holdfast.permits")).fetchone() == (0,)
        assert await (await world.conn.execute(lease)).fetchall() == [(1,)]
        with pytest.raises(psycopg.Error, match="read committed"):
            await late.execute(lease)
        await late.execute("rollback")
        assert await world.rows_of("permits", "permits") == [(1,)]
        await world.conn.execute("delete from holdfast.permits")


class Pressure:
    """Sessions that claim and complete at once, and the most that was ever seen of each limit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.most = Counter[str]()
        self.refused = Counter[bool]()

    async def session(self, *, ours: bool) -> None:
        """Until nothing is left; one of ours, or one that asks for no isolation."""
        world, worker = self._world, str(uuid4())
        opened = await (connect(world.url) if ours else plain(world.url))
        async with opened as conn, await connect(world.url) as eye:
            while await world.rows("tasks", eye):
                try:
                    claims = await world.claim(4, worker=worker, conn=conn)
                except psycopg.Error as error:
                    if error.sqlstate != "HF006":
                        raise
                    self.refused[ours] += 1
                    claims = []
                await self._look(eye)
                if claims:
                    await world.settle(*((claim, Complete()) for claim in claims), conn=conn)

    async def _look(self, eye: Conn) -> None:
        for name, running, leased in await (await eye.execute(RUNNING)).fetchall():
            self.most[name] = max(self.most[name], running, leased)


# What runs and what is leased, by what limits it.
RUNNING = """
select x.name, count(*), coalesce(max(s.permits), 0)
from (select coalesce(t.bucket, 'kind:' || t.kind) as name from holdfast.running r join holdfast.tasks t on t.id = r.id) x
left join (select bucket, sum(permits) as permits from holdfast.permits group by bucket) s on s.bucket = x.name
group by x.name
"""  # noqa: E501


@pytest.mark.catches("isolation-not-asked-for")
@pytest.mark.parametrize("limit", [1, 7])
async def test_six_sessions_never_pass_a_limit_at_any_isolation(
    at_level: str, level: str, limit: int
) -> None:
    """Half of them are as ours are on a direct connection, the others as they are behind a pooler."""
    async with world_of(at_level) as world:
        limits = Limits(Settings(database_url=at_level), by="ada")
        await limits.set(world.conn, Scope.KIND, "capped", Limit(running=limit))
        await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(running=limit))
        keyed = [NewTask("render", bucket=f"render/episode={n % 3}") for n in range(180)]
        await world.store.enqueue_many(world.conn, [*keyed, *[NewTask("capped")] * 60])
        pressure = Pressure(world)
        async with asyncio.timeout(60):
            await asyncio.gather(*(pressure.session(ours=n % 2 == 0) for n in range(SESSIONS)))
        assert await world.rows("task_history") == 240
        assert pressure.most.keys() == {"kind:capped", *(f"render/episode={n}" for n in range(3))}
        assert max(pressure.most.values()) <= limit
        assert not pressure.refused[True]
        assert bool(pressure.refused[False]) == (level in STRICT)


# -- connections


@pytest.mark.catches(
    "isolation-not-asked-for", "transactions-at-the-default-level", "requests-at-the-default-level"
)
async def test_every_connection_of_ours_reads_what_is_committed(at_strict_level: str) -> None:
    seen = {}
    show = "show transaction_isolation"
    async with await connect(at_strict_level) as conn:
        seen["a statement"] = await (await conn.execute(show)).fetchone()
        async with conn.transaction():
            seen["a transaction"] = await (await conn.execute(show)).fetchone()
    with connect_sync(at_strict_level, application="test") as blocking:
        seen["a statement that blocks"] = blocking.execute(show).fetchone()
        with blocking.transaction():
            seen["a transaction that blocks"] = blocking.execute(show).fetchone()
    with refusing_options(at_strict_level) as behind:
        async with await connect(behind) as conn, conn.transaction():
            seen["a transaction behind a pooler"] = await (await conn.execute(show)).fetchone()
        with connect_sync(behind, application="test") as blocking, blocking.transaction():
            seen["one that blocks, behind a pooler"] = blocking.execute(show).fetchone()
    service = Service(Settings(database_url=at_strict_level))
    async with service.pool.connection() as conn, service.pool.bounded(conn, writes=True):
        seen["a request"] = await (await conn.execute(show)).fetchone()
    await service.close()
    assert set(seen.values()) == {("read committed",)}, seen


async def test_a_worker_works_at_any_isolation(at_level: str) -> None:
    async with world_of(at_level) as world:
        for _ in range(20):
            await world.enqueue("noop")
        done = await typed(at_level, "worker", "tests.apps:app", "--until-empty")
        assert done.returncode == 0, done.stderr
        assert await world.rows("task_history") == 20


@pytest.mark.catches("worker-starts-at-any-isolation")
async def test_a_worker_behind_a_pooler_says_in_a_line_that_the_isolation_is_wrong(
    at_strict_level: str,
) -> None:
    with refusing_options(at_strict_level) as behind:
        done = await typed(behind, "worker", "tests.apps:app", "--until-empty")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "set default_transaction_isolation = 'read committed' for the role" in line


@pytest.mark.catches("doctor-blind-to-isolation")
async def test_the_doctor_reports_a_default_isolation_that_is_not_read_committed(
    at_level: str, level: str
) -> None:
    async def found(url: str) -> tuple[str, str]:
        async with await connect(url) as conn:
            findings = {one.name: one for one in await Doctor(Settings(database_url=url)).examine(conn)}
        assert findings["isolation"].found.startswith(level)
        return findings["isolation"].health, findings["isolation"].advice

    with refusing_options(at_level) as behind:
        here, there = await found(at_level), await found(behind)
    advice = "set default_transaction_isolation = 'read committed' for the role"
    if level in STRICT:
        assert here == ("warning", f"{advice}, or repeat your transactions that get 40001")
        assert there == ("bad", advice)
    else:
        assert here == there == ("good", "")
