"""The database's clock put back by an hour, or forward: all that has happened lies ahead, or long ago."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from holdfast.config import Settings
from holdfast.core.events import WorkersLost
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Fail, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import State
from holdfast.core.step import Step
from holdfast.db.clock import read_clock
from holdfast.store.clock_steps import ClockSteps
from holdfast.store.followups import Followups
from holdfast.store.limits import Limits
from tests.store.test_limits import claim_all
from tests.world import LEASE_SECONDS, World

HOUR = timedelta(hours=1)
COLUMNS = """
select c.relname, a.attname
from pg_attribute a join pg_class c on c.oid = a.attrelid
where c.relnamespace = 'holdfast'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    and a.atttypid = 'timestamptz'::regtype and a.attnum > 0 and not a.attisdropped
    and c.relname !~ '^(audit_.*|migrations|task_history|task_attempts)$'
"""


async def step(world: World, by: timedelta) -> Step:
    """Put the clock elsewhere, by moving all that the database knows the other way."""
    columns = await (await world.conn.execute(COLUMNS)).fetchall()
    async with world.conn.transaction():
        for table, column in columns:
            await world.conn.execute(f"update holdfast.{table} set {column} = {column} - %s", [by])
        micros = round(by.total_seconds() * 1_000_000)
        await world.conn.execute("update holdfast.line set turn = turn - %s", [micros])
        await world.conn.execute(
            "update holdfast.blocked set position = position - %s where bucket not like 'lane%%'", [micros]
        )
    now = await read_clock(world.conn)
    return Step(by.total_seconds(), now - by, now - timedelta(seconds=1))


@pytest.fixture
def steps(world: World) -> ClockSteps:
    return ClockSteps(Settings(database_url=world.url))


async def follow(world: World, steps: ClockSteps, seen: Step) -> None:
    """What maintenance does."""
    await steps.bring_back(world.conn)
    await steps.keep_due(world.conn, seen)
    await steps.adjust_leases(world.conn, LEASE_SECONDS)


async def starts_in(world: World, task_id: str) -> float:
    """In how many seconds a task may start."""
    cursor = await world.conn.execute(
        "select extract(epoch from r.run_at - now())::float8 from holdfast.ready r"
        " join holdfast.tasks t on (t.id, t.run_at) = (r.id, r.run_at) where r.id = %s",
        [task_id],
    )
    row = await cursor.fetchone()
    assert row is not None, "it is ready"
    seconds: float = row[0]
    return seconds


@pytest.mark.requirement("T3")
@pytest.mark.catches("due-tasks-wait-for-the-clock", "backoff-of-before-the-step")
async def test_what_was_due_before_the_clock_was_put_back_is_due_still(
    world: World, steps: ClockSteps
) -> None:
    at_once = await world.enqueue()
    in_half_an_hour = await world.enqueue(run_at=timedelta(minutes=30))
    again, polled = await world.enqueue("again"), await world.enqueue("polled")
    for claim in await world.claim(kinds=["again", "polled", "mail.send"]):
        outcome: Outcome = Released(Release.DRAINED)
        if claim.id == again:
            outcome = Retry("again", 5)
        elif claim.id == polled:
            outcome = Snooze(20)
        await world.settle((claim, outcome))
    seen = await step(world, -HOUR)
    later = await world.enqueue(run_at=timedelta(minutes=10))
    assert await claim_all(world) == []
    await follow(world, steps, seen)
    assert await starts_in(world, at_once) <= 0
    assert 0 < await starts_in(world, again) <= 5
    assert 5 < await starts_in(world, polled) <= 20
    assert 595 < await starts_in(world, later) <= 600, "what was enqueued since then keeps its time"
    assert await starts_in(world, in_half_an_hour) > 5_000, "a moment that somebody gave is a moment"
    assert [claim.id for claim in await claim_all(world)] == [at_once]


@pytest.mark.catches("due-tasks-wait-for-the-clock")
async def test_a_backlog_is_taken_back_to_now_in_its_order(world: World, steps: ClockSteps) -> None:
    ids = [await world.enqueue(priority=2) for _ in range(5)]
    seen = await step(world, -HOUR)
    while await steps.keep_due(world.conn, seen, 2):
        pass
    assert [claim.id for claim in await claim_all(world)] == ids


@pytest.mark.requirement("T4")
@pytest.mark.catches("turns-of-before-the-step")
@pytest.mark.parametrize("bucket", ["render/episode=7", "lane:7"])
async def test_what_stands_behind_a_bucket_goes_on_after_the_clock_was_put_back(
    world: World, limits: Limits, steps: ClockSteps, bucket: str
) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(1))
    for _ in range(3):
        await world.enqueue("render", bucket=bucket)
    (first,) = await claim_all(world)
    await step(world, -HOUR)
    assert await world.complete(first)
    await world.enqueue("render", bucket=bucket)
    await steps.bring_back(world.conn)
    assert len(await claim_all(world)) == 1


@pytest.mark.requirement("T4")
@pytest.mark.catches("rates-of-before-the-step")
async def test_a_rate_goes_on_after_the_clock_was_put_back_and_is_not_passed(
    world: World, limits: Limits, steps: ClockSteps
) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(rate="60/m", burst=5))
    for _ in range(20):
        await world.enqueue()
    assert len(await claim_all(world)) == 5
    await step(world, -HOUR)
    await steps.bring_back(world.conn)
    await steps.bring_back(world.conn)
    assert await claim_all(world) == []
    await world.conn.execute("update holdfast.rates set spent_until = spent_until - interval '2 s'")
    await world.conn.execute("update holdfast.line set turn = turn - 2000000")
    assert len(await claim_all(world)) == 2


@pytest.mark.catches("ramps-of-before-the-step")
async def test_a_queue_and_a_kind_that_were_resumed_before_the_clock_was_put_back_are_open(
    world: World, limits: Limits, steps: ClockSteps
) -> None:
    await limits.set(world.conn, Scope.KIND, "render", Limit(5))
    await world.operator.pause_queue(world.conn, "default", "deploy")
    await world.operator.pause_kind(world.conn, "render", "deploy")
    await world.operator.resume_queue(world.conn, "default")
    await world.operator.resume_kind(world.conn, "render")
    ids = [await world.enqueue(kind) for kind in ("mail.send", "render") for _ in range(5)]
    await world.conn.execute("update holdfast.buckets set resumed_at = now() - interval '30 s'")
    await world.conn.execute("update holdfast.queues set resumed_at = now() - interval '30 s'")
    seen = await step(world, -HOUR)
    await follow(world, steps, seen)
    # From then on as after any resume, which lasts seconds.
    await world.conn.execute("update holdfast.buckets set resumed_at = resumed_at - interval '10 s'")
    await world.conn.execute("update holdfast.queues set resumed_at = resumed_at - interval '10 s'")
    assert sorted(claim.id for claim in await claim_all(world)) == sorted(ids)


@pytest.mark.catches("walks-of-before-the-step")
async def test_the_walk_below_the_floors_goes_on_after_the_clock_was_put_back(
    world: World, steps: ClockSteps
) -> None:
    assert await world.store.claims.take_sweep(world.conn, ["default"], 1.0) == ["default"]
    await step(world, -HOUR)
    await steps.bring_back(world.conn)
    assert await world.store.claims.take_sweep(world.conn, ["default"], 1.0) == ["default"]


@pytest.mark.requirement("T3", "O1")
@pytest.mark.catches("dead-worker-alive-for-an-hour")
async def test_a_worker_that_died_when_the_clock_was_put_back_is_lost_a_lease_later(
    world: World, steps: ClockSteps
) -> None:
    task_id = await world.enqueue()
    await world.claim_one()
    seen = await step(world, -HOUR)
    await follow(world, steps, seen)
    await world.elapse(LEASE_SECONDS + 2)
    await world.reclaim(world.conn)
    assert await world.state(task_id) is State.QUEUED
    assert WorkersLost([world.worker]) in world.events


@pytest.mark.requirement("T3")
@pytest.mark.catches(
    "step-forward-loses-all-workers", "step-forward-revives-the-dead", "step-forward-times-all-out"
)
async def test_nobody_is_lost_because_the_clock_was_put_forward(world: World, steps: ClockSteps) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    await world.register(silent := str(uuid4()))
    await world.lapse(silent)
    seen = await step(world, HOUR)
    await steps.adjust_leases(world.conn, LEASE_SECONDS, seen.seconds)
    await world.reclaim(world.conn, forward=seen)
    assert [event for event in world.events if isinstance(event, WorkersLost)] == [WorkersLost([silent])]
    assert await world.state(task_id) is State.RUNNING
    assert await world.complete(claim)


@pytest.mark.catches("old-step-forgives-the-late")
async def test_what_started_after_the_clock_was_put_forward_has_its_own_deadline(
    world: World, steps: ClockSteps
) -> None:
    await world.register(world.worker)
    seen = await step(world, HOUR)
    await steps.adjust_leases(world.conn, LEASE_SECONDS, seen.seconds)
    task_id = await world.enqueue()
    await world.claim_one()
    await world.conn.execute("update holdfast.running set deadline_at = now() - interval '1 minute'")
    await world.reclaim(world.conn, forward=seen)
    assert await world.state(task_id) is State.QUEUED


@pytest.mark.requirement("T3")
@pytest.mark.catches("nobody-renews-after-a-step-forward")
async def test_a_worker_renews_though_the_clock_was_put_forward_before_maintenance_has_looked(
    world: World, limits: Limits
) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(1))
    await world.enqueue("render", bucket="render/episode=7")
    (claim,) = await claim_all(world)
    seen = await step(world, HOUR)
    assert await world.store.workers.renew(world.conn, [world.worker], LEASE_SECONDS) == {world.worker}
    await world.reclaim(world.conn, forward=seen)
    assert await world.rows("permits") == 1, "its permits are its own"
    assert await world.complete(claim)


@pytest.mark.catches("chores-of-nobody-for-an-hour")
async def test_the_chores_of_one_that_died_when_the_clock_was_put_back_are_taken_over(world: World) -> None:
    dead, heir = str(uuid4()), str(uuid4())
    assert (await world.store.workers.take_maintenance(world.conn, dead, 24.0))[0]
    assert not (await world.store.workers.take_maintenance(world.conn, heir, 24.0))[0]
    await step(world, -HOUR)
    assert (await world.store.workers.take_maintenance(world.conn, heir, 24.0))[0]


@pytest.mark.catches(
    "given-back-to-a-moment-of-before", "retried-at-a-moment-of-before", "due-from-a-moment-of-before"
)
@pytest.mark.parametrize("way", ["released", "retried", "paused", "redriven", "followed"])
async def test_what_goes_back_to_ready_after_the_clock_was_put_back_is_due(world: World, way: str) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    if way == "paused":
        await world.settle((claim, Released(Release.DRAINED)))
        await world.operator.pause(world.conn, task_id, "wait")
    elif way == "redriven":
        await world.settle((claim, Fail("X", "no")))
    elif way == "followed":
        task_id = await world.enqueue("after", after=[task_id])
    await step(world, -HOUR)
    if way == "released":
        await world.settle((claim, Released(Release.DRAINED)))
    elif way == "retried":
        await world.settle((claim, Retry("again", 5)))
    elif way == "paused":
        await world.operator.resume(world.conn, task_id)
    elif way == "redriven":
        await world.operator.redrive(world.conn, [task_id], "again")
    else:
        assert await world.complete(claim)
        await Followups(Settings(database_url=world.url)).release(world.conn)
    assert await starts_in(world, task_id) <= 5


async def test_a_paused_task_that_was_given_a_time_keeps_it(world: World) -> None:
    at = datetime.now(UTC) + 2 * HOUR
    task_id = await world.enqueue(run_at=at)
    await world.operator.pause(world.conn, task_id, "wait")
    await world.operator.resume(world.conn, task_id)
    assert (await world.show(task_id)).next_attempt_at == at
