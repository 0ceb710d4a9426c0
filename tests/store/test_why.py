"""Why a task is not running: for each cause a world in which it is the answer, and never a wrong one."""

import random
from collections import Counter
from uuid import uuid4

import pytest

from holdfast.config import Settings
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Cancel, Fail, Failed, Retry, Snooze
from holdfast.core.task import NewTask
from holdfast.store.limits import Limits
from holdfast.views.why import WaitCause, Why
from tests.world import World

BLOCKING = {
    WaitCause.SCHEDULED, WaitCause.BACKING_OFF, WaitCause.SNOOZED, WaitCause.AFTER_OTHERS,
    WaitCause.QUEUE_PAUSED, WaitCause.KIND_PAUSED, WaitCause.NO_WORKER, WaitCause.NO_HANDLER,
    WaitCause.LANE, WaitCause.LIMIT_FULL, WaitCause.RATE_SPENT,
}  # fmt: skip


async def causes(world: World, task: str) -> list[WaitCause]:
    found = await Why(Settings(database_url=world.url)).of(world.conn, await world.show(task))
    assert all(reason.text for reason in found)
    return [reason.cause for reason in found]


async def serve(world: World, *, kinds: list[str], queues: list[str]) -> str:
    worker = str(uuid4())
    await world.register(worker, queues, kinds)
    return worker


@pytest.mark.requirement("R4")
@pytest.mark.catches("backing-off-not-said", "recovered-still-backs-off")
async def test_causes_of_time_of_workers_and_of_pauses(world: World) -> None:
    task = await world.enqueue()
    assert await causes(world, task) == [WaitCause.NO_WORKER]
    await serve(world, kinds=["other"], queues=["default"])
    assert await causes(world, task) == [WaitCause.NO_HANDLER]
    worker = await serve(world, kinds=["mail.send"], queues=["default"])
    assert await causes(world, task) == [WaitCause.ABOUT_TO_START]
    await world.operator.pause_queue(world.conn, "default", "a deploy")
    await world.operator.pause_kind(world.conn, "mail.send", "the provider is down")
    assert await causes(world, task) == [WaitCause.QUEUE_PAUSED, WaitCause.KIND_PAUSED]
    await world.operator.resume_queue(world.conn, "default")
    await world.operator.resume_kind(world.conn, "mail.send")
    await world.conn.execute("delete from holdfast.queues; delete from holdfast.buckets")
    second = await world.enqueue()
    assert await causes(world, second) == [WaitCause.OTHERS_AHEAD]
    after = (await world.store.enqueue_many(world.conn, [NewTask("mail.send", after=[second])]))[0].id
    assert WaitCause.AFTER_OTHERS in await causes(world, after)
    claim = await world.claim_one(worker=worker)
    assert await causes(world, task) == [WaitCause.RUNNING]
    await world.settle((claim, Retry("busy", after=60)))
    assert (await causes(world, task))[0] is WaitCause.BACKING_OFF
    await world.settle((await world.claim_one(worker=worker), Snooze(60)))
    assert (await causes(world, second))[0] is WaitCause.SNOOZED
    await world.elapse(60)
    await world.settle(*((claim, Snooze(60)) for claim in await world.claim(worker=worker)))
    assert (await causes(world, task))[0] is WaitCause.SNOOZED, "it has recovered"
    await world.operator.pause(world.conn, second, "wait")
    assert await causes(world, second) == [WaitCause.PAUSED]
    later = await world.enqueue(run_at=(await world.show(task)).next_attempt_at)
    assert (await causes(world, later))[0] is WaitCause.SCHEDULED


@pytest.mark.requirement("R4")
@pytest.mark.catches("backing-off-not-said")
async def test_a_task_that_was_told_to_slow_down_backs_off(world: World) -> None:
    task = await world.enqueue()
    worker = await serve(world, kinds=["mail.send"], queues=["default"])
    refused = Failed(Failure.of(FailureClass.RATE_LIMITED, "429: slow down"), 60.0)
    await world.settle((await world.claim_one(worker=worker), refused))
    (reason,) = await Why(Settings(database_url=world.url)).of(world.conn, await world.show(task))
    assert reason.cause is WaitCause.BACKING_OFF
    assert "after failure 1: 429: slow down" in reason.text


