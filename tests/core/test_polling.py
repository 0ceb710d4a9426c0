"""When polling is given up, and how long it waits until then."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.decide import Policy, decide
from holdfast.core.errors import Misused
from holdfast.core.failure import DeadReason
from holdfast.core.outcome import Snooze
from holdfast.core.polling import NO_PROGRESS, POLLING_OVERDUE, POLLS_EXHAUSTED, Polling
from holdfast.core.state import Move
from holdfast.core.task import Counters
from tests.core.test_decide import NOW, held

START = NOW.timestamp()
POLICY = Policy(polling=Polling(answers=20, total=3600, no_progress=600))


def polled(ago: float, progress: float | None, progressed_ago: float) -> tuple[float, float | None, float]:
    return START - ago, progress, START - progressed_ago


@pytest.mark.catches("polls-without-end")
def test_the_last_poll_that_is_answered_with_a_snooze_ends_it() -> None:
    verdict = decide(held(polls=18, polled=polled(10, 5, 1)), Snooze(30), POLICY)
    assert verdict.move is Move.SNOOZE
    verdict = decide(held(polls=19, polled=polled(10, 5, 1)), Snooze(30), POLICY)
    assert (verdict.move, verdict.dead_reason) == (Move.FAIL, DeadReason.NON_RETRYABLE)
    assert verdict.failure is not None
    assert verdict.failure.code == POLLS_EXHAUSTED
    assert verdict.spent == Counters(attempts=1, polls=1)


@pytest.mark.catches("polling-without-deadline")
def test_after_its_total_time_it_ends_and_the_last_poll_comes_at_the_deadline() -> None:
    late = held(polls=3, polled=polled(3590, 5, 1))
    assert decide(late, Snooze(30, progress=9), POLICY).after_seconds == pytest.approx(10)
    over = held(polls=3, polled=polled(3600, 5, 1))
    verdict = decide(over, Snooze(30, progress=9), POLICY)
    assert verdict.failure is not None
    assert verdict.failure.code == POLLING_OVERDUE
    assert verdict.failure.message == "it was not done 1:00:00 after the first poll"


@pytest.mark.catches("stall-not-seen")
@pytest.mark.parametrize("progress", [None, 4.9, 5.0])
def test_without_progress_it_ends_and_only_a_rise_is_progress(progress: float | None) -> None:
    still = held(polls=3, polled=polled(700, 5.0, 600))
    verdict = decide(still, Snooze(30, progress=progress), POLICY)
    assert verdict.failure is not None
    assert verdict.failure.code == NO_PROGRESS
    assert decide(still, Snooze(30, progress=5.1), POLICY).move is Move.SNOOZE


def test_the_first_poll_and_one_without_bounds_go_on() -> None:
    assert decide(held(), Snooze(timedelta(minutes=5)), POLICY).after_seconds == 300
    assert decide(held(polls=10_000, polled=polled(1e7, None, 1e7)), Snooze(5), Policy()).after_seconds == 5


@given(st.integers(0, 40), st.floats(0, 8000), st.floats(0, 8000), st.floats(0, 1e6))
def test_no_wait_reaches_past_a_deadline(polls: int, ago: float, still: float, after: float) -> None:
    still = min(still, ago)
    claim = held(polls=polls, polled=polled(ago, 1.0, still) if polls else None)
    verdict = decide(claim, Snooze(after), POLICY)
    begun, stalled = (ago, still) if polls else (0.0, 0.0)
    over = polls + 1 >= 20 or begun >= 3600 or stalled >= 600
    assert (verdict.move is Move.FAIL) == over
    if verdict.after_seconds is not None:
        assert verdict.after_seconds <= min(after, 3600 - begun, 600 - stalled) + 1e-3


@pytest.mark.parametrize("bounds", [{"answers": 0}, {"total": 0}, {"no_progress": -1}])
def test_bounds_that_make_no_sense_are_refused(bounds: dict[str, int]) -> None:
    with pytest.raises(Misused):
        Polling(**bounds)
