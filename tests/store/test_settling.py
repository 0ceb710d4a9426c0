"""Stories of settling: successes, failures, results that cannot be stored, and what is counted."""

import pytest

from holdfast.core.errors import PayloadTooLarge
from holdfast.core.events import (
    ResultRejected,
    TasksClaimed,
)
from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.outcome import Cancel, Complete, Fail, Outcome, Retry, Snooze
from holdfast.core.state import State
from holdfast.core.task import Claim, NewTask
from tests.world import World, broken


@pytest.mark.requirement("F2")
@pytest.mark.catches("success-stays-alive")
async def test_a_success_leaves_the_live_tables_with_its_execution_time(world: World) -> None:
    task_id = await world.enqueue(payload={"to": 7}, subject="order:7", trace_id="t-1")
    claim = await world.claim_one()
    await world.settle((claim, Complete('{"sent": true}')))
    seen = await world.show(task_id)
    assert (seen.state, seen.result, seen.subject) == (State.COMPLETED, '{"sent": true}', "order:7")
    assert seen.execution_seconds is not None
    assert seen.execution_seconds >= 0
    assert (await world.rows("tasks"), await world.rows("running")) == (0, 0)


@pytest.mark.requirement("F1", "F4", "T7", "T8")
@pytest.mark.catches("error-not-kept", "failure-not-recorded")
async def test_a_failure_is_marked_in_its_own_row_with_all_that_is_known(world: World) -> None:
    task_id = await world.enqueue(payload={"shot": 3}, max_attempts=1, trace_id="t-9", key="shot:3")
    claim = await world.claim_one()
    await world.settle((claim, broken("provider said 503")))
    seen = await world.show(task_id)
    assert seen.is_failed
    assert seen.dead_reason is DeadReason.MAX_ATTEMPTS_EXCEEDED
    assert seen.error is not None
    assert (seen.error.failure_class, seen.error.code) == (FailureClass.TRANSIENT, "TASK_EXECUTION_FAILED")
    assert (seen.error.message, seen.error.stack) == ("provider said 503", "Traceback …")
    assert seen.error.at == seen.finished_at
    assert (seen.counters.attempts, seen.counters.failures, seen.key, seen.trace_id) == (
        1,
        1,
        "shot:3",
        "t-9",
    )
    assert seen.payload == '{"shot": 3}'
    assert await world.attempts(task_id) == ["fail"]
    assert seen.next_attempt_at is None


@pytest.mark.requirement("T6", "T8", "O4")
@pytest.mark.catches("retried-for-ever")
async def test_a_task_that_always_fails_ends_after_its_attempts(world: World) -> None:
    task_id = await world.enqueue(max_attempts=4)
    for attempt in range(4):
        claim = await world.claim_one()
        assert (claim.attempts, claim.failures) == (attempt, attempt)
        await world.settle((claim, broken()))
        await world.elapse(61)
    assert await world.claim() == []
    seen = await world.show(task_id)
    assert (seen.state, seen.counters.attempts) == (State.FAILED, 4)
    assert await world.attempts(task_id) == ["retry", "retry", "retry", "fail"]


@pytest.mark.requirement("O3", "T8")
@pytest.mark.catches("terminal-error-retried")
async def test_a_deterministic_error_fails_at_its_first_attempt(world: World) -> None:
    task_id = await world.enqueue(max_attempts=20)
    claim = await world.claim_one()
    await world.settle((claim, Fail("TASK_PAYLOAD_INVALID", "no such operation")))
    seen = await world.show(task_id)
    assert (seen.state, seen.dead_reason) == (State.FAILED, DeadReason.NON_RETRYABLE)
    assert (seen.counters.attempts, seen.next_attempt_at) == (1, None)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Cancel("a\0b"), State.CANCELLED),
        (Snooze(float("inf"), progress=float("nan")), State.QUEUED),
        (Retry("x", after=1e300), State.QUEUED),
        (Snooze(float("nan")), State.QUEUED),
    ],
)
async def test_a_verdict_with_impossible_values_is_settled_all_the_same(
    world: World, outcome: Outcome, state: State
) -> None:
    ids = [await world.enqueue() for _ in range(3)]
    first, second, third = await world.claim()
    settled = await world.settle((first, Complete()), (second, outcome), (third, Complete()))
    assert len(settled.accepted) == 3
    assert await world.state(ids[1]) is state


