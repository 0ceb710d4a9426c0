"""Lanes: one at a time, in the order of enqueuing, whatever happens to the first."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from holdfast.core.outcome import Complete, Fail, Release, Released, Retry
from tests.store.test_limits import claim_all
from tests.world import World


@pytest.mark.catches("lane-by-time", "lane-passes-the-first")
async def test_a_lane_runs_in_the_order_of_enqueuing_whatever_the_priority(world: World) -> None:
    ids = [await world.enqueue(bucket="lane:7", priority=priority) for priority in (3, 0, 2)]
    ran = []
    for _ in ids:
        (claim,) = await claim_all(world)
        ran.append(claim.id)
        await world.settle((claim, Complete()))
    assert ran == ids


@pytest.mark.catches("lane-by-time", "lane-passes-the-first")
async def test_a_task_that_waits_for_its_retry_keeps_the_lane(world: World) -> None:
    first = await world.enqueue(bucket="lane:7")
    second = await world.enqueue(bucket="lane:7")
    (claim,) = await claim_all(world)
    await world.settle((claim, Retry("again", after=60)))
    assert await claim_all(world) == []
    await world.elapse(61)
    (claim,) = await claim_all(world)
    assert claim.id == first
    await world.settle((claim, Complete()))
    assert [claim.id for claim in await claim_all(world)] == [second]


@pytest.mark.catches("unguarded-lane-loses-its-turn")
async def test_a_lane_whose_guard_somebody_else_has_keeps_its_turn(world: World) -> None:
    task = await world.enqueue(bucket="lane:7")
    other = await world.open()
    async with other.transaction():
        guard = "select from holdfast.bucket_locks where number = hashtext('lane:7') & 16383 for update"
        await other.execute(guard)
        assert await claim_all(world) == []
    assert [claim.id for claim in await claim_all(world)] == [task]


@pytest.mark.catches("blocked-lane-goes-on")
@pytest.mark.parametrize(("lane", "goes_on"), [("lane:7", True), ("lane!:7", False)])
async def test_a_failed_task_lets_pass_or_blocks(world: World, lane: str, goes_on: bool) -> None:  # noqa: FBT001
    first = await world.enqueue(bucket=lane)
    second = await world.enqueue(bucket=lane)
    (claim,) = await claim_all(world)
    await world.settle((claim, Fail("CARD_DECLINED", "no")))
    assert [claim.id for claim in await claim_all(world)] == ([second] if goes_on else [])
    if not goes_on:
        await world.operator.redrive(world.conn, [first], "fixed")
        (claim,) = await claim_all(world)
        assert claim.id == first
        await world.settle((claim, Complete()))
        assert [claim.id for claim in await claim_all(world)] == [second]


@pytest.mark.catches("cancelled-head-keeps-the-lane")
@pytest.mark.parametrize("standing", ["waiting", "backing off", "paused", "scheduled"])
async def test_a_head_that_is_taken_out_lets_the_next_one_run(world: World, standing: str) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    first = await world.enqueue(bucket="lane:7", run_at=later if standing == "scheduled" else None)
    second = await world.enqueue(bucket="lane:7")
    if standing in ("backing off", "waiting"):
        (claim,) = await claim_all(world)
        after = 60 if standing == "backing off" else 0
        await world.settle((claim, Retry("again", after=after)))
        await world.elapse(0)
    if standing in ("backing off", "scheduled"):
        assert await claim_all(world) == []
    if standing == "paused":
        await world.operator.pause(world.conn, first, "hold")
    else:
        await world.operator.cancel(world.conn, first, "not wanted")
    assert [claim.id for claim in await claim_all(world)] == [second]


@pytest.mark.catches("permit-not-returned")
async def test_a_lane_goes_on_when_its_worker_is_lost(world: World) -> None:
    ids = [await world.enqueue(bucket="lane:order-7") for _ in range(3)]
    worker = str(uuid4())
    (first,) = await claim_all(world, worker=worker)
    assert first.bucket == "lane:order-7"
    assert await claim_all(world) == []
    await world.lapse(worker)
    await world.reclaim(world.conn)
    (again,) = await claim_all(world)
    assert again.id == ids[0]
    await world.settle((again, Released(Release.DRAINED)))
    assert [claim.id for claim in await claim_all(world)] == [ids[0]]


@pytest.mark.catches("turn-of-any-kind")
async def test_a_lane_of_several_kinds_goes_on_while_a_later_one_is_shut(world: World) -> None:
    await world.operator.pause_kind(world.conn, "a", "the provider is down")
    first = await world.enqueue("b", bucket="lane:7")
    await world.enqueue("a", bucket="lane:7")
    third = await world.enqueue("b", bucket="lane:7")
    (claim,) = await claim_all(world)
    assert claim.id == first
    await world.complete(claim)
    assert await world.claim() == [], "the next one is shut"
    # Once that is out of the way the last one may start, though the turn was in the other's name.
    cursor = await world.conn.execute("select id::text from holdfast.tasks where kind = 'a'")
    row = await cursor.fetchone()
    assert row is not None
    await world.operator.cancel(world.conn, row[0], "not wanted")
    assert [claim.id for claim in await world.claim()] == [third]
    await world.check()
