"""Tasks that come after others: they start once, when all of those have ended, and are told how."""

import asyncio
import random
from uuid import uuid4

import pytest

from holdfast.config import Settings
from holdfast.core.errors import Misused
from holdfast.core.events import FollowupsReleased
from holdfast.core.outcome import Cancel, Complete, Fail, Outcome, Released
from holdfast.core.outcome import Release as Why
from holdfast.core.state import State
from holdfast.core.task import NewTask, Predecessor
from holdfast.store.followups import Followups
from holdfast.worker.executor.finish import Finishing
from tests.world import World


@pytest.fixture
def followups(world: World) -> Followups:
    return Followups(Settings(database_url=world.url), world.events.append)


async def follow(world: World, after: list[str], **options: object) -> str:
    (made,) = await world.store.enqueue_many(
        world.conn,
        [NewTask("last", after=after, **options)],  # type: ignore[arg-type]
    )
    return made.id


async def predecessors_of(world: World, task: str) -> list[Predecessor]:
    """As its handler sees them."""
    finishing = Finishing(Settings(database_url=world.url), {})
    try:
        return await finishing.predecessors(task)
    finally:
        await finishing.close()


@pytest.mark.catches("follow-up-starts-early", "paused-counts-as-ended")
async def test_it_starts_when_the_last_of_them_has_ended_however_that_was(
    world: World, followups: Followups
) -> None:
    first, second, third, fourth = [await world.enqueue() for _ in range(4)]
    last = await follow(world, [first, second, third, fourth])
    for outcome in (Complete('{"url": 7}'), Fail("REFUSED", "not this one"), Cancel("not wanted")):
        assert await followups.release(world.conn), "it waits on"
        claims = await world.claim()
        assert last not in {claim.id for claim in claims}
        claim = min(claims, key=lambda one: one.id)
        await world.settle(
            (claim, outcome), *((one, Released(Why.DRAINED)) for one in claims if one is not claim)
        )
    await world.operator.pause(world.conn, fourth, "later")
    assert await followups.release(world.conn)
    assert await world.claim() == [], "a paused one has not ended"
    await world.operator.resume(world.conn, fourth)
    await world.complete(await world.claim_one())
    assert not await followups.release(world.conn)
    claim = await world.claim_one()
    assert claim.id == last
    predecessors = await predecessors_of(world, last)
    assert [(one.id, one.state, one.result, one.error_code) for one in predecessors] == [
        (first, State.COMPLETED, '{"url": 7}', None),
        (second, State.FAILED, None, "REFUSED"),
        (third, State.CANCELLED, None, None),
        (fourth, State.COMPLETED, None, None),
    ]
    await world.check()


async def test_it_can_be_cancelled_or_paused_while_it_waits(world: World, followups: Followups) -> None:
    first = await world.enqueue()
    cancelled, paused = await follow(world, [first]), await follow(world, [first])
    await world.operator.cancel(world.conn, cancelled, "no longer wanted")
    await world.operator.pause(world.conn, paused, "wait a little")
    await world.complete(await world.claim_one())
    assert not await followups.release(world.conn)
    assert await world.claim() == []
    await world.operator.resume(world.conn, paused)
    assert (await world.claim_one()).id == paused
    assert await world.operator.redrive(world.conn, [cancelled], "after all") == [cancelled]
    assert (await world.claim_one()).id == cancelled
    await world.check()


@pytest.mark.catches("follow-up-stranded")
async def test_one_that_somebody_moves_just_now_is_released_the_next_time(
    world: World, followups: Followups
) -> None:
    first = await world.enqueue()
    await world.complete(await world.claim_one())
    last = await follow(world, [first])
    other = await world.open()
    async with asyncio.timeout(10):
        async with other.transaction():
            assert await world.claim(conn=other) == [], "it steps aside"
            assert await followups.release(world.conn), "and nobody waits for that"
        async with other.transaction():
            await world.operator.pause(other, last, "later")
            assert await followups.release(world.conn)
        await world.operator.resume(world.conn, last)
        assert not await followups.release(world.conn)
    assert (await world.claim_one()).id == last
    await world.check()


