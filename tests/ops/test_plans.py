"""Plans: frozen, approved, tried on a few, ramped, stopped, followed; one effect whoever presses twice."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import pytest

from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.core.errors import PlanNotFound, PlanRefused
from holdfast.core.handler import Guarded, Suspect
from holdfast.core.outcome import Complete
from holdfast.core.state import State
from holdfast.ops.dead import RETRYABLE, DeadFilter
from holdfast.ops.plan import How
from holdfast.ops.plans import Plans
from holdfast.store.drivers import PLAN_KIND, Drivers
from holdfast.store.migrate import migrate_up
from holdfast.store.pending import look
from holdfast.store.pool import connect
from tests.ops.conftest import Desk, desk_of, last
from tests.world import World, broken


@pytest.mark.requirement("T10", "T12")
@pytest.mark.catches("audit-after-the-effect", "summary-forgotten", "skips-unsaid")
async def test_t10_t12_a_bulk_redrive_leaves_an_entry_for_each_item_each_skip_and_a_summary(
    desk: Desk,
) -> None:
    ids = await desk.fail(3)
    plan = await desk.plans.freeze(desk.world.conn, DeadFilter(ids=ids), "the cause is fixed")
    await desk.dead.retry(desk.world.conn, [ids[0]], "before it starts")
    plan, drift = await desk.plans.start(desk.world.conn, plan.id)
    assert drift == {"back at work": 1}
    await desk.drive(plan)
    assert await desk.actions(plan.id) == [
        "PLAN_CREATE",
        "PLAN_START",
        "TASK_RETRY_BATCH_ITEM",
        "TASK_RETRY_BATCH_ITEM",
        "TASK_RETRY_BATCH_SKIPPED",
        "TASK_RETRY_BATCH_SUMMARY",
    ]
    assert await desk.plans.skips(desk.world.conn, plan.id) == {"it is back at work already": 1}
    assert [await desk.world.state(task) for task in ids] == [State.QUEUED] * 3


@pytest.mark.requirement("T10")
@pytest.mark.catches("plan-takes-the-living")
async def test_t10_only_failed_and_cancelled_tasks_are_retried(desk: Desk) -> None:
    (failed,) = await desk.fail()
    cancelled, queued = await desk.world.enqueue(), await desk.world.enqueue()
    await desk.world.operator.cancel(desk.world.conn, cancelled, "not now")
    only = DeadFilter(ids=[failed, cancelled, queued], states=RETRYABLE)
    plan = await desk.start(only)
    assert plan.items == 2
    await desk.drive(plan)
    assert (await desk.seen(plan)).sent == 2


@pytest.mark.requirement("T10", "T11")
@pytest.mark.catches("preview-writes")
async def test_t11_a_preview_says_what_would_happen_and_leaves_no_trace(desk: Desk) -> None:
    await desk.fail(4, kind="a")
    await desk.fail(2, kind="b", message="other")
    seen = await desk.plans.preview(desk.world.conn, DeadFilter())
    assert seen.tasks == 6
    assert [(sort.kind, sort.tasks) for sort in seen.sorts] == [("a", 4), ("b", 2)]
    assert len(seen.sample) == 6
    assert not seen.needs_approval
    assert await desk.actions() == []
    assert await desk.world.rows("plans") == 0


@pytest.mark.catches("canary-ignored")
async def test_a_cause_that_is_not_fixed_stops_the_plan_after_the_canary(desk: Desk) -> None:
    await desk.fail(20)
    plan = await desk.start(how=How(canary=3))
    assert await desk.drive(plan) is not None
    assert (await desk.seen(plan)).sent == 3
    await desk.fail_again()
    await desk.drive(plan)
    plan = await desk.seen(plan)
    assert (plan.state, plan.sent, plan.failed_same, plan.ended_why) == (
        "stopped",
        3,
        3,
        "3 of the 3 of the canary failed",
    )
    untouched = await desk.dead.page(desk.world.conn, DeadFilter(), limit=100)
    assert sum(one.replay_count == 0 for one in untouched) == 17
    assert (await desk.actions(plan.id))[-2:] == ["PLAN_STOP", "TASK_RETRY_BATCH_SUMMARY"]


@pytest.mark.catches("canary-of-the-first")
async def test_a_canary_is_spread_over_the_whole_set(desk: Desk) -> None:
    ids = [(await desk.fail())[0] for _ in range(9)]
    plan = await desk.start(how=How(canary=3))
    cursor = await desk.world.conn.execute(
        "select task_id::text from holdfast.plan_items where place <= 3 order by place"
    )
    assert [task for (task,) in await cursor.fetchall()] == [ids[0], ids[3], ids[6]]
    assert plan.canary == 3


@pytest.mark.catches("ramp-never-stops")
async def test_a_cause_that_is_half_fixed_stops_the_ramp_at_the_declared_ratio(desk: Desk) -> None:
    await desk.fail(60)
    plan = await desk.start(how=How(canary=2, rate=10.0, stop_ratio=0.4))
    await desk.drive(plan)
    assert await desk.succeed() == 2
    effects = {"done": 2, "failed": 0}
    for _ in range(40):
        await desk.world.conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '1 s'")
        await desk.drive(plan)
        if (await desk.seen(plan)).state == "stopped":
            break
        claims = await desk.world.claim(20)
        for number, claim in enumerate(claims):
            fixed = number % 2 == 0
            effects["done" if fixed else "failed"] += 1
            outcome = Complete() if fixed else broken("boom")
            await desk.world.settle((last(claim), outcome))
    plan = await desk.seen(plan)
    assert plan.state == "stopped"
    assert plan.ended_why is not None
    assert "more than 40%" in plan.ended_why
    for _ in range(3):
        await desk.drive(plan)
    await desk.succeed()
    await desk.drive(plan)
    plan = await desk.seen(plan)
    assert plan.sent < 60
    assert plan.failed_same == effects["failed"]
    assert plan.succeeded + plan.failed_same == plan.sent
    assert plan.followed_at is not None


@pytest.mark.catches("ramp-all-at-once")
async def test_a_ramp_sends_no_more_than_its_rate(desk: Desk) -> None:
    await desk.fail(50)
    plan = await desk.start(how=How(rate=10.0))
    await desk.drive(plan)
    assert (await desk.seen(plan)).sent < 10
    await desk.world.conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '2 s'")
    await desk.drive(plan)
    assert 20 <= (await desk.seen(plan)).sent < 30


async def test_what_became_of_each_item_is_told(desk: Desk) -> None:
    same, anew, fine, cancelled, gone = await desk.fail(5)
    plan = await desk.start()
    await desk.drive(plan)
    conn = desk.world.conn
    await desk.world.operator.cancel(conn, cancelled, "not needed")
    await desk.world.operator.cancel(conn, gone, "not needed")
    await desk.dead.forget(conn, [gone], "not needed")
    claims = {claim.id: last(claim) for claim in await desk.world.claim()}
    await desk.world.settle(
        (claims[same], broken("boom")), (claims[anew], broken("another")), (claims[fine], Complete())
    )
    assert await desk.drive(plan) is None
    plan = await desk.seen(plan)
    assert (plan.succeeded, plan.failed_same, plan.failed_anew, plan.cancelled, plan.gone) == (1, 1, 1, 1, 1)
    assert plan.state == "finished"
    assert plan.followed_at is not None


@pytest.mark.catches("drift-unseen")
async def test_what_changed_since_the_plan_was_made_is_reported_and_left_alone(desk: Desk) -> None:
    retried, forgotten, anew, same = await desk.fail(4)
    conn = desk.world.conn
    plan = await desk.plans.freeze(conn, DeadFilter(), "the cause is fixed")
    await desk.dead.retry(conn, [retried, anew], "early")
    claims = {claim.id: last(claim) for claim in await desk.world.claim()}
    await desk.world.settle((claims[retried], Complete()), (claims[anew], broken()))
    await desk.dead.forget(conn, [forgotten], "noise")
    assert await desk.plans.drift(conn, plan.id) == {"gone": 2, "failed anew": 1}
    plan, drift = await desk.plans.start(conn, plan.id)
    assert drift == {"gone": 2, "failed anew": 1}
    await desk.drive(plan)
    plan = await desk.seen(plan)
    assert (plan.sent, plan.skipped) == (1, 3)
    assert await desk.world.state(same) is State.QUEUED
    assert await desk.world.state(anew) is State.FAILED


@pytest.mark.catches("own-approval-accepted", "approval-not-asked-for")
async def test_a_large_plan_needs_somebody_else(world: World) -> None:
    desk = desk_of(world, approval_above=2)
    await desk.fail(3)
    plan = await desk.plans.freeze(world.conn, DeadFilter(), "all of it")
    assert plan.shown_state == "awaiting approval"
    with pytest.raises(PlanRefused, match="waits for somebody other than ada"):
        await desk.plans.start(world.conn, plan.id)
    with pytest.raises(PlanRefused, match="nobody approves their own"):
        await desk.plans.approve(world.conn, plan.id)
    await desk.others_plans.approve(world.conn, plan.id, "looked at it")
    plan, _ = await desk.plans.start(world.conn, plan.id)
    assert (plan.approved_by, plan.state) == ("bob", "running")
    with pytest.raises(PlanRefused, match="approved it already"):
        await desk.others_plans.approve(world.conn, plan.id)


@pytest.mark.requirement("R3")
@pytest.mark.catches("flush-alone")
async def test_r3_a_flush_always_needs_somebody_else_and_lets_everything_go(desk: Desk) -> None:
    ids = await desk.fail(2)
    conn = desk.world.conn
    plan = await desk.plans.freeze(conn, DeadFilter(), "post-mortem done", action="forget")
    with pytest.raises(PlanRefused):
        await desk.plans.start(conn, plan.id)
    await desk.others_plans.approve(conn, plan.id)
    await desk.plans.start(conn, plan.id)
    assert await desk.drive(plan) is None
    assert await desk.world.rows("tasks") == 1  # the one that drives
    plan = await desk.seen(plan)
    assert (plan.state, plan.sent, plan.gone) == ("finished", 2, 2)
    actions = await desk.actions(plan.id)
    assert actions.count("TASK_FORGET_BATCH_ITEM") == len(ids)
    assert actions[-1] == "TASK_FORGET_BATCH_SUMMARY"


@pytest.mark.catches("expired-plans-start")
async def test_a_plan_that_has_expired_cannot_be_approved_or_started(desk: Desk) -> None:
    await desk.fail(1)
    conn = desk.world.conn
    plan = await desk.plans.freeze(conn, DeadFilter(), "later", action="forget")
    await conn.execute("update holdfast.plans set expires_at = now() - interval '1 s'")
    with pytest.raises(PlanRefused):
        await desk.others_plans.approve(conn, plan.id)
    other = await desk.plans.freeze(conn, DeadFilter(), "later")
    await conn.execute("update holdfast.plans set expires_at = now() - interval '1 s'")
    with pytest.raises(PlanRefused, match="make it anew"):
        await desk.plans.start(conn, other.id)
    assert (await desk.seen(other)).shown_state == "expired"


async def test_a_plan_is_paused_resumed_and_aborted(desk: Desk) -> None:
    await desk.fail(30)
    conn = desk.world.conn
    plan = await desk.start(how=How(rate=100.0))
    await desk.plans.pause(conn, plan.id, "the provider wobbles")
    await desk.drive(plan)
    sent = (await desk.seen(plan)).sent
    await desk.plans.resume(conn, plan.id)
    await conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '0.1 s'")
    await desk.drive(plan)
    assert (await desk.seen(plan)).sent >= sent + 10
    await desk.plans.abort(conn, plan.id, "enough")
    sent = (await desk.seen(plan)).sent
    await desk.drive(plan)
    plan = await desk.seen(plan)
    assert (plan.state, plan.sent, plan.ended_why) == ("aborted", sent, "enough")
    with pytest.raises(PlanRefused):
        await desk.plans.resume(conn, plan.id)
    with pytest.raises(PlanNotFound):
        await desk.plans.show(conn, "0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f")


@pytest.mark.catches("item-redriven-twice")
async def test_two_drivers_do_no_more_than_one(desk: Desk) -> None:
    await desk.fail(40)
    plan = await desk.start()
    conns = [await desk.world.open() for _ in range(4)]
    sends = [desk.driver.send(conn, plan.id, "redrive", 1, 40, {}) for conn in conns]
    dealt_with = await asyncio.gather(*sends)
    assert sorted(dealt_with) == [0, 0, 0, 40]
    letters = await desk.world.rows_of("tasks", "max(replay_count)")
    assert letters == [(1,)]
    assert (await desk.seen(plan)).sent == 40


@pytest.mark.catches("two-starts")
async def test_two_operators_who_press_at_once_make_one_effect_and_one_root(desk: Desk) -> None:
    world = desk.world
    conns = [await world.open(), await world.open()]
    for _ in range(100):
        await desk.fail(2)
        plan = await desk.plans.freeze(world.conn, DeadFilter(), "now")
        presses = [
            desk.plans.start(conns[0], plan.id),
            desk.others_plans.start(conns[1], plan.id),
        ]
        answers = await asyncio.gather(*presses, return_exceptions=True)
        assert sorted(isinstance(answer, PlanRefused) for answer in answers) == [False, True], answers
        await desk.drive(plan)
        assert await desk.succeed() == 2
        await desk.drive(plan)
        actions = await desk.actions(plan.id)
        assert actions.count("PLAN_START") == 1
        assert actions.count("TASK_RETRY_BATCH_SUMMARY") == 1
        assert actions.count("TASK_RETRY_BATCH_ITEM") == 2


async def test_a_plan_whose_driver_was_lost_is_driven_again(desk: Desk) -> None:
    await desk.fail(1)
    plan = await desk.start()
    assert (await look(desk.world.conn, desk.settings)).undriven == []
    (driver,) = await desk.world.claim(queues=["holdfast"])
    assert driver.kind == PLAN_KIND
    await desk.world.settle((driver._replace(failures=5_000), broken()))
    await desk.world.conn.execute(
        "update holdfast.tasks set mark = 'failed', marked_at = now(), dead_reason = 'non_retryable'"
        " where kind = %s",
        [PLAN_KIND],
    )
    await desk.world.conn.execute("delete from holdfast.ready where kind = %s", [PLAN_KIND])
    assert (await look(desk.world.conn, desk.settings)).undriven == [plan.id]
    await Drivers(desk.settings).begin(desk.world.conn, plan.id)
    assert (await look(desk.world.conn, desk.settings)).undriven == []
    # The dead driver is no dead letter of a person.
    assert [one.kind for one in await desk.dead.page(desk.world.conn, DeadFilter())] == ["mail.send"]


@pytest.mark.catches("guard-not-asked")
async def test_a_guard_vetoes_items_and_says_what_the_rest_would_cost(world: World) -> None:
    app = Holdfast(world.url)
    settled: set[int] = {2}

    async def guard(suspects: Sequence[Suspect]) -> list[Guarded]:
        cost = Guarded(money_effect=Decimal("1.50"))
        veto = Guarded(veto="its batch is settled")
        return [veto if one.payload["batch"] in settled else cost for one in suspects]

    @app.task("pay", guard=guard)
    async def pay(task: Task[dict[str, int]]) -> None:
        """Nothing."""

    desk = desk_of(world, app.handlers)
    for batch in (1, 2, 3):
        await world.enqueue("pay", payload={"batch": batch})
    await desk.fail_again()
    seen = await desk.plans.preview(world.conn, DeadFilter())
    assert (seen.tasks, seen.excluded, seen.money_effect) == (2, {"its batch is settled": 1}, Decimal("3.00"))
    plan = await desk.start()
    assert (plan.items, plan.excluded) == (2, {"its batch is settled": 1})
    # It is asked once more just before an item goes.
    settled.add(3)
    await desk.drive(plan)
    plan = await desk.seen(plan)
    assert (plan.sent, plan.skipped) == (1, 1)
    assert await desk.plans.skips(world.conn, plan.id) == {"vetoed: its batch is settled": 1}


@pytest.mark.catches("in-two-plans")
async def test_what_another_plan_is_about_to_send_is_left_out(desk: Desk) -> None:
    await desk.fail(3)
    first = await desk.start(how=How(rate=0.5))
    second = await desk.plans.freeze(desk.world.conn, DeadFilter(), "me too")
    assert second.items == 0
    assert second.excluded == {f"in plan {first.id}": 3}


@pytest.mark.catches("kinds-named-after-the-schema")
async def test_plans_are_driven_once_in_a_schema_of_another_name(desk: Desk, direct_url: str) -> None:
    settings = Settings(database_url=desk.world.url, schema_name="other")
    async with await connect(direct_url) as conn:
        await migrate_up(conn, "other")
        try:
            plans = Plans(settings, by="ada")
            plan = await plans.freeze(conn, DeadFilter(), "nothing to do")
            await plans.start(conn, plan.id)
            assert (await look(conn, settings)).undriven == []
            await conn.execute("update other.tasks set mark = 'cancelled', marked_at = now()")
            assert (await look(conn, settings)).undriven == [plan.id]
            # The driver's own task is nobody's dead letter.
            assert (await plans.preview(conn, DeadFilter(states=RETRYABLE))).tasks == 0
        finally:
            await conn.execute("drop schema other cascade")
