"""Whatever a handler returns or raises becomes an outcome that can be settled."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from holdfast import Cancel, Complete, Fail, Retry, Snooze, Task
from holdfast.core.decide import Policy, decide
from holdfast.core.failure import FailureClass
from holdfast.core.handler import Handler
from holdfast.core.outcome import Failed
from holdfast.runtime.execute import execute_alone, execute_here
from holdfast.runtime.flight import _HEAD, _SLOT, FlightRecord
from tests.core.test_decide import held


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def run(answer: Any) -> Any:
    def call(_: Task[Any]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return execute_here(Handler("x", call, False), Task("0190", "x", None, "k", 1, 1))


@pytest.mark.catches("outcome-taken-as-it-is")
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Complete({"a": 1}), Complete('{"a": 1}')),  # type: ignore[arg-type]
        (Complete(5), Complete("5")),  # type: ignore[arg-type]
        (Snooze(1, progress=Decimal("0.5")), Snooze(1.0, 0.5)),  # type: ignore[arg-type]
        (Retry(ValueError("no")), Retry("no")),  # type: ignore[arg-type]
        (Cancel(None), Cancel("None")),  # type: ignore[arg-type]
        (Fail(404, "x"), Fail("404", "x")),  # type: ignore[arg-type]
    ],
)
def test_an_outcome_with_odd_values_is_made_right(answer: object, outcome: object) -> None:
    assert run(answer) == outcome
    decide(held(), run(answer), Policy())


@pytest.mark.parametrize("answer", [Snooze(None), Complete(object()), object(), Retry("x", after="soon")])  # type: ignore[arg-type]
def test_an_outcome_that_cannot_be_kept_is_invalid(answer: object) -> None:
    outcome = run(answer)
    assert isinstance(outcome, Failed)
    assert outcome.failure.failure_class is FailureClass.INVALID


@pytest.mark.parametrize("error", [Unspeakable(), SystemExit(3), KeyboardInterrupt()])
def test_whatever_is_raised_has_a_message(error: BaseException) -> None:
    outcome = run(error)
    assert isinstance(outcome, Failed)
    assert type(error).__name__ in outcome.failure.message


@pytest.mark.catches("torn-flight")
def test_the_fence_of_a_slot_is_written_last_and_cleared_first() -> None:
    """The supervisor reads while an executor writes: a fence without its deadline would look overdue."""
    record = FlightRecord.create(1)
    record.start(0, "0190a1dd-9fe4-7dd9-a565-3c06926c0b06", 7, 1e9)
    slot = slice(_HEAD.size, _HEAD.size + _SLOT.size)
    whole = bytes(record._memory[slot])
    assert whole.endswith((7).to_bytes(8, "little")), "memory is written from its beginning to its end"
    record.end(0)
    assert bytes(record._memory[slot]) == whole[:-8] + bytes(8)
    assert record.flying() == []
    record.close()


def test_items_of_a_bulk_call_are_in_flight_while_it_is_and_told_from_single_tasks() -> None:
    record = FlightRecord.create(2)
    ids = ["0190a1dd-9fe4-7dd9-a565-3c06926c0b06", "0190a1dd-9fe4-7dd9-a565-3c06926c0b07"]
    record.start(1, ids[0], 7, 1e9)
    record.start_many([(2, ids[1], 8), (5, ids[0], 9)], 2e9)
    assert [(one.fence, one.item) for one in record.flying()] == [(7, False), (8, True), (9, True)]
    record.end_many([2])
    assert [one.fence for one in record.flying()] == [7, 9]
    record.end_many([5])
    assert [one.fence for one in record.flying()] == [7]
    record.close()


@pytest.mark.catches("cancelled-alone-is-a-crash")
def test_a_handler_that_cancels_itself_alone_in_its_process_has_failed_and_not_crashed() -> None:
    async def cancels(_: Task[Any]) -> None:
        raise asyncio.CancelledError

    outcome = execute_alone(Handler("x", cancels, True), held())
    assert isinstance(outcome, Failed)
    assert outcome.failure.message == "it was cancelled from within"