@pytest.mark.catches("redriven-predecessor-forgotten")
async def test_one_of_them_that_is_put_back_to_work_is_waited_for_again(
    world: World, followups: Followups
) -> None:
    first, second = [await world.enqueue() for _ in range(2)]
    last = await follow(world, [first, second])
    failed, running = sorted(await world.claim(), key=lambda claim: claim.id)
    await world.settle((failed, Fail("REFUSED", "no")))
    assert await followups.release(world.conn), "it waits for the second"
    await world.operator.redrive(world.conn, [first], "once more")
    await world.complete(running)
    assert await followups.release(world.conn), "and for the first again"
    await world.settle((await world.claim_one(), Fail("REFUSED", "no")))
    assert not await followups.release(world.conn)
    assert (await world.claim_one()).id == last
    await world.operator.redrive(world.conn, [first], "once more")
    states = [one.state for one in await predecessors_of(world, last)]
    assert states == [State.QUEUED, State.COMPLETED]


async def test_what_it_comes_after_must_exist_and_a_key_stands_for_one(world: World) -> None:
    missing = str(uuid4())
    with pytest.raises(Misused, match=f"task {missing}, which this one is to come after, does not exist"):
        await follow(world, [missing])
    first = await world.enqueue()
    last = await follow(world, [first], key="k")
    assert await follow(world, [first], key="k") == last
    assert await world.rows("followups") == 1


async def test_its_own_limit_holds_once_it_is_released(world: World, followups: Followups) -> None:
    await world.conn.execute("insert into holdfast.buckets (name, capacity) values ('last/key=a', 1)")
    first = await world.enqueue()
    for _ in range(3):
        await follow(world, [first], bucket="last/key=a")
    await world.complete(await world.claim_one())
    await followups.release(world.conn)
    assert len(await world.claim() + await world.claim()) == 1


def _some(chance: random.Random) -> Outcome:
    return Fail("REFUSED", "no") if chance.random() < 0.3 else Complete()


@pytest.mark.requirement("O3")
@pytest.mark.catches("follow-up-starts-early", "follow-up-released-twice")
async def test_after_10_000_tasks_ended_by_eight_at_once_it_starts_once_with_the_right_outcomes(
    world: World, followups: Followups
) -> None:
    chance = random.Random(9)
    count = 10_000
    ids = [
        one.id
        for _ in range(count // 1_000)
        for one in await world.store.enqueue_many(world.conn, [NewTask("part")] * 1_000)
    ]
    last = await follow(world, ids)
    conns = [await world.open() for _ in range(8)]
    ended: dict[str, State] = {}
    starts: list[str] = []

    async def work(number: int) -> None:
        conn = conns[number]
        worker = str(uuid4())
        while last not in ended:
            claims = await world.claim(100, conn=conn, worker=worker)
            starts.extend(claim.id for claim in claims if claim.id == last)
            if chance.random() < 0.1:
                # Killed: what it held goes back, unspent or not.
                await world.lapse(worker)
                await world.reclaim(conn)
                worker = str(uuid4())
                continue
            settled = await world.settle(*((claim, _some(chance)) for claim in claims), conn=conn)
            for claim, verdict in settled.accepted:
                ended[claim.id] = State.FAILED if verdict.failure else State.COMPLETED
            if not claims:
                await followups.release(conn)
                await asyncio.sleep(0.01)

    await asyncio.gather(*(work(number) for number in range(8)))
    # A worker that is killed with it in hand has it run again; it is released once.
    released = [event for event in world.events if isinstance(event, FollowupsReleased)]
    assert (len(released), bool(starts)) == (1, True)
    predecessors = await predecessors_of(world, last)
    assert {one.id: one.state for one in predecessors} == {id_: ended[id_] for id_ in ids}
    await world.check()
