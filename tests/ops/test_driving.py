"""A real worker drives a plan, is killed on the way, and nothing is sent twice or missed."""

from collections.abc import Callable

import pytest

from holdfast.ops.dead_letters import DeadFilter
from tests.ops.conftest import Shift
from tests.tree import Tree, until, until_true

TASKS = 6_000
# What is asked is that it goes on, and how often; a busy machine takes its time to start six processes.
PATIENCE_SECONDS = 120


@pytest.mark.requirement("R7", "O5")
@pytest.mark.catches("item-redriven-twice", "driver-not-served")
async def test_r7_a_plan_survives_the_death_of_whoever_drives_it(
    shift: Shift, trees: Callable[..., Tree]
) -> None:
    conn = shift.world.conn
    await conn.execute(
        "insert into holdfast.tasks (id, enqueued_at, run_at, priority, kind, queue, payload, mark,"
        " marked_at, dead_reason, failure_class, error_code, error_message, fingerprint)"
        " select holdfast.uuid7(), now(), now(), 2, 'noop', 'default', '{}', 'failed', now(),"
        " 'max_attempts_exceeded', 'transient', 'TASK_EXECUTION_FAILED', 'boom', 'f'"
        " from generate_series(1, %s)",
        [TASKS],
    )
    plan = await shift.plans.freeze(conn, DeadFilter(), "the provider is back")
    await shift.approve(plan.id)
    tree = await trees().start("--processes", 2).ready(2)
    await shift.plans.start(conn, plan.id)
    for share in (0.2, 0.5, 0.8):

        async def passed(share: float = share) -> bool:
            return (await shift.seen(plan)).sent >= TASKS * share

        await until_true(passed, PATIENCE_SECONDS, "the plan to go on")
        tree.kill_executors()

    async def followed() -> bool:
        return (await shift.seen(plan)).followed_at is not None

    await until_true(followed, PATIENCE_SECONDS, "the last outcome")
    ends = [line for line in tree.lines("plan.changed") if line["state"] == "finished"]
    # Once, unless whoever ended it was killed before it could say so.
    assert [line["plan"] for line in ends] in ([plan.id], [])
    plan = await shift.seen(plan)
    assert (plan.state, plan.sent, plan.succeeded, plan.skipped) == ("finished", TASKS, TASKS, 0)
    actions = await shift.actions(plan.id)
    assert actions.count("TASK_RETRY_BATCH_ITEM") == TASKS
    assert actions.count("TASK_RETRY_BATCH_SUMMARY") == 1
    cursor = await conn.execute(
        "select count(*), count(distinct task_id) from holdfast.audit_log where batch_id = %s::uuid"
        " and action = 'TASK_RETRY_BATCH_ITEM'",
        [plan.id],
    )
    assert await cursor.fetchone() == (TASKS, TASKS)


@pytest.mark.catches("drivers-in-silence")
async def test_what_a_plan_comes_to_is_told_by_the_worker_that_drives_it(
    shift: Shift, trees: Callable[..., Tree]
) -> None:
    await shift.fail(2, kind="noop")
    plan = await shift.start()
    tree = trees().start()

    def told() -> bool:
        return any(line["state"] == "finished" for line in tree.lines("plan.changed"))

    await until(told, PATIENCE_SECONDS, "the line")
    assert (await shift.seen(plan)).sent == 2
