"""Plans: frozen, approved, tried on a few, ramped, stopped, followed; one effect whoever presses twice."""

import asyncio
from collections.abc import Sequence
from decimal import Decimal

import pytest

from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.core.errors import PlanRefused
from holdfast.core.handler import Candidate, Guarded
from holdfast.core.outcome import Complete
from holdfast.core.state import State
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.ops.dead_letters import RETRYABLE, DeadFilter
from holdfast.ops.plan_view import How
from holdfast.ops.plans import Plans
from holdfast.store.due import look
from holdfast.store.plan_tasks import PLAN_KIND, PlanTasks
from tests.ops.conftest import Shift, last, shift_of
from tests.world import World, broken, proven


@pytest.mark.requirement("T10", "T12")
@pytest.mark.catches("audit-after-the-effect", "summary-forgotten", "skips-unsaid")
async def test_t10_t12_a_bulk_redrive_leaves_an_entry_for_each_item_each_skip_and_a_summary(
    shift: Shift,
) -> None:
    ids = await shift.fail(3)
    plan = await shift.plans.freeze(shift.world.conn, DeadFilter(ids=ids), "the cause is fixed")
    await shift.dead.retry(shift.world.conn, [ids[0]], "before it starts")
    plan, drift = await shift.plans.start(shift.world.conn, plan.id)
    assert drift == {"back at work": 1}
    await shift.drive(plan)
    assert await shift.actions(plan.id) == [
        "PLAN_CREATE",
        "PLAN_START",
        "TASK_RETRY_BATCH_ITEM",
        "TASK_RETRY_BATCH_ITEM",
        "TASK_RETRY_BATCH_SKIPPED",
        "TASK_RETRY_BATCH_SUMMARY",
    ]
    assert await shift.plans.skips(shift.world.conn, plan.id) == {"it is back at work already": 1}
    assert [await shift.world.state(task) for task in ids] == [State.QUEUED] * 3


@pytest.mark.requirement("T10")
@pytest.mark.catches("plan-takes-the-living")
async def test_t10_only_failed_and_cancelled_tasks_are_retried(shift: Shift) -> None:
    (failed,) = await shift.fail()
    cancelled, queued = await shift.world.enqueue(), await shift.world.enqueue()
    await shift.world.operator.cancel(shift.world.conn, cancelled, "not now")
    only = DeadFilter(ids=[failed, cancelled, queued], states=RETRYABLE)
    plan = await shift.start(only)
    assert plan.items == 2
    await shift.drive(plan)
    assert (await shift.seen(plan)).sent == 2


@pytest.mark.requirement("T10", "T11")
@pytest.mark.catches("preview-writes")
async def test_t11_a_preview_says_what_would_happen_and_leaves_no_trace(shift: Shift) -> None:
    await shift.fail(4, kind="a")
    await shift.fail(2, kind="b", message="other")
    seen = await shift.plans.preview(shift.world.conn, DeadFilter())
    assert seen.tasks == 6
    assert [(sort.kind, sort.tasks) for sort in seen.sorts] == [("a", 4), ("b", 2)]
    assert len(seen.sample) == 6
    assert not seen.needs_approval
    assert await shift.actions() == []
    assert await shift.world.rows("plans") == 0


async def test_what_became_of_each_item_is_told(shift: Shift) -> None:
    same, anew, fine, cancelled, gone = await shift.fail(5)
    plan = await shift.start()
    await shift.drive(plan)
    conn = shift.world.conn
    await shift.world.operator.cancel(conn, cancelled, "not needed")
    await shift.world.operator.cancel(conn, gone, "not needed")
    await shift.dead.forget(conn, [gone], "not needed")
    claims = {claim.id: last(claim) for claim in await shift.world.claim()}
    await shift.world.settle(
        (claims[same], broken("boom")), (claims[anew], broken("another")), (claims[fine], Complete())
    )
    assert await shift.drive(plan) is None
    plan = await shift.seen(plan)
    assert (plan.succeeded, plan.failed_same, plan.failed_anew, plan.cancelled, plan.gone) == (1, 1, 1, 1, 1)
    assert plan.state == "finished"
    assert plan.followed_at is not None


