"""Plans tried on a few first, then ramped; stopped where the cause is still there, paused, aborted."""

import pytest

from holdfast.core.errors import PlanNotFound, PlanRefused
from holdfast.core.outcome import Complete
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.plan_view import How
from tests.ops.conftest import Shift, last
from tests.world import broken


@pytest.mark.catches("canary-ignored")
async def test_a_cause_that_is_not_fixed_stops_the_plan_after_the_canary(shift: Shift) -> None:
    await shift.fail(20)
    plan = await shift.start(how=How(canary=3))
    assert await shift.drive(plan) is not None
    assert (await shift.seen(plan)).sent == 3
    await shift.fail_again()
    await shift.drive(plan)
    plan = await shift.seen(plan)
    assert (plan.state, plan.sent, plan.failed_same, plan.ended_why) == (
        "stopped",
        3,
        3,
        "3 of the 3 of the canary failed",
    )
    untouched = await shift.dead.page(shift.world.conn, DeadFilter(), limit=100)
    assert sum(one.replay_count == 0 for one in untouched) == 17
    assert (await shift.actions(plan.id))[-2:] == ["PLAN_STOP", "TASK_RETRY_BATCH_SUMMARY"]


@pytest.mark.catches("canary-of-the-first")
async def test_a_canary_is_spread_over_the_whole_set(shift: Shift) -> None:
    ids = [(await shift.fail())[0] for _ in range(9)]
    plan = await shift.start(how=How(canary=3))
    cursor = await shift.world.conn.execute(
        "select task_id::text from holdfast.plan_items where place <= 3 order by place"
    )
    assert [task for (task,) in await cursor.fetchall()] == [ids[0], ids[3], ids[6]]
    assert plan.canary == 3


@pytest.mark.catches("ramp-never-stops")
async def test_a_cause_that_is_half_fixed_stops_the_ramp_at_the_declared_ratio(shift: Shift) -> None:
    await shift.fail(60)
    plan = await shift.start(how=How(canary=2, rate=10.0, stop_ratio=0.4))
    await shift.drive(plan)
    assert await shift.succeed() == 2
    effects = {"done": 2, "failed": 0}
    for _ in range(40):
        await shift.world.conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '1 s'")
        await shift.drive(plan)
        if (await shift.seen(plan)).state == "stopped":
            break
        claims = await shift.world.claim(20)
        for number, claim in enumerate(claims):
            fixed = number % 2 == 0
            effects["done" if fixed else "failed"] += 1
            outcome = Complete() if fixed else broken("boom")
            await shift.world.settle((last(claim), outcome))
    plan = await shift.seen(plan)
    assert plan.state == "stopped"
    assert plan.ended_why is not None
    assert "more than 40%" in plan.ended_why
    for _ in range(3):
        await shift.drive(plan)
    await shift.succeed()
    await shift.drive(plan)
    plan = await shift.seen(plan)
    assert plan.sent < 60
    assert plan.failed_same == effects["failed"]
    assert plan.succeeded + plan.failed_same == plan.sent
    assert plan.followed_at is not None


@pytest.mark.catches("ramp-all-at-once")
async def test_a_ramp_sends_no_more_than_its_rate(shift: Shift) -> None:
    await shift.fail(50)
    plan = await shift.start(how=How(rate=10.0))
    await shift.drive(plan)
    assert (await shift.seen(plan)).sent < 10
    await shift.world.conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '2 s'")
    await shift.drive(plan)
    assert 20 <= (await shift.seen(plan)).sent < 30


async def test_a_plan_is_paused_resumed_and_aborted(shift: Shift) -> None:
    # More than are sent while the test runs, also on a busy machine, and no more than need no approval.
    await shift.fail(1_000)
    conn = shift.world.conn
    plan = await shift.start(how=How(rate=20.0))
    await shift.plans.pause(conn, plan.id, "the provider wobbles")
    await shift.drive(plan)
    sent = (await shift.seen(plan)).sent
    await shift.plans.resume(conn, plan.id)
    await conn.execute("update holdfast.plans set ramp_from = ramp_from - interval '0.5 s'")
    await shift.drive(plan)
    assert (await shift.seen(plan)).sent >= sent + 10
    await shift.plans.abort(conn, plan.id, "enough")
    sent = (await shift.seen(plan)).sent
    await shift.drive(plan)
    plan = await shift.seen(plan)
    assert (plan.state, plan.sent, plan.ended_why) == ("aborted", sent, "enough")
    with pytest.raises(PlanRefused):
        await shift.plans.resume(conn, plan.id)
    with pytest.raises(PlanNotFound):
        await shift.plans.show(conn, "0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f")
