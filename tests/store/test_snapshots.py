"""Enqueues and finishes in transactions that have one snapshot: they are right, or fail with 40001."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from psycopg import IsolationLevel

from holdfast.core.errors import LeaseLost
from holdfast.core.handler import Handler, Task, task_of
from holdfast.core.outcome import Complete
from holdfast.core.task import Enqueued, NewTask, Unique
from holdfast.db.connect import Conn
from holdfast.worker.executor.finish import Finishing
from tests.world import World

ONE_SNAPSHOT = (IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE)
PRODUCERS = 6


@pytest.fixture(params=ONE_SNAPSHOT, ids=lambda level: level.name)
def level(request: pytest.FixtureRequest) -> IsolationLevel:
    return IsolationLevel(request.param)


@pytest.fixture
async def caller(world: World, direct_url: str, level: IsolationLevel) -> Conn:
    """A connection of somebody whose transactions have one snapshot each."""
    return await opened_at(level, world, direct_url)


async def opened_at(level: IsolationLevel, world: World, url: str) -> Conn:
    conn = await world.open_direct(url)
    await conn.set_isolation_level(level)
    return conn


@pytest.mark.parametrize("unique", Unique)
async def test_a_key_that_was_taken_after_the_snapshot_asks_for_another_try(
    world: World, caller: Conn, unique: Unique
) -> None:
    task = NewTask("index", '{"page": 1}', key="page:1", unique=unique)
    async with caller.transaction(force_rollback=True):
        await caller.execute("select count(*) from holdfast.tasks")
        first = await world.store.enqueue(world.conn, task)
        with pytest.raises(psycopg.errors.SerializationFailure):
            await world.store.enqueue(caller, task)
    async with caller.transaction():
        assert await world.store.enqueue(caller, task) == Enqueued(first.id, created=False)
    assert await world.rows("tasks") == 1


@pytest.mark.catches("coalesced-task-not-held")
@pytest.mark.parametrize("unique", [Unique.QUEUED, Unique.REPLACE])
async def test_a_key_whose_task_started_after_the_snapshot_asks_for_another_try(
    world: World, caller: Conn, unique: Unique
) -> None:
    task = NewTask("index", '{"page": 1}', key="page:1", unique=unique)
    await world.store.enqueue(world.conn, task)
    async with caller.transaction(force_rollback=True):
        await caller.execute("select count(*) from holdfast.tasks")
        await world.claim_one()
        with pytest.raises(psycopg.errors.SerializationFailure):
            await world.store.enqueue(caller, task)
    async with caller.transaction():
        follow_up = await world.store.enqueue(caller, task)
    assert follow_up.created
    assert [claim.id for claim in await world.claim()] == [follow_up.id]


class Site:
    """Pages that are written and indexed by several at once."""

    pages = ("page:0", "page:1", "page:2")

    def __init__(self, world: World, url: str, level: IsolationLevel, unique: Unique) -> None:
        self._world = world
        self._url = url
        self._level = level
        self._unique = unique
        self.answered: set[str] = set()
        self.retried = 0
        self.seen: set[tuple[object, ...]] = set()

    async def write(self, writer: int) -> None:
        """Write rows, each with the task that indexes its page in one transaction."""
        conn = await opened_at(self._level, self._world, self._url)
        for nth in range(20):
            while not await self._written(conn, self.pages[nth % 3], writer, nth):
                self.retried += 1

    async def _written(self, conn: Conn, page: str, writer: int, nth: int) -> bool:
        try:
            async with conn.transaction():
                await conn.execute("insert into public.written values (%s, %s, %s)", [page, writer, nth])
                task = NewTask("index", key=page, unique=self._unique)
                made = await self._world.store.enqueue(conn, task)
        except psycopg.errors.SerializationFailure:
            return False
        self.answered.add(made.id)
        return True

    async def index(self, conn: Conn) -> bool:
        """Run what waits; whether there was anything."""
        claims = await self._world.claim(10, conn=conn)
        for claim in claims:
            rows = await conn.execute("select * from public.written where page = %s", [claim.key])
            self.seen.update(await rows.fetchall())
        if claims:
            await self._world.settle(*((claim, Complete()) for claim in claims), conn=conn)
        return bool(claims)


@pytest.fixture
async def written(world: World) -> AsyncIterator[None]:
    await world.conn.execute("create table public.written (page text, writer integer, nth integer)")
    yield
    await world.conn.execute("drop table public.written")


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("unique", Unique)
async def test_producers_at_once_make_one_task_for_a_key_and_no_write_is_missed(
    world: World, direct_url: str, level: IsolationLevel, unique: Unique
) -> None:
    site = Site(world, direct_url, level, unique)
    indexer = await world.open_direct(direct_url)
    async with asyncio.timeout(60):
        writing = asyncio.gather(*(site.write(n) for n in range(PRODUCERS)))
        while not writing.done():
            await site.index(indexer)
        await writing
        while await site.index(indexer):
            pass
    assert site.retried
    assert await world.rows("task_history") == len(site.answered)
    if unique is Unique.KEY:
        assert len(site.answered) == len(site.pages)
    else:
        rows = await world.conn.execute("select * from public.written")
        assert site.seen == set(await rows.fetchall())


# -- finishes


async def _nothing(task: Task[Any]) -> None:
    """Never called: the tests finish by themselves."""


@pytest_asyncio.fixture
async def finishing(world: World) -> AsyncIterator[Finishing]:
    made = Finishing(world.store.settings, {"render": Handler("render", _nothing, awaits=True)})
    yield made
    await made.close()


async def take_back(world: World) -> None:
    """The lease of the first worker ends, and another one claims the task."""
    await world.lapse(world.worker)
    await world.reclaim(world.conn)
    await world.elapse(60)
    assert await world.claim_one(worker="0190b2f4-0000-7000-8000-000000000002")


@pytest.mark.catches("no-fence")
@pytest.mark.parametrize("snapshot", ["before", "after"])
async def test_a_task_that_was_given_to_another_cannot_be_finished_by_an_old_snapshot(
    world: World, caller: Conn, finishing: Finishing, snapshot: str
) -> None:
    await caller.execute("create temp table effects (n integer)")
    await world.enqueue("render")
    task: Task[Any] = task_of(await world.claim_one(), {}, finishing)
    refusal = psycopg.errors.SerializationFailure if snapshot == "before" else LeaseLost

    async def finish() -> None:
        async with task.finish(conn=caller):
            if snapshot == "after":
                await take_back(world)
            await caller.execute("insert into effects select count(*) from holdfast.running")
            if snapshot == "before":
                await take_back(world)

    with pytest.raises(refusal):
        await finish()
    assert not task.settled
    assert await (await caller.execute("select count(*) from effects")).fetchone() == (0,)
    assert await world.rows("running") == 1
    assert await world.rows("task_history") == 0


async def test_finishes_that_meet_in_a_row_of_the_caller_are_tried_again_until_each_has_counted(
    world: World, direct_url: str, level: IsolationLevel, finishing: Finishing
) -> None:
    await world.conn.execute("drop table if exists public.counted")
    await world.conn.execute("create table public.counted (n integer)")
    await world.conn.execute("insert into public.counted values (0)")
    for _ in range(PRODUCERS):
        await world.enqueue("render")
    retried = 0

    async def finish(task: Task[Any]) -> None:
        nonlocal retried
        conn = await opened_at(level, world, direct_url)
        while not task.settled:
            try:
                async with task.finish(conn=conn):
                    await conn.execute("update public.counted set n = n + 1")
            except psycopg.errors.SerializationFailure:
                retried += 1

    async with asyncio.timeout(60):
        claims = await world.claim(PRODUCERS)
        await asyncio.gather(*(finish(task_of(claim, {}, finishing)) for claim in claims))
    assert retried
    assert await world.rows_of("task_history", "count(*)") == [(PRODUCERS,)]
    assert await (await world.conn.execute("select n from public.counted")).fetchone() == (PRODUCERS,)
    await world.conn.execute("drop table public.counted")


@pytest.mark.catches("predecessor-after-the-snapshot-does-not-exist")
async def test_a_predecessor_that_was_enqueued_after_the_snapshot_asks_for_another_try(
    world: World, caller: Conn
) -> None:
    async with caller.transaction(force_rollback=True):
        await caller.execute("select count(*) from holdfast.tasks")
        first = await world.enqueue()
        with pytest.raises(psycopg.errors.SerializationFailure):
            await world.store.enqueue(caller, NewTask("index", after=[first]))