@pytest.mark.catches("drift-unseen")
async def test_what_changed_since_the_plan_was_made_is_reported_and_left_alone(shift: Shift) -> None:
    retried, forgotten, anew, same = await shift.fail(4)
    conn = shift.world.conn
    plan = await shift.plans.freeze(conn, DeadFilter(), "the cause is fixed")
    await shift.dead.retry(conn, [retried, anew], "early")
    claims = {claim.id: last(claim) for claim in await shift.world.claim()}
    await shift.world.settle((claims[retried], Complete()), (claims[anew], broken()))
    await shift.dead.forget(conn, [forgotten], "noise")
    assert await shift.plans.drift(conn, plan.id) == {"gone": 2, "failed anew": 1}
    plan, drift = await shift.plans.start(conn, plan.id)
    assert drift == {"gone": 2, "failed anew": 1}
    await shift.drive(plan)
    plan = await shift.seen(plan)
    assert (plan.sent, plan.skipped) == (1, 3)
    assert await shift.world.state(same) is State.QUEUED
    assert await shift.world.state(anew) is State.FAILED


@pytest.mark.catches("item-adds-a-second-row")
async def test_a_dead_letter_that_still_has_a_row_is_skipped_and_says_why(shift: Shift) -> None:
    fails, queued = (await shift.fail())[0], await shift.world.enqueue()
    await shift.world.conn.execute(
        "update holdfast.tasks set mark = 'failed', marked_at = now(), dead_reason = 'non_retryable'"
        " where id = %s",
        [queued],
    )
    plan = await shift.start()
    await shift.drive(plan)
    assert ((await shift.seen(plan)).sent, (await shift.seen(plan)).skipped) == (1, 1)
    ((task, reason),) = await shift.world.rows_of("plan_skips", "task_id::text, reason")
    assert (task, "doctor --repair" in str(reason)) == (queued, True)
    assert await shift.world.state(fails) is State.QUEUED
    await shift.world.conn.execute("delete from holdfast.ready where id = %s", [queued])


@pytest.mark.catches("own-approval-accepted", "approval-not-asked-for")
async def test_a_large_plan_needs_somebody_else(world: World) -> None:
    shift = shift_of(world, approval_above=2)
    await shift.fail(3)
    plan = await shift.plans.freeze(world.conn, DeadFilter(), "all of it")
    assert plan.shown_state == "awaiting approval"
    with pytest.raises(PlanRefused, match="needs the approval of a second person: somebody other than ada"):
        await shift.plans.start(world.conn, plan.id)
    with pytest.raises(PlanRefused, match="nobody approves their own"):
        await shift.plans.approve(world.conn, plan.id)
    async with proven(world.conn, "another-token-of-ada"):
        with pytest.raises(PlanRefused, match="nobody approves their own"):
            await shift.plans.approve(world.conn, plan.id)
    await shift.approve(plan.id, reason="looked at it")
    plan, _ = await shift.plans.start(world.conn, plan.id)
    assert (plan.approved_by, plan.state) == ("bob", "running")
    with pytest.raises(PlanRefused, match="approved it already"):
        await shift.approve(plan.id, identity="of-carol")


@pytest.mark.requirement("R3")
@pytest.mark.catches("flush-alone")
async def test_r3_a_flush_always_needs_somebody_else_and_lets_everything_go(shift: Shift) -> None:
    ids = await shift.fail(2)
    conn = shift.world.conn
    plan = await shift.plans.freeze(conn, DeadFilter(), "post-mortem done", action="forget")
    with pytest.raises(PlanRefused):
        await shift.plans.start(conn, plan.id)
    await shift.approve(plan.id)
    await shift.plans.start(conn, plan.id)
    assert await shift.drive(plan) is None
    assert await shift.world.rows("tasks") == 1  # the one that drives
    plan = await shift.seen(plan)
    assert (plan.state, plan.sent, plan.gone) == ("finished", 2, 2)
    actions = await shift.actions(plan.id)
    assert actions.count("TASK_FORGET_BATCH_ITEM") == len(ids)
    assert actions[-1] == "TASK_FORGET_BATCH_SUMMARY"


@pytest.mark.catches("expired-plans-start")
async def test_a_plan_that_has_expired_cannot_be_approved_or_started(shift: Shift) -> None:
    await shift.fail(1)
    conn = shift.world.conn
    plan = await shift.plans.freeze(conn, DeadFilter(), "later", action="forget")
    await conn.execute("update holdfast.plans set expires_at = now() - interval '1 s'")
    with pytest.raises(PlanRefused):
        await shift.approve(plan.id)
    other = await shift.plans.freeze(conn, DeadFilter(), "later")
    await conn.execute("update holdfast.plans set expires_at = now() - interval '1 s'")
    with pytest.raises(PlanRefused, match="make it anew"):
        await shift.plans.start(conn, other.id)
    assert (await shift.seen(other)).shown_state == "expired"


