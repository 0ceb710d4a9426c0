"""The connections of `finish`: few, waited for, and never lost to a block that was cut off."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from holdfast.core.errors import LeaseLost, Misused
from holdfast.core.handler import Handler, Task, task_of
from holdfast.worker.executor.finish import CONNECTIONS_MAX, Finishing
from tests.tree import until
from tests.world import World

MANY = 3 * CONNECTIONS_MAX


async def _nothing(task: Task[Any]) -> None:
    """Never called: the tests finish by themselves."""


@pytest_asyncio.fixture
async def finishing(world: World) -> AsyncIterator[Finishing]:
    made = Finishing(world.store.settings, {"render": Handler("render", _nothing, awaits=True)})
    yield made
    await made.close()


async def _tasks(world: World, finishing: Finishing, count: int) -> list[Task[Any]]:
    for _ in range(count):
        await world.enqueue("render")
    return [task_of(claim, {}, finishing) for claim in await world.claim(count)]


@pytest.mark.catches("finish-opens-without-end")
async def test_many_finishes_at_once_share_a_few_connections(world: World, finishing: Finishing) -> None:
    inside, most = 0, 0

    async def finish(task: Task[Any]) -> None:
        nonlocal inside, most
        async with task.finish() as conn:
            inside += 1
            most = max(most, inside)
            await conn.execute("select pg_sleep(0.01)")
            inside -= 1

    await asyncio.gather(*(finish(task) for task in await _tasks(world, finishing, MANY)))
    assert 1 < most <= CONNECTIONS_MAX
    assert await world.rows("task_history") == MANY


@pytest.mark.catches("finish-opens-beside-the-locked")
@pytest.mark.parametrize("blocking", [False, True])
async def test_no_connection_is_opened_while_a_finish_waits_for_a_locked_table(
    world: World, finishing: Finishing, direct_url: str, *, blocking: bool
) -> None:
    async def finish(task: Task[Any]) -> None:
        async with task.finish():
            """The end of the task alone."""

    def finish_sync(task: Task[Any]) -> None:
        with task.finish():
            """The same."""

    def begin(task: Task[Any]) -> "asyncio.Task[None]":
        return asyncio.create_task(asyncio.to_thread(finish_sync, task) if blocking else finish(task))

    async def waiting() -> int:
        cursor = await world.conn.execute(
            "select count(*) from pg_stat_activity"
            " where application_name = 'holdfast finish' and wait_event_type = 'Lock'"
        )
        row = await cursor.fetchone()
        assert row is not None
        found: int = row[0]
        return found

    first, *others = await _tasks(world, finishing, 6)
    locking = await world.open_direct(direct_url)
    await locking.execute("begin")
    await locking.execute("lock table holdfast.task_history in access exclusive mode")
    doing = [begin(first)]
    await until(finishing._held_up, 10, "the first to be held up")
    doing += [begin(task) for task in others]
    began = time.monotonic()
    while time.monotonic() - began < 0.5:
        assert await waiting() == 1
    await locking.execute("rollback")
    await asyncio.gather(*doing)
    assert await world.rows("task_history") == 6


@pytest.mark.catches("finish-opens-without-end")
async def test_threads_share_a_few_connections_too(world: World, finishing: Finishing) -> None:
    tasks = await _tasks(world, finishing, MANY)
    inside, most, lock = 0, 0, threading.Lock()

    def finish(task: Task[Any]) -> None:
        nonlocal inside, most
        with task.finish() as conn:
            with lock:
                inside += 1
                most = max(most, inside)
            conn.execute("select pg_sleep(0.01)")
            with lock:
                inside -= 1

    with ThreadPoolExecutor(MANY) as threads:
        list(threads.map(finish, tasks))
    assert 1 < most <= CONNECTIONS_MAX
    assert await world.rows("task_history") == MANY


async def _cancelled(world: World, task: Task[Any]) -> None:
    inside = asyncio.Event()

    async def slow() -> None:
        async with task.finish() as conn:
            inside.set()
            await conn.execute("select pg_sleep(60)")

    running = asyncio.create_task(slow())
    await inside.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def _terminated(world: World, task: Task[Any]) -> None:
    async def orphaned() -> None:
        async with task.finish() as conn:
            # As the server knows it: a pooler gives its clients numbers of its own.
            row = await (await conn.execute("select pg_backend_pid()")).fetchone()
            await world.conn.execute("select pg_terminate_backend(%s)", row)
            await conn.execute("select 1")

    with pytest.raises(psycopg.OperationalError):
        await orphaned()


async def _refused(world: World, task: Task[Any]) -> None:
    await world.conn.execute("update holdfast.running set fence = fence + 1 where id = %s", [task.id])
    with pytest.raises(LeaseLost):
        async with task.finish():
            pass


@pytest.mark.catches("finish-in-a-transaction")
async def test_a_connection_in_a_transaction_of_somebody_else_s_is_refused(
    world: World, finishing: Finishing
) -> None:
    (task,) = await _tasks(world, finishing, 1)
    conn = await world.open()
    async with conn.transaction():
        with pytest.raises(Misused, match="in a transaction already"):
            async with task.finish(conn=conn):
                pass
    async with task.finish(conn=conn):
        pass
    assert await world.rows("task_history") == 1


@pytest.mark.catches("asking-waits-for-finishing")
async def test_all_that_finish_may_ask_what_they_came_after(world: World, finishing: Finishing) -> None:
    tasks = await _tasks(world, finishing, CONNECTIONS_MAX)
    inside = asyncio.Barrier(CONNECTIONS_MAX)

    async def finish(task: Task[Any]) -> None:
        async with task.finish():
            await inside.wait()
            assert await task.predecessors() == []

    async with asyncio.timeout(10):
        await asyncio.gather(*map(finish, tasks))
    assert await world.rows("task_history") == CONNECTIONS_MAX


@pytest.mark.catches("finish-keeps-its-room")
@pytest.mark.parametrize("cut_off", [_cancelled, _terminated, _refused])
async def test_a_finish_that_is_cut_off_leaves_its_place_to_others(
    world: World, finishing: Finishing, cut_off: Callable[[World, Task[Any]], Any]
) -> None:
    tasks = await _tasks(world, finishing, CONNECTIONS_MAX + 2)
    last = tasks.pop()
    for task in tasks:
        await cut_off(world, task)

    async def finish() -> None:
        async with last.finish():
            pass

    await asyncio.wait_for(finish(), 10)
    assert await world.rows("task_history") == 1
