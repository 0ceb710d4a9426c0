"""What one hostile payload or text costs in each of the functions that the doors call, in CPU seconds."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from pydantic import TypeAdapter
from starlette.responses import JSONResponse

from holdfast.cli.output import printable
from holdfast.config import PAYLOAD_BYTES_MAX
from holdfast.core.bounds import check_payload
from holdfast.core.decide import Verdict
from holdfast.core.errors import HoldfastError
from holdfast.core.events import StatementFailed, TasksSettled
from holdfast.core.failure import STACK_CHARACTERS_MAX, Failure, FailureClass
from holdfast.core.fingerprint import origin_of_message
from holdfast.core.outcome import Failed
from holdfast.core.redact import masked, redact, secrets_in
from holdfast.core.state import Move, State
from holdfast.core.stored_json import check_json, shown_json
from holdfast.core.task import Claim, Counters, TaskView
from holdfast.http.schemas import TaskShape, task_shape
from holdfast.observe.log_lines import lines
from holdfast.ops.masking import Mask
from holdfast.worker.executor.handlers import failed, prepare
from holdfast.worker.policies import Policies
from tests.cpu import least_seconds
from tests.hostile.app import app

SECONDS_MAX = 0.05
_TASK = TypeAdapter(TaskShape)
_NOW = datetime.now(UTC)
_ID = "01900000-0000-7000-8000-000000000000"
_POLICIES = Policies(app.handlers)


def costs_of_text(text: str) -> Iterator[tuple[str, float]]:
    """By the name of the function."""
    failure = Failure.of(FailureClass.TRANSIENT, text, stack=text)
    claim = _claim("hostile.plain", '{"card": "4111-000001"}')
    settled = TasksSettled([(claim, Verdict(Move.FAIL, failure=failure, reason=failure.message))])
    handler = app.handlers["hostile.plain"]
    yield "redact", _seconds(lambda: redact(text, (), STACK_CHARACTERS_MAX))
    yield "Failure.of", _seconds(lambda: Failure.of(FailureClass.TRANSIENT, text))
    yield "failed", _seconds(lambda: failed(handler, ValueError(text)))
    yield "Policies.judge", _seconds(lambda: _POLICIES.judge(claim, failed(handler, ValueError(text))))
    yield "Failure.without", _seconds(lambda: failure.without([f"secret {n} of all" for n in range(100)]))
    yield "origin_of_message", _seconds(lambda: origin_of_message(text))
    yield "lines", _seconds(lambda: [*lines("", settled), *lines("", StatementFailed("settle", text))])
    yield "printable", _seconds(lambda: printable(text))


def costs_of_payload(payload: str) -> Iterator[tuple[str, float]]:
    """By the name of the function."""
    yield "check_json", _seconds(lambda: check_json(payload))
    yield "shown_json", _seconds(lambda: shown_json(payload))
    yield "secrets_in", _seconds(lambda: secrets_in(payload, ["card"]))
    yield "masked", _seconds(lambda: masked(payload, ["card"]))
    yield "check_payload", _seconds(lambda: check_payload("hostile.plain", payload, 256_000))
    yield "printable", _seconds(lambda: printable(payload))
    yield "TaskShape", _seconds(lambda: _rendered(payload))
    if len(payload) <= PAYLOAD_BYTES_MAX:
        for kind in ("hostile.plain", "hostile.typed"):
            prepared = partial(prepare, app.handlers[kind], _claim(kind, payload))
            yield f"prepare {kind}", _seconds(prepared)
        for kind in ("hostile.list", "hostile.lines"):
            # What pydantic takes to find what is wrong is its own; this is what we make of it.
            claim = _claim(kind, payload)
            outcome = prepare(app.handlers[kind], claim)
            if isinstance(outcome, Failed):
                yield f"Policies.judge {kind}", _seconds(partial(_POLICIES.judge, claim, outcome))
            if error := _error(kind, payload):
                yield f"failed {kind}", _seconds(partial(failed, app.handlers[kind], error))


def _error(kind: str, payload: str) -> Exception | None:
    try:
        app.handlers[kind].decode(payload, 1)
    except Exception as error:  # noqa: BLE001 (whatever it is)
        return error
    return None


def _rendered(payload: str) -> bytes:
    """A task as FastAPI writes it."""
    view = TaskView(
        _ID, "hostile.plain", "default", State.QUEUED, 2, payload, payload, None, None, None, Counters(),
        None, None, None, None, _NOW, None, None, None, None, None, None, None, None,
    )  # fmt: skip
    # One of them at a time: it is one payload that is measured.
    shape = task_shape(view, Mask({view.kind: ()}), [], 0) | {"result": None}
    found = _TASK.dump_python(_TASK.validate_python(shape), mode="json", by_alias=True)
    return bytes(JSONResponse(found).body)


def _claim(kind: str, payload: str) -> Claim:
    return Claim(
        _ID, 1, kind, "default", 2, payload, 1, _NOW, _NOW, None, None, None, None, None, None, None,
        0, 0, 0, 0, 0, False, None, _NOW, _ID,
    )  # fmt: skip


def _seconds(work: Callable[[], object]) -> float:
    def tried() -> None:
        # A refusal is an answer; PostgreSQL stores no lone surrogate.
        with suppress(HoldfastError, UnicodeEncodeError):
            work()

    return least_seconds(tried, SECONDS_MAX)