@pytest.mark.catches("item-redriven-twice")
async def test_two_drivers_do_no_more_than_one(shift: Shift) -> None:
    await shift.fail(40)
    plan = await shift.start()
    conns = [await shift.world.open() for _ in range(4)]
    sends = [shift.driver.send(conn, plan.id, "redrive", 1, 40, {}) for conn in conns]
    dealt_with = await asyncio.gather(*sends)
    assert sorted(dealt_with) == [0, 0, 0, 40]
    letters = await shift.world.rows_of("tasks", "max(replay_count)")
    assert letters == [(1,)]
    assert (await shift.seen(plan)).sent == 40


@pytest.mark.catches("two-starts")
async def test_two_operators_who_press_at_once_make_one_effect_and_one_root(shift: Shift) -> None:
    world = shift.world
    conns = [await world.open(), await world.open()]
    for _ in range(100):
        await shift.fail(2)
        plan = await shift.plans.freeze(world.conn, DeadFilter(), "now")
        presses = [
            shift.plans.start(conns[0], plan.id),
            shift.others_plans.start(conns[1], plan.id),
        ]
        answers = await asyncio.gather(*presses, return_exceptions=True)
        assert sorted(isinstance(answer, PlanRefused) for answer in answers) == [False, True], answers
        await shift.drive(plan)
        assert await shift.succeed() == 2
        await shift.drive(plan)
        actions = await shift.actions(plan.id)
        assert actions.count("PLAN_START") == 1
        assert actions.count("TASK_RETRY_BATCH_SUMMARY") == 1
        assert actions.count("TASK_RETRY_BATCH_ITEM") == 2


async def test_a_plan_whose_driver_was_lost_is_driven_again(shift: Shift) -> None:
    await shift.fail(1)
    plan = await shift.start()
    assert (await look(shift.world.conn, shift.settings)).undriven == []
    (driver,) = await shift.world.claim(queues=["holdfast"])
    assert driver.kind == PLAN_KIND
    await shift.world.settle((driver._replace(failures=5_000), broken()))
    await shift.world.conn.execute(
        "update holdfast.tasks set mark = 'failed', marked_at = now(), dead_reason = 'non_retryable'"
        " where kind = %s",
        [PLAN_KIND],
    )
    await shift.world.conn.execute("delete from holdfast.ready where kind = %s", [PLAN_KIND])
    assert (await look(shift.world.conn, shift.settings)).undriven == [plan.id]
    await PlanTasks(shift.settings).begin(shift.world.conn, plan.id)
    assert (await look(shift.world.conn, shift.settings)).undriven == []
    # The dead driver is no dead letter of a person.
    assert [one.kind for one in await shift.dead.page(shift.world.conn, DeadFilter())] == ["mail.send"]


@pytest.mark.catches("guard-not-asked")
async def test_a_guard_vetoes_items_and_says_what_the_rest_would_cost(world: World) -> None:
    app = Holdfast(world.url)
    settled: set[int] = {2}

    async def guard(candidates: Sequence[Candidate]) -> list[Guarded]:
        cost = Guarded(money_effect=Decimal("1.50"))
        veto = Guarded(veto="its batch is settled")
        return [veto if one.payload["batch"] in settled else cost for one in candidates]

    @app.task("pay", guard=guard)
    async def pay(task: Task[dict[str, int]]) -> None:
        """Nothing."""

    shift = shift_of(world, app.handlers)
    for batch in (1, 2, 3):
        await world.enqueue("pay", payload={"batch": batch})
    await shift.fail_again()
    seen = await shift.plans.preview(world.conn, DeadFilter())
    assert (seen.tasks, seen.excluded, seen.money_effect) == (2, {"its batch is settled": 1}, Decimal("3.00"))
    plan = await shift.start()
    assert (plan.items, plan.excluded) == (2, {"its batch is settled": 1})
    # It is asked once more just before an item goes.
    settled.add(3)
    await shift.drive(plan)
    plan = await shift.seen(plan)
    assert (plan.sent, plan.skipped) == (1, 1)
    assert await shift.plans.skips(world.conn, plan.id) == {"vetoed: its batch is settled": 1}


@pytest.mark.catches("in-two-plans")
async def test_what_another_plan_is_about_to_send_is_left_out(shift: Shift) -> None:
    await shift.fail(3)
    first = await shift.start(how=How(rate=0.5))
    second = await shift.plans.freeze(shift.world.conn, DeadFilter(), "me too")
    assert second.items == 0
    assert second.excluded == {f"in plan {first.id}": 3}


@pytest.mark.catches("kinds-named-after-the-schema")
async def test_plans_are_driven_once_in_a_schema_of_another_name(shift: Shift, direct_url: str) -> None:
    settings = Settings(database_url=shift.world.url, schema_name="other")
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
