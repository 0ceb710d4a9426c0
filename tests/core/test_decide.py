"""What an outcome does to a task, row by row of the class table."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.backoff import Backoff
from holdfast.core.decide import CRASHES_MAX, Policy, decide
from holdfast.core.failure import RULES, DeadReason, ErrorCode, Failure, FailureClass, storable
from holdfast.core.outcome import (
    Cancel,
    Complete,
    Expired,
    Fail,
    Failed,
    Release,
    Released,
    Retry,
    Snooze,
    WorkerLost,
)
from holdfast.core.state import TRANSITIONS, Move, State, after
from holdfast.core.task import Claim, Counters

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)
POLICY = Policy(max_attempts=3, backoff=Backoff(2, 60), jitter=random.Random(1))


def held(**changes: object) -> Claim:
    claim = Claim(
        id="0190", fence=5, kind="video.render", queue="video", priority=2, payload="{}", version=1,
        run_at=NOW, enqueued_at=NOW, expires_at=None, subject=None, trace_id=None, key=None, bucket=None,
        max_attempts=None, timeout_seconds=None, attempts=0, failures=0, crashes=0, polls=0, rate_limits=0,
        isolate=False, polled=None, claimed_at=NOW, worker="w",
    )  # fmt: skip
    return claim._replace(**changes)  # type: ignore[arg-type]


def test_a_value_completes() -> None:
    verdict = decide(held(), Complete('"url"'), POLICY)
    assert (verdict.move, verdict.result, verdict.spent) == (Move.COMPLETE, '"url"', Counters(attempts=1))


@pytest.mark.catches("snooze-spends-an-attempt")
def test_a_snooze_spends_no_attempt() -> None:
    verdict = decide(held(failures=2), Snooze(15, progress=0.4), POLICY)
    assert (verdict.move, verdict.after_seconds, verdict.progress) == (Move.SNOOZE, 15, 0.4)
    assert verdict.spent == Counters(polls=1)


@pytest.mark.catches("release-spends-an-attempt")
@pytest.mark.parametrize("why", Release)
def test_a_released_claim_is_as_if_never_made(why: Release) -> None:
    verdict = decide(held(), Released(why), POLICY)
    assert (verdict.move, verdict.spent, verdict.after_seconds) == (Move.RELEASE, Counters(), 0.0)


@pytest.mark.requirement("T6", "O4")
@pytest.mark.catches("retried-for-ever")
@pytest.mark.parametrize("failures", range(5))
def test_the_last_allowed_attempt_ends_in_failed(failures: int) -> None:
    failure = Failure.of(FailureClass.TRANSIENT, "503")
    verdict = decide(held(failures=failures), Failed(failure), POLICY)
    expected = Move.RETRY if failures < 2 else Move.FAIL
    assert verdict.move is expected
    assert verdict.dead_reason == (None if failures < 2 else DeadReason.MAX_ATTEMPTS_EXCEEDED)


def test_the_task_s_own_limit_comes_before_the_policy() -> None:
    verdict = decide(held(max_attempts=1), Retry("again"), POLICY)
    assert verdict.move is Move.FAIL


@pytest.mark.requirement("T6", "O3", "T8")
@pytest.mark.catches("terminal-error-retried")
@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.EXECUTION_FAILED])
def test_every_code_but_execution_failed_is_terminal_at_once(code: ErrorCode) -> None:
    verdict = decide(held(max_attempts=50), Fail(code, "gone"), POLICY)
    assert (verdict.move, verdict.after_seconds) == (Move.FAIL, None)
    assert verdict.dead_reason is DeadReason.NON_RETRYABLE
    assert verdict.failure is not None
    assert verdict.failure.code == code


@pytest.mark.catches("terminal-error-retried")
@pytest.mark.parametrize("failure_class", FailureClass)
def test_each_class_follows_its_row(failure_class: FailureClass) -> None:
    rule = RULES[failure_class]
    verdict = decide(held(max_attempts=10), Failed(Failure.of(failure_class, "no")), POLICY)
    assert verdict.move is (Move.RETRY if rule.retried else Move.FAIL)
    assert verdict.failure is not None
    assert verdict.failure.code == rule.code
    assert verdict.spent.attempts == 1


@pytest.mark.catches("rate-limit-spends")
def test_being_told_to_wait_spends_nothing_for_a_while() -> None:
    wait = Failed(Failure.of(FailureClass.RATE_LIMITED, "429"), after_seconds=7)
    free = decide(held(rate_limits=19), wait, POLICY)
    assert (free.move, free.after_seconds, free.spent) == (Move.RETRY, 7, Counters(attempts=1, rate_limits=1))
    spent = decide(held(rate_limits=20), wait, POLICY)
    assert spent.spent == Counters(attempts=1, failures=1)


@pytest.mark.catches("neighbours-accused")
def test_a_death_among_others_accuses_nobody() -> None:
    verdict = decide(held(crashes=CRASHES_MAX - 1), WorkerLost(sole=False), POLICY)
    assert (verdict.move, verdict.spent, verdict.after_seconds) == (Move.RECLAIM, Counters(), 0.0)


def test_the_third_death_alone_is_poison() -> None:
    second = decide(held(crashes=1), WorkerLost(sole=True), POLICY)
    assert (second.move, second.spent.crashes) == (Move.RECLAIM, 1)
    third = decide(held(crashes=2, max_attempts=100), WorkerLost(sole=True), POLICY)
    assert (third.move, third.dead_reason) == (Move.FAIL, DeadReason.NON_RETRYABLE)
    assert third.failure is not None
    assert third.failure.failure_class is FailureClass.POISON


@pytest.mark.catches("expired-task-starts")
def test_a_claim_after_its_expiry_is_known_as_such() -> None:
    late = held(expires_at=NOW - timedelta(seconds=1))
    assert late.expired
    verdict = decide(late, Expired(), POLICY)
    assert (verdict.move, verdict.reason, verdict.spent) == (Move.CANCEL, "expired", Counters())
    assert not held(expires_at=NOW + timedelta(seconds=1)).expired
    assert not held().expired


@pytest.mark.requirement("T6", "O2")
@pytest.mark.catches("backoff-without-a-floor", "backoff-without-a-cap")
@given(failures=st.integers(0, 10_000), seed=st.integers())
def test_backoff_lies_between_half_and_all_of_the_capped_power(failures: int, seed: int) -> None:
    full = min(60.0, 2.0 * 2.0 ** min(failures, 100))
    assert full / 2 <= Backoff().seconds(failures, random.Random(seed)) <= full


@given(text=st.text(st.characters()), limit=st.integers(2, 50))
def test_whatever_the_message_it_can_be_stored(text: str, limit: int) -> None:
    kept = storable(text + "\0\ud800", limit)
    assert len(kept) <= limit
    assert "\0" not in kept
    kept.encode()


def test_every_move_has_a_source_and_every_outcome_of_cancel_is_cancel() -> None:
    assert {move for _, move in TRANSITIONS} == set(Move)
    assert after(State.COMPLETED, Move.REDRIVE) is None
    assert decide(held(), Cancel("not wanted"), POLICY).move is Move.CANCEL