@pytest.mark.requirement("R4")
@pytest.mark.catches("lane-head-not-named", "holders-not-named")
async def test_causes_of_lanes_and_limits_and_what_became_of_the_ended(world: World) -> None:
    limits = Limits(Settings(database_url=world.url), by="ada")
    worker = await serve(world, kinds=["mail.send"], queues=["default"])
    first_of_lane, next_of_lane = [await world.enqueue(bucket="lane:7") for _ in range(2)]
    held = await world.claim_one(worker=worker)
    assert held.id == first_of_lane
    assert (await causes(world, next_of_lane))[0] is WaitCause.LANE
    await world.settle((held, Fail("REFUSED", "no")))
    assert await causes(world, first_of_lane) == [WaitCause.FAILED]
    await world.settle((await world.claim_one(worker=worker), Cancel("no")))
    assert await causes(world, next_of_lane) == [WaitCause.CANCELLED]
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=1))
    one, two = [await world.enqueue() for _ in range(2)]
    held = (await world.claim(1, worker=worker) or await world.claim(1, worker=worker))[0]
    assert held.id == one
    assert WaitCause.LIMIT_FULL in await causes(world, two)
    await world.complete(held)
    assert await causes(world, one) == [WaitCause.COMPLETED]
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(rate="1/h", burst=1))
    assert await world.claim(1, worker=worker)
    three = await world.enqueue()
    assert WaitCause.RATE_SPENT in await causes(world, three)


@pytest.mark.requirement("R4")
@pytest.mark.catches("paused-kind-not-said")
# Twenty thousand looks, each planned anew behind a pooler.
@pytest.mark.timeout(400)
async def test_over_random_worlds_what_is_blocked_does_not_start_and_what_starts_was_not_blocked(
    world: World,
) -> None:
    chance = random.Random(23)
    seen: Counter[WaitCause] = Counter()
    for _ in range(WORLDS):
        await World.empty(world.conn)
        ids = await _random_world(world, chance)
        told = {task: await causes(world, task) for task in ids}
        seen.update(cause for found in told.values() for cause in found)
        worker = await serve(world, kinds=KINDS, queues=QUEUES) if chance.random() < 0.7 else None
        if worker is None:
            continue
        told = {task: await causes(world, task) for task in ids}
        started: set[str] = set()
        while claims := [
            *await world.claim(100, worker=worker, queues=QUEUES, kinds=KINDS),
            *await world.claim(100, worker=worker, queues=QUEUES, kinds=KINDS),
        ]:
            started |= {claim.id for claim in claims}
        for task, found in told.items():
            blocked = BLOCKING & set(found)
            if task in started:
                # A limit lets through what was first in line when its permits were counted.
                assert not blocked, (task, found)
            elif not blocked:
                state = (await world.show(task)).state
                assert await causes(world, task) != [WaitCause.ABOUT_TO_START], (task, found, state)
    assert sum(seen.values()) >= WORLDS * TASKS, "each of them had an answer"
    assert len(seen) >= 8


WORLDS, TASKS = 250, 40
KINDS, QUEUES = ["a", "b"], ["high", "default"]


async def _random_world(world: World, chance: random.Random) -> list[str]:
    """Forty tasks, some of them behind something."""
    for name in KINDS:
        if chance.random() < 0.3:
            await world.operator.pause_kind(world.conn, name, "random")
        elif chance.random() < 0.3:
            limits = Limits(Settings(database_url=world.url), by="ada")
            await limits.set(world.conn, Scope.KIND, name, Limit(running=chance.choice([0, 1, 5])))
    if chance.random() < 0.2:
        await world.operator.pause_queue(world.conn, "high", "random")
    tasks = [
        NewTask(
            chance.choice(KINDS),
            queue=chance.choice(QUEUES),
            priority=chance.randrange(4),
            bucket=chance.choice([None, None, f"lane:{chance.randrange(3)}"]),
        )
        for _ in range(TASKS)
    ]
    ids = [one.id for one in await world.store.enqueue_many(world.conn, tasks)]
    for task in chance.sample(ids, 5):
        await world.operator.pause(world.conn, task, "random")
    for task in chance.sample(ids, 5):
        if chance.random() < 0.5:
            await world.operator.cancel(world.conn, task, "random")
    ids.append(
        (await world.store.enqueue_many(world.conn, [NewTask("a", after=chance.sample(ids, 3))]))[0].id
    )
    return ids
