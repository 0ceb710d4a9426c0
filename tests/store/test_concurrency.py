"""Two statements at once on one task: the second starts while the first's transaction is open.

Whether the first commits or rolls back, both must end, no invariant may break, and no one may deadlock.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import MoveRefused
from holdfast.core.outcome import Complete, Release, Released, Retry
from holdfast.core.task import Claim, NewTask, Unique
from holdfast.db.connect import Conn
from tests.world import World

Act = Callable[[World, Conn, str, Claim | None], Awaitable[object]]


async def claim(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.claim(1, conn=conn)


async def pause(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    await world.operator.pause(conn, task_id, "look")
    return None


async def cancel(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.operator.cancel(conn, task_id, "stop")


async def coalesce(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.store.enqueue(conn, NewTask("mail.send", "{}", key="k", unique=Unique.QUEUED))


async def replace(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.store.enqueue(conn, NewTask("mail.send", '{"v": 2}', key="k", unique=Unique.REPLACE))


async def complete(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    assert held is not None
    return await world.settle((held, Complete()), conn=conn)


async def retry(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    assert held is not None
    return await world.settle((held, Retry("again")), conn=conn)


async def release(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    assert held is not None
    return await world.settle((held, Released(Release.DRAINED)), conn=conn)


async def reclaim(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.reclaim(conn, grace_seconds=-10_000)


async def resume(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    await world.operator.resume(conn, task_id)
    return None


async def expire(world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    return await world.operator.expire(conn)


PAUSED: list[Act] = [resume, cancel, expire, coalesce, replace]
QUEUED: list[Act] = [claim, pause, cancel, expire, coalesce, replace]
RUNNING: list[Act] = [complete, retry, release, reclaim, cancel, coalesce, replace]


async def waits_or_done(world: World, conn: Conn, running: asyncio.Task[object]) -> None:
    """Return once the statement has ended or waits for the other's lock."""
    while not running.done():
        cursor = await world.conn.execute(
            "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'",
            [conn.info.backend_pid],
        )
        if await cursor.fetchone() is not None:
            return
        await asyncio.sleep(0.001)


async def attempt(act: Act, world: World, conn: Conn, task_id: str, held: Claim | None) -> object:
    try:
        return await act(world, conn, task_id, held)
    except MoveRefused as refused:
        return refused


@pytest.mark.catches("no-fence")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
@pytest.mark.parametrize("state", ["queued", "running", "paused"])
async def test_any_two_acts_at_once_leave_the_task_whole(
    world: World, direct_url: str, state: str, ending: str
) -> None:
    one, two = await world.open_direct(direct_url), await world.open_direct(direct_url)
    acts = {"queued": QUEUED, "running": RUNNING, "paused": PAUSED}[state]
    expires = datetime.now(UTC) - timedelta(seconds=1)
    for first in acts:
        for second in acts:
            await world.empty(world.conn)
            world._registered.clear()
            await world.register(world.worker)
            task_id = (
                await world.store.enqueue(
                    world.conn,
                    NewTask("mail.send", "{}", key="k", unique=Unique.QUEUED, expires_at=expires),
                )
            ).id
            if state == "paused":
                await world.operator.pause(world.conn, task_id, "look")
            held = await world.claim_one() if state == "running" else None
            await one.execute("begin")
            await attempt(first, world, one, task_id, held)
            running = asyncio.create_task(attempt(second, world, two, task_id, held))
            await waits_or_done(world, two, running)
            await one.execute(ending)
            async with asyncio.timeout(10):
                await running
            await world.check()


@pytest.mark.requirement("T1")
@pytest.mark.catches("claim-takes-locked-rows")
async def test_two_claimers_never_wait_for_each_other(world: World, direct_url: str) -> None:
    first, second = await world.enqueue(), await world.enqueue()
    one, two = await world.open_direct(direct_url), await world.open_direct(direct_url)
    await one.execute("begin")
    assert [claim.id for claim in await world.claim(1, conn=one)] == [first]
    async with asyncio.timeout(5):
        assert [claim.id for claim in await world.claim(1, conn=two)] == [second]
    await one.execute("rollback")
