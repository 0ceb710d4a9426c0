"""Calls a handler and turns its result or exception into an outcome."""

import asyncio
from typing import Any

from holdfast.core.errors import VersionUnknown
from holdfast.core.failure import ErrorCode, Failure, FailureClass
from holdfast.core.fingerprint import origin_of_error, origin_of_message
from holdfast.core.handler import Answer, Bulk, Finisher, Handler, Task, task_of
from holdfast.core.outcome import (
    Cancel,
    Complete,
    Fail,
    Failed,
    Finished,
    Outcome,
    Retry,
    Snooze,
    as_seconds,
)
from holdfast.core.task import Claim
from holdfast.worker.outcomes import cancelled_itself, ended_by
from holdfast.worker.tracebacks import name_of, stack_of, text_of, tried


def prepare(handler: Handler, claim: Claim, finisher: Finisher | None = None) -> Task[Any] | Failed:
    """The handler's view of a claim, or why its payload cannot be read."""
    try:
        return task_of(claim, handler.decode(claim.payload, claim.version), finisher)
    except VersionUnknown as error:
        return Failed(Failure.of(FailureClass.INVALID, str(error), code=ErrorCode.PAYLOAD_UNSUPPORTED))
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (a decoder is the user's code)
        message = f"the payload of a {claim.kind} task is not what its handler takes: {text_of(error)}"
        return Failed(Failure.of(FailureClass.INVALID, message, code=ErrorCode.PAYLOAD_INVALID))


async def execute_async(handler: Handler, task: Task[Any]) -> Outcome:
    """Await the handler; a cancellation is passed on to whoever asked for it."""
    if handler.bulk is not None:
        return _only(await execute_many_async(handler, Bulk([task])))
    try:
        answer = await handler.call(task)  # type: ignore[misc]
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (here it becomes an outcome)
        return failed(handler, error)
    return outcome_of(handler, answer)


def execute_here(handler: Handler, task: Task[Any]) -> Outcome:
    """Call the handler in this thread."""
    if handler.bulk is not None:
        return _only(execute_many_here(handler, Bulk([task])))
    try:
        answer = handler.call(task)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (here it becomes an outcome)
        return failed(handler, error)
    return outcome_of(handler, answer)


async def execute_many_async(handler: Handler, bulk: Bulk[Any]) -> list[Outcome] | Failed:
    """Await a bulk handler: an outcome for each task, or the failure of the whole call."""
    try:
        answer = await handler.call(bulk)  # type: ignore[misc]
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (here it becomes an outcome)
        return failed(handler, error)
    return _outcomes_of(handler, bulk, answer)


def execute_many_here(handler: Handler, bulk: Bulk[Any]) -> list[Outcome] | Failed:
    """The same, in this thread."""
    try:
        answer = handler.call(bulk)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 (here it becomes an outcome)
        return failed(handler, error)
    return _outcomes_of(handler, bulk, answer)


def execute_alone(handler: Handler, claim: Claim, finisher: Finisher | None = None) -> Outcome | Finished:
    """The whole of it, in a process that does nothing else."""
    task = prepare(handler, claim, finisher)
    if isinstance(task, Failed):
        return task
    outcome: Outcome
    try:
        outcome = asyncio.run(execute_async(handler, task)) if handler.awaits else execute_here(handler, task)
    except asyncio.CancelledError:
        outcome = cancelled_itself()
    except BaseException as error:  # noqa: BLE001 (it says so, rather than dying of it)
        outcome = ended_by(error)
    return Finished(outcome) if task.settled else outcome


def outcome_of(handler: Handler, answer: Answer) -> Outcome:
    """The outcome that an answer stands for: itself, or success with it as the result."""
    if answer is None:
        return Complete()
    try:
        return _as_declared(handler, answer)
    except Exception as error:  # noqa: BLE001 (an encoder is the user's code)
        message = f"what it returned cannot be kept: {text_of(error)}"
        return Failed(Failure.of(FailureClass.INVALID, message))


def _outcomes_of(handler: Handler, bulk: Bulk[Any], answer: Answer) -> list[Outcome]:
    """One outcome for each task; an exception in its place is that task's failure."""
    if answer is None:
        return [Complete()] * len(bulk)
    if not isinstance(answer, (list, tuple)) or len(answer) != len(bulk):
        count = f"{len(answer)} answers" if isinstance(answer, (list, tuple)) else type(answer).__name__
        message = f"it returned {count} for {len(bulk)} tasks: return a list with one for each, or None"
        return [Failed(Failure.of(FailureClass.TRANSIENT, message))] * len(bulk)
    return [
        failed(handler, one) if isinstance(one, BaseException) else outcome_of(handler, one) for one in answer
    ]


def _only(answer: list[Outcome] | Failed) -> Outcome:
    return answer if isinstance(answer, Failed) else answer[0]


def _as_declared(handler: Handler, answer: Answer) -> Outcome:
    """An outcome with values of the right types, whatever the handler put into it."""
    match answer:
        case Complete(result):
            kept: object = result
            return answer if kept is None or isinstance(kept, str) else Complete(handler.encode(kept))
        case Snooze(after, progress):
            return Snooze(as_seconds(after), None if progress is None else float(progress))
        case Retry(reason, after, code):
            wait = None if after is None else as_seconds(after)
            return Retry(str(reason), wait, None if code is None else str(code))
        case Fail(code, reason):
            return Fail(str(code), str(reason))
        case Cancel(reason):
            return Cancel(str(reason))
        case _:
            return Complete(handler.encode(answer))


def failed(handler: Handler, error: BaseException) -> Failed:
    """The failure that an exception stands for; whatever the exception does, this raises nothing."""
    if tried(lambda: isinstance(error, handler.permanent), False):
        failure_class = FailureClass.PERMANENT
    elif tried(lambda: isinstance(error, handler.rate_limited), False):
        failure_class = FailureClass.RATE_LIMITED
    else:
        failure_class = FailureClass.TRANSIENT
    text = text_of(error)
    message = f"{name_of(error)}: {text}" if text else name_of(error)
    after = tried(lambda: getattr(error, "retry_after_seconds", None), None)
    hint = after if isinstance(after, (int, float)) and failure_class is FailureClass.RATE_LIMITED else None
    package = getattr(handler.call, "__module__", "").partition(".")[0]
    origin = tried(lambda: origin_of_error(error, text, package), origin_of_message(message))
    return Failed(Failure.of(failure_class, message, stack=stack_of(error), origin=origin), hint)
