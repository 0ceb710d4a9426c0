"""Whatever a handler returns or raises becomes an outcome that can be settled."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from holdfast import Cancel, Complete, Fail, Retry, Snooze, Task
from holdfast.core.decide import Policy, decide
from holdfast.core.failure import FailureClass
from holdfast.core.handler import Handler
from holdfast.core.outcome import Failed
from holdfast.worker.executor.handlers import execute_alone, execute_here
from holdfast.worker.flight_record import _ENTRY, _HEAD, FlightRecord, RunMode
from tests.core.test_decide import held
from tests.cpu import least_seconds

ONE, TWO = "0190a1dd-9fe4-7dd9-a565-3c06926c0b06", "0190a1dd-9fe4-7dd9-a565-3c06926c0b07"


CARD = "4111-2222-3333"


class Order(BaseModel):
    card: str
    n: int


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
def test_the_fence_of_an_entry_is_written_last_and_cleared_first() -> None:
    """The supervisor reads while an executor writes: a fence without its deadline would look overdue."""
    record = FlightRecord.create(1)
    record.start(ONE, 7, 1e9)
    entry = slice(_HEAD.size, _HEAD.size + _ENTRY.size)
    whole = bytes(record._memory[entry])
    assert whole.endswith((7).to_bytes(8, "little")), "memory is written from its beginning to its end"
    record.end(ONE, 7)
    assert bytes(record._memory[entry]) == whole[:-8] + (-7).to_bytes(8, "little", signed=True)
    record.clear([(ONE, 7)])
    assert bytes(record._memory[entry]) == whole[:-8] + bytes(8)
    assert record.entries() == []
    record.close()


def test_the_record_tells_what_runs_from_what_has_ended_until_it_is_settled() -> None:
    record = FlightRecord.create(2)
    record.start(ONE, 7, 1e9)
    record.start(TWO, 8, 2e9, RunMode.BULK_ITEM)
    record.start(ONE, 9, 3e9, RunMode.OWN_PROCESS)
    record.end(ONE, 7)
    assert [(f.fence, f.how, f.ended) for f in record.entries()] == [
        (7, RunMode.IN_PROCESS, True),
        (8, RunMode.BULK_ITEM, False),
        (9, RunMode.OWN_PROCESS, False),
    ]
    assert [flight.fence for flight in record.running()] == [8, 9]
    record.clear([(ONE, 7), (TWO, 8), (TWO, 1)])
    assert [flight.key for flight in record.entries()] == [(ONE, 9)]
    record.start(TWO, 10, 1e9)
    assert {flight.fence for flight in record.running()} == {9, 10}, "a free entry is used again"
    record.close()


@pytest.mark.catches("cancelled-alone-is-a-crash")
def test_a_handler_that_cancels_itself_alone_in_its_process_has_failed_and_not_crashed() -> None:
    async def cancels(_: Task[Any]) -> None:
        raise asyncio.CancelledError

    outcome = execute_alone(Handler("x", cancels, True), held())
    assert isinstance(outcome, Failed)
    assert outcome.failure.message == "it was cancelled from within"


class Away(Exception):
    @property
    def status_code(self) -> int:
        raise RuntimeError("no response yet")


class Leaves(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Number(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class Hint(Exception):
    @property
    def retry_after_seconds(self) -> float:
        raise SystemExit(3)


def noted() -> Exception:
    error = ValueError("x")
    error.__notes__ = [Leaves()]  # type: ignore[list-item]
    return error


@pytest.mark.parametrize("error", [Away("gone"), Leaves("x"), Number("x"), Hint("x"), noted()])
@pytest.mark.catches("exceptions-end-their-executor")
def test_an_exception_that_raises_when_it_is_read_is_a_failure_like_any_other(error: Exception) -> None:
    outcome = run(error)
    assert isinstance(outcome, Failed)
    assert outcome.failure.message.startswith(type(error).__name__)


def chained(length: int, *, cause: bool) -> Exception:
    error: Exception = KeyError("first")
    for number in range(length):
        after = ValueError(f"at level {number}")
        if cause:
            after.__cause__ = error
        else:
            after.__context__ = error
        error = after
    return error


def grouped(depth: int, width: int) -> Exception:
    if depth == 0:
        return ValueError("x" * 1_000)
    return ExceptionGroup("many", [grouped(depth - 1, width) for _ in range(width)])


def invalid(count: int, *, caused: bool = False) -> Exception:
    try:
        TypeAdapter(list[Order]).validate_python([{"card": CARD, "n": CARD}] * count)
    except ValidationError as error:
        found: Exception = RuntimeError("bad answer") if caused else error
        found.__cause__ = error if caused else None
        return found
    raise AssertionError("it is not valid")


@pytest.mark.alone
@pytest.mark.parametrize(
    "error",
    [
        chained(900, cause=True),
        chained(900, cause=False),
        grouped(1, 5_000),
        grouped(4, 8),
        ValueError("x" * 50_000_000),
        invalid(80_000),
        invalid(80_000, caused=True),
    ],
    ids=["causes", "contexts", "wide group", "deep group", "long", "invalid", "caused by invalid"],
)
@pytest.mark.catches("all-errors-of-a-validation-are-read")
def test_the_cost_of_an_exception_is_bounded(error: Exception) -> None:
    assert least_seconds(lambda: run(error), 0.05) < 0.05


def test_the_stack_of_a_failure_tells_what_it_came_of() -> None:
    stack = run(chained(2, cause=True)).failure.stack
    assert stack.index("KeyError: 'first'") < stack.index("ValueError: at level 0")
    assert "was the direct cause of the following exception" in stack
    assert stack.endswith("ValueError: at level 1\n")
    assert "1 of 3 in this group" in run(grouped(1, 3)).failure.stack


@pytest.mark.parametrize("caused", [False, True])
def test_what_pydantic_says_is_kept_without_the_values(caused: bool) -> None:  # noqa: FBT001 (a parameter)
    failure = run(invalid(3, caused=caused)).failure
    assert "4111" not in failure.message + failure.stack
    assert "0.n: Input should be a valid integer" in failure.stack
    assert "and 2 more" not in failure.stack


def test_of_a_payload_with_many_errors_the_number_is_told() -> None:
    assert "80000 of its values are wrong or missing" in run(invalid(80_000)).failure.message
    assert run(invalid(5)).failure.message.endswith("; and 2 more")
