"""Steps of a clock, as they are told from the time that a question takes."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.step import Step, StepWatch

NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


@pytest.mark.parametrize("seconds", [3600.0, -3600.0, 2.0, -2.0])
def test_a_clock_that_was_put_elsewhere_is_noticed_once(seconds: float) -> None:
    watch = StepWatch()
    assert watch.learn(after(0), 100.0, 100.0) is None
    assert watch.learn(after(5), 105.0, 105.0) is None
    step = watch.learn(after(6 + seconds), 106.0, 106.0)
    # It happened at some moment since it was read last.
    assert step == Step(seconds, after(6), after(5 + seconds))
    assert watch.learn(after(7 + seconds), 107.0, 107.0) is None


def test_an_answer_that_takes_long_is_no_step() -> None:
    watch = StepWatch()
    assert watch.learn(after(0), 100.0, 130.0) is None
    # Read at the beginning of one question and at the end of the next, or the other way round.
    assert watch.learn(after(60), 131.0, 160.0) is None
    assert watch.learn(after(90), 190.0, 191.0) is None


def test_a_step_that_is_longer_than_the_answers_took_is_one() -> None:
    watch = StepWatch()
    watch.learn(after(0), 100.0, 110.0)
    step = watch.learn(after(90), 111.0, 120.0)
    assert step is not None
    assert step.seconds == 70.0, "no less than that, whenever it was read"


def test_a_clock_that_drifts_is_no_step() -> None:
    watch = StepWatch()
    for second in range(1_000):
        assert watch.learn(after(second * 1.2), 100.0 + second, 100.0 + second) is None
