"""A task's life as people would tell it."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from holdfast.core.errors import LeaseLost, MoveRefused, PayloadTooLarge, TaskNotFound
from holdfast.core.events import (
    LateResultsRefused,
    ResultRejected,
    TasksClaimed,
    WorkersLost,
)
from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.outcome import Cancel, Complete, Fail, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import State
from holdfast.core.task import Claim, NewTask
from tests.world import LEASE_SECONDS, World, broken


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


@pytest.mark.requirement("T2")
@pytest.mark.catches("no-fence", "fence-does-not-grow", "late-result-in-silence")
async def test_a_worker_that_comes_back_after_its_lease_cannot_settle(world: World) -> None:
    task_id = await world.enqueue()
    stale = await world.claim_one()
    await world.lapse(world.worker)
    await world.store.reclaim(world.conn, world.policy)
    current = await world.claim_one(worker=str(uuid4()))
    assert current.fence > stale.fence
    late = await world.settle((stale, Complete('"late"')))
    assert not late.accepted
    assert [claim.id for claim, _ in late.refused] == [task_id]
    assert any(isinstance(event, LateResultsRefused) for event in world.events)
    assert await world.attempts(task_id) == ["reclaim", "late"]
    assert await world.complete(current)
    assert (await world.show(task_id)).result is None


@pytest.mark.requirement("T2")
@pytest.mark.catches("no-fence-on-retry")
@pytest.mark.parametrize(
    "outcome", [Snooze(60), Retry("again"), Fail("X", "no"), Cancel("no"), Released(Release.DRAINED)]
)
async def test_no_late_verdict_of_any_kind_lands(world: World, outcome: Outcome) -> None:
    task_id = await world.enqueue()
    stale = await world.claim_one()
    await world.settle((stale, Released(Release.DRAINED)))
    current = await world.claim_one()
    assert not (await world.settle((stale, outcome))).accepted
    assert await world.state(task_id) is State.RUNNING
    assert await world.complete(current)


async def test_an_old_and_a_new_claim_of_one_task_in_one_group(world: World) -> None:
    task_id = await world.enqueue(bucket="lane:1")
    stale = await world.claim_one()
    await world.settle((stale, Released(Release.DRAINED)))
    current = await world.claim_one()
    settled = await world.settle((stale, Complete('"old"')), (current, Complete('"new"')))
    assert [claim.fence for claim, _ in settled.accepted] == [current.fence]
    assert [claim.fence for claim, _ in settled.refused] == [stale.fence]
    assert (await world.show(task_id)).result == '"new"'


@pytest.mark.requirement("T3", "O1")
@pytest.mark.catches("lost-worker-renews")
async def test_a_worker_declared_lost_stays_lost(world: World) -> None:
    await world.enqueue()
    await world.claim_one()
    assert await world.store.renew(world.conn, world.worker, LEASE_SECONDS) > datetime.now(UTC)
    await world.lapse(world.worker)
    with pytest.raises(LeaseLost, match=world.worker):
        await world.store.renew(world.conn, world.worker, LEASE_SECONDS)
    settled = await world.store.reclaim(world.conn, world.policy)
    assert len(settled.accepted) == 1
    assert WorkersLost([world.worker]) in world.events


@pytest.mark.catches("neighbours-accused", "release-spends-an-attempt", "snooze-spends-an-attempt")
async def test_what_is_no_fault_of_the_task_spends_nothing(world: World) -> None:
    task_id = await world.enqueue(max_attempts=1)
    for outcome in (Snooze(0, progress=0.5), Released(Release.DRAINED), Snooze(0, progress=0.2)):
        claim = await world.claim_one()
        await world.settle((claim, outcome))
        await world.elapse(1)
    for _ in range(5):
        worker = str(uuid4())
        await world.enqueue("neighbour")
        assert len(await world.claim(worker=worker)) >= 2
        await world.lapse(worker)
        await world.store.reclaim(world.conn, world.policy)
        await world.elapse(1)
    counters = (await world.show(task_id)).counters
    assert (counters.attempts, counters.failures, counters.crashes, counters.polls) == (0, 0, 0, 2)


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


@pytest.mark.catches("claim-ignores-priority", "claim-before-its-time")
async def test_queues_then_priorities_then_first_come(world: World) -> None:
    late = await world.enqueue(queue="low", priority=0)
    third = await world.enqueue(queue="high", priority=2)
    second = await world.enqueue(queue="high", priority=1)
    fourth = await world.enqueue(queue="high", priority=2)
    await world.enqueue(queue="high", priority=0, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert (await world.claim_one(queues=["high", "low"])).id == second
    claims = await world.claim(2, queues=["high", "low"])
    assert [claim.id for claim in claims] == [third, fourth]
    assert [claim.id for claim in await world.claim(3, queues=["high", "low"])] == [late]


@pytest.mark.catches("claim-ignores-a-paused-queue")
async def test_a_paused_queue_starts_nothing_until_it_is_resumed(world: World) -> None:
    task_id = await world.enqueue(queue="video")
    await world.operator.pause_queue(world.conn, "video", "provider is down")
    assert await world.claim(queues=["video"]) == []
    await world.operator.resume_queue(world.conn, "video")
    assert (await world.claim_one(queues=["video"])).id == task_id


@pytest.mark.catches("claim-ignores-a-closed-kind")
async def test_a_closed_kind_steps_aside_and_comes_back(world: World) -> None:
    held = [await world.enqueue("mail.send") for _ in range(3)]
    other = await world.enqueue("report.build")
    await world.operator.close_kind(world.conn, "mail.send", "bad template")
    assert [claim.id for claim in await world.claim()] == [other]
    assert await world.rows("waiting") == 3
    await world.operator.open_kind(world.conn, "mail.send")
    assert sorted(claim.id for claim in await world.claim()) == sorted(held)


@pytest.mark.catches("slot-not-returned", "reclaim-forgets-the-limit")
async def test_a_bucket_lets_one_task_run_and_a_lost_worker_s_slot_comes_back(world: World) -> None:
    for _ in range(3):
        await world.enqueue(bucket="lane:order-7")
    worker = str(uuid4())
    (first,) = await world.claim(worker=worker)
    assert first.bucket == "lane:order-7"
    assert await world.claim() == []
    await world.lapse(worker)
    await world.store.reclaim(world.conn, world.policy)
    (second,) = await world.claim()
    assert await world.claim() == []
    await world.complete(second)
    assert len(await world.claim()) == 1


@pytest.mark.catches("stray-claims-kept")
async def test_a_claim_whose_answer_was_lost_goes_back_unspent(world: World) -> None:
    known = await world.enqueue()
    kept = await world.claim_one()
    lost = await world.enqueue()
    await world.claim_one()
    given_back = await world.store.reconcile(world.conn, world.worker, [kept])
    assert [claim.id for claim, _ in given_back.accepted] == [lost]
    assert (await world.state(known), await world.state(lost)) == (State.RUNNING, State.QUEUED)
    assert (await world.show(lost)).counters.attempts == 0


@pytest.mark.catches("answer-lost-means-late")
async def test_a_settle_whose_answer_was_lost_is_not_called_late(world: World) -> None:
    ids = [await world.enqueue() for _ in range(3)]
    done, retried, late = await world.claim()
    first = [world.verdict(done, Complete()), world.verdict(retried, Retry("again"))]
    await world.store.settle(world.conn, first)
    await world.settle((late, Released(Release.DRAINED)))
    world.events.clear()
    again = await world.store.settle_again(world.conn, [*first, world.verdict(late, Complete())])
    assert sorted(claim.id for claim, _ in again.accepted) == sorted(ids[:2])
    assert [claim.id for claim, _ in again.refused] == ids[2:]
    assert [type(event) for event in world.events] == [LateResultsRefused]


@pytest.mark.requirement("O5")
@pytest.mark.catches("redrive-takes-paused", "re-entry-below-the-floor")
async def test_an_operator_puts_a_dead_letter_back_to_work(world: World) -> None:
    dead, paused = await world.enqueue(max_attempts=1), await world.enqueue()
    claim = await world.claim_one()
    await world.settle((claim, broken()))
    await world.operator.pause(world.conn, paused, "not yet")
    assert await world.operator.redrive(world.conn, [dead, paused], "provider fixed") == [dead]
    seen = await world.show(dead)
    assert (seen.state, seen.error, seen.dead_reason, seen.counters.failures) == (State.QUEUED, None, None, 0)
    assert await world.attempts(dead) == ["fail"]
    assert await world.complete(await world.claim_one())


@pytest.mark.catches("cancel-marks-a-running-task")
async def test_cancelling_a_running_task_asks_its_worker(world: World) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    assert await world.operator.cancel(world.conn, task_id, "customer left") is State.RUNNING
    asked = await world.store.cancel_requests(world.conn, world.worker)
    assert asked == [(task_id, claim.fence, "customer left")]
    await world.settle((claim, Cancel("customer left")))
    assert await world.store.cancel_requests(world.conn, world.worker) == []
    assert await world.operator.prune_cancel_requests(world.conn) == 1
    with pytest.raises(MoveRefused, match=f"task {task_id} is cancelled: only a paused, queued or running"):
        await world.operator.cancel(world.conn, task_id, "again")


@pytest.mark.catches("cancel-forgotten")
@pytest.mark.parametrize("outcome", [Snooze(0), Retry("x"), Released(Release.DRAINED), Fail("X", "no")])
async def test_a_claim_that_was_asked_to_stop_does_not_go_back_to_the_queue(
    world: World, outcome: Outcome
) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    await world.operator.cancel(world.conn, task_id, "customer left")
    await world.settle((claim, outcome))
    seen = await world.show(task_id)
    if isinstance(outcome, Fail):
        assert (seen.state, seen.mark_reason) == (State.FAILED, None)
    else:
        assert (seen.state, seen.mark_reason) == (State.CANCELLED, "customer left")


@pytest.mark.requirement("T6")
@pytest.mark.catches("death-alone-never-counts")
async def test_a_task_that_kills_its_worker_three_times_while_alone_is_poison(world: World) -> None:
    task_id = await world.enqueue(max_attempts=100)
    for _ in range(3):
        worker = str(uuid4())
        await world.claim_one(worker=worker)
        await world.lapse(worker)
        await world.store.reclaim(world.conn, world.policy)
        await world.elapse(1)
    seen = await world.show(task_id)
    assert seen.error is not None
    assert (seen.state, seen.error.failure_class) == (State.FAILED, FailureClass.POISON)
    assert (seen.dead_reason, seen.counters.crashes) == (DeadReason.NON_RETRYABLE, 3)


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Cancel("a\0b"), State.CANCELLED),
        (Snooze(float("inf"), progress=float("nan")), State.QUEUED),
        (Retry("x", after_seconds=1e300), State.QUEUED),
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


@pytest.mark.catches("infinity-stops-every-claim")
@pytest.mark.parametrize(
    "options",
    [
        "expires_at => 'infinity'",
        "timeout_seconds => 'infinity'",
        "timeout_seconds => 'nan'",
        "run_at => 'infinity'",
    ],
)
async def test_a_value_that_would_stop_every_claim_is_refused(world: World, options: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="finite"):
        await world.conn.execute(f"select holdfast.enqueue('mail.send', {options})")


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


@pytest.mark.catches("empty-buckets-take-every-place")
async def test_buckets_that_can_give_nothing_do_not_starve_the_others(world: World) -> None:
    for lane in range(5):
        await world.enqueue("closed", bucket=f"lane:{lane}")
    await world.operator.close_kind(world.conn, "closed", "down")
    wanted = await world.enqueue("open", bucket="lane:z")
    assert await world.claim(5) == [], "the closed ones are moved out of the way"
    assert [claim.id for claim in await world.claim(5)] == [wanted]


async def test_a_pause_ends_when_its_end_has_come(world: World) -> None:
    ago = datetime.now(UTC) - timedelta(seconds=1)
    await world.operator.pause_queue(world.conn, "default", "lunch", ago)
    await world.operator.close_kind(world.conn, "mail.send", "lunch", until=ago)
    await world.enqueue()
    assert await world.claim() == []
    assert sorted(await world.operator.reopen(world.conn)) == ["default", "kind:mail.send"]
    assert len(await world.claim()) == 1


async def test_what_does_not_exist_is_named(world: World) -> None:
    missing = str(uuid4())
    with pytest.raises(TaskNotFound, match=missing):
        await world.show(missing)


@pytest.mark.catches("expired-task-starts")
async def test_a_task_that_did_not_start_in_time_is_cancelled(world: World) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    waiting = await world.enqueue(expires_at=soon)
    claimed = await world.enqueue(expires_at=soon, queue="slow")
    await world.elapse(60)
    claim = await world.claim_one(queues=["slow"])
    assert claim.expired
    assert await world.operator.expire(world.conn) == [waiting]
    assert (await world.show(waiting)).mark_reason == "expired"
    assert await world.state(claimed) is State.RUNNING


async def test_a_task_past_its_deadline_is_taken_from_a_live_worker(world: World) -> None:
    task_id = await world.enqueue(timeout_seconds=10)
    await world.claim_one()
    await world.store.renew(world.conn, world.worker, 3_600)
    await world.elapse(45)
    await world.store.renew(world.conn, world.worker, 3_600)
    await world.store.reclaim(world.conn, world.policy)
    seen = await world.show(task_id)
    assert seen.state is State.QUEUED
    assert seen.error is not None
    assert seen.error.failure_class is FailureClass.TIMEOUT


@pytest.mark.catches("bad-result-holds-up-its-group")
@pytest.mark.parametrize(
    "result",
    ['"' + "x" * 70_000 + '"', '"a\\u0000b"', '"a\0b"', '"\\ud800"', "1e999999", "[" * 20_000 + "]" * 20_000],
    ids=["too-large", "escaped-nul", "nul", "lone-surrogate", "out-of-range", "too-deep"],
)
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