@pytest.mark.catches("settle-aborts-its-caller")
async def test_a_bad_result_inside_the_caller_s_transaction_leaves_it_whole(world: World) -> None:
    await world.enqueue()
    await world.enqueue()
    good, bad = await world.claim()
    async with world.conn.transaction():
        mine = await world.enqueue("mine")
        await world.settle((good, Complete('"ok"')), (bad, Complete('"\\u0000"')))
    assert (await world.state(mine), await world.state(good.id)) == (State.QUEUED, State.COMPLETED)
    assert await world.state(bad.id) is State.FAILED


async def test_a_result_that_only_speaks_of_nul_is_kept(world: World) -> None:
    task_id = await world.enqueue()
    await world.settle((await world.claim_one(), Complete('"\\\\u0000"')))
    assert (await world.show(task_id)).result == '"\\\\u0000"'


@pytest.mark.catches("bad-result-holds-up-its-group")
@pytest.mark.parametrize(
    "result",
    [
        '"' + "x" * 70_000 + '"',
        '"a\\u0000b"',
        '"a\0b"',
        '"\\ud800"',
        "1e999999",
        "[" * 20_000 + "]" * 20_000,
        '"\udc80"',
    ],
    ids=["too-large", "escaped-nul", "nul", "lone-surrogate", "out-of-range", "too-deep", "raw-surrogate"],
)
@pytest.mark.catches("surrogate-kills-the-executor")
async def test_one_result_that_cannot_be_stored_fails_alone(world: World, result: str) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("mail.send") for _ in range(200)])
    claims = await world.claim(200)
    group: list[tuple[Claim, Outcome]] = [(claim, Complete('"ok"')) for claim in claims]
    group[77] = (claims[77], Complete(result))
    settled = await world.settle(*group)
    assert len(settled.accepted) == 200
    assert await world.rows("task_history") == 199
    seen = await world.show(claims[77].id)
    assert seen.error is not None
    assert (seen.state, seen.error.failure_class) == (State.FAILED, FailureClass.INVALID)
    assert any(isinstance(event, ResultRejected) for event in world.events)


async def test_a_payload_past_the_limit_is_refused_before_it_is_sent(world: World) -> None:
    with pytest.raises(PayloadTooLarge, match=r"mail\.send task has 256003 bytes, the limit is 256000"):
        await world.store.enqueue(world.conn, NewTask("mail.send", '"' + "x" * 256_001 + '"'))


async def test_a_large_payload_is_not_copied_into_history(world: World) -> None:
    big, small = await world.enqueue(payload={"n": list(range(4_000))}), await world.enqueue(payload={"n": 1})
    for claim in await world.claim():
        await world.complete(claim)
    assert (await world.show(big)).payload is None
    assert (await world.show(small)).payload == '{"n": 1}'


async def test_progress_never_goes_back_and_claims_are_told(world: World) -> None:
    await world.enqueue()
    for progress in (0.4, 0.2, 0.6):
        await world.settle((await world.claim_one(), Snooze(0, progress=progress)))
        await world.elapse(1)
    row = await (await world.conn.execute("select progress from holdfast.tasks")).fetchone()
    assert row == (pytest.approx(0.6),)
    assert len([event for event in world.events if isinstance(event, TasksClaimed)]) == 3


async def test_counts_come_from_deltas_and_are_rolled_up_by_minute(world: World) -> None:
    for _ in range(3):
        await world.enqueue()
    first, second, third = await world.claim()
    await world.settle((first, Complete()), (second, Complete()), (third, Retry("again")))
    cursor = await world.conn.execute("select kind, ended_as, tasks from holdfast.settled_deltas order by 2")
    assert await cursor.fetchall() == [("mail.send", "complete", 2), ("mail.send", "retry", 1)]
