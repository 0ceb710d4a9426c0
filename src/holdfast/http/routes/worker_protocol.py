"""Routes for HTTP workers: register, claim, heartbeat, report, leave."""

import json
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse, Response
from pydantic import BeforeValidator, FailFast, Field, JsonValue

from holdfast.core.errors import TaskNotFound, WorkerNotFound
from holdfast.core.failure import ErrorCode, Failure, FailureClass
from holdfast.core.outcome import Cancel, Complete, Fail, Failed, Outcome, Release, Released, Retry, Snooze
from holdfast.core.task import QUEUE_DEFAULT, TIMEOUT_SECONDS, Claim, is_id
from holdfast.http.problems import problem
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.routes.tasks import TaskId
from holdfast.http.schemas import TEXT_MAX, Shape, Text, Why, leads_to
from holdfast.store.http_workers import Lease
from holdfast.store.store import Store
from holdfast.worker.http_workers import HttpWorkers

router = APIRouter(route_class=TransactionRoute, tags=["workers"])

HELD_MAX = 1_000
CLAIM_MAX = 100
LEASE_SECONDS = 60.0
FIELDS_MAX = 100
KINDS_MAX = 200
Name = Annotated[str, Field(min_length=1, max_length=TEXT_MAX)]
WorkerId = Annotated[str, Path(max_length=64, description="The worker's id.")]
Seconds = Annotated[float, Field(ge=0, le=10 * 366 * 86_400)]


def _few(declared: object) -> object:
    """Refuse too many kinds before each of them is looked at."""
    if isinstance(declared, dict) and len(declared) > KINDS_MAX:
        raise ValueError(f"it has {len(declared)} kinds, and at most {KINDS_MAX} may be declared at once")
    return declared


class EnterShape(Shape):
    """A worker, and what it serves."""

    name: Name
    kinds: Annotated[list[Name], FailFast(), Field(min_length=1, max_length=KINDS_MAX)]
    queues: Annotated[
        list[Name],
        FailFast(),
        Field(min_length=1, max_length=50, default_factory=lambda: [QUEUE_DEFAULT]),
    ]
    lease_seconds: Annotated[
        float, Field(ge=5, le=3_600, description="Without a beat for so long, it has died.")
    ] = LEASE_SECONDS
    secrets: Annotated[
        dict[Name, Annotated[list[Name], FailFast(), Field(max_length=FIELDS_MAX)]],
        BeforeValidator(_few),
        Field(
            default_factory=dict,
            max_length=KINDS_MAX,
            description="The fields of payload and result that are secret, for each kind. A kind that is not "
            "named here, and that nobody else has declared, is shown with its keys only.",
        ),
    ]


class LeaseShape(Shape):
    """A worker, and until when it is believed to be alive."""

    worker: str
    expires_at: datetime


class HeldShape(Shape):
    """A claim: a task, and the number under which it is held."""

    id: Annotated[str, Field(max_length=64)]
    lease_token: Annotated[int, Field(ge=0, le=2**63 - 1)]


class ClaimShape(Shape):
    """How many tasks, and what this worker has in its hands."""

    holding: Annotated[
        list[HeldShape],
        FailFast(),
        Field(
            max_length=HELD_MAX,
            description="All that it works on. Whatever else stands in its name goes back to the queue, "
            "because an answer was lost.",
        ),
    ]
    limit: Annotated[int, Field(ge=1, le=CLAIM_MAX)] = 1


class ClaimedShape(HeldShape):
    """A task to work on, now."""

    kind: str
    queue: str
    payload: JsonValue
    version: int
    attempt: int
    max_attempts: int | None
    timeout_seconds: float
    subject: str | None
    trace_id: str | None
    idempotency_key: str | None
    enqueued_at: datetime
    alone: bool = Field(description="A process died while this and others ran in it: run it by itself.")


class ClaimsShape(Shape):
    """What was claimed."""

    tasks: list[ClaimedShape]
    expires_at: datetime


class StopShape(HeldShape):
    """A claim that somebody wants stopped."""

    reason: str


class BeatShape(Shape):
    """Until when the lease holds, and what is to stop."""

    expires_at: datetime
    cancels: list[StopShape]


class LeftShape(Shape):
    """How many tasks went back to the queue."""

    released: int


class End(StrEnum):
    """How a claim ended."""

    COMPLETE = "complete"
    RETRY = "retry"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    FAIL = "fail"
    SNOOZE = "snooze"
    CANCEL = "cancel"
    RELEASE = "release"


class ReportShape(Shape):
    """What became of a claim."""

    worker: Annotated[str, Field(max_length=64)]
    lease_token: Annotated[int, Field(ge=0, le=2**63 - 1)]
    outcome: Annotated[
        End,
        Field(
            description="`retry`, `timeout` and `rate_limited` are tried again while attempts are left, "
            "`fail` is not; `snooze` looks again later and `release` gives it back, both unspent."
        ),
    ]
    result: Annotated[JsonValue, Field(description="For complete: kept with the task.")] = None
    reason: Why = ""
    code: Annotated[Text | None, Field(description="For fail: your own, or one of the known.")] = None
    after_seconds: Annotated[Seconds | None, Field(description="When to try or look again.")] = None
    progress: Annotated[float | None, Field(ge=0, le=100)] = None


class ReportedShape(Shape):
    """How the claim ended, by this report or by an earlier one."""

    id: str
    ended_as: str


@router.post(
    "/api/workers",
    response_model=LeaseShape,
    status_code=201,
    responses={
        201: leads_to(
            workers_claim="worker_id=worker",
            workers_beat="worker_id=worker",
            workers_leave="worker_id=worker",
        )
    },
)
async def enter(caller: CurrentCaller, worker: EnterShape) -> object:
    """Enter as a worker."""
    workers = _workers(caller)
    caller.bearer.scope.refuse_beyond(worker.queues, worker.kinds)
    return await workers.enter(
        caller.conn,
        worker.name,
        worker.queues,
        worker.kinds,
        worker.lease_seconds,
        secrets=worker.secrets,
        own_kinds=caller.bearer.scope.kinds or (),
    )


@router.post("/api/workers/{worker_id}/claim", response_model=ClaimsShape)
async def claim(caller: CurrentCaller, worker_id: WorkerId, wanted: ClaimShape) -> object:
    """Take tasks, and prolong the lease."""
    holding = [(held.id.lower(), held.lease_token) for held in wanted.holding]
    lease: Lease
    lease, claims = await _workers(caller).claim(caller.conn, _known(worker_id), wanted.limit, holding)
    head = ClaimsShape(tasks=[], expires_at=lease.expires_at).model_dump_json(by_alias=True)
    tasks = ",".join(_claimed(claim) for claim in claims)
    return Response(head.replace('"tasks":[]', f'"tasks":[{tasks}]', 1), media_type="application/json")


@router.post("/api/workers/{worker_id}/heartbeat", response_model=BeatShape)
async def beat(caller: CurrentCaller, worker_id: WorkerId) -> object:
    """Prolong the lease, and hear what is to stop; about three times in its length."""
    beat = await _workers(caller).beat(caller.conn, _known(worker_id))
    names = ("id", "lease_token", "reason")
    return {
        "expires_at": beat.lease.expires_at,
        "cancels": [dict(zip(names, cancel, strict=True)) for cancel in beat.cancels],
    }


@router.post("/api/workers/{worker_id}/leave", response_model=LeftShape)
async def leave(caller: CurrentCaller, worker_id: WorkerId) -> object:
    """Leave for good; what is still held goes back to the queue."""
    return {"released": await _workers(caller).leave(caller.conn, _known(worker_id))}


@router.post("/api/tasks/{task_id}/report", response_model=ReportedShape)
async def report(caller: CurrentCaller, task_id: TaskId, said: ReportShape) -> object:
    """End a claim under its number; asked again, it answers how the claim ended."""
    if not is_id(task_id):
        raise TaskNotFound(task_id)
    held = (task_id.lower(), said.lease_token)
    ended_as = await _workers(caller).report(caller.conn, _known(said.worker), held, _outcome(said))
    if ended_as is None:
        # Returned, not raised: that it came too late is on record.
        return _late(task_id)
    return {"id": task_id, "ended_as": ended_as}


def _late(task_id: str) -> JSONResponse:
    return problem(
        409,
        f"task {task_id} is not held under this leaseToken any more: somebody else has it or it has ended; "
        "drop it, its result was not taken",
    )


def _workers(caller: CurrentCaller) -> HttpWorkers:
    store = Store(caller.settings, caller.listen)
    return HttpWorkers(store, caller.handlers, caller.bearer.token)


def _known(worker: str) -> str:
    if not is_id(worker):
        raise WorkerNotFound(worker)
    return worker.lower()


def _claimed(claim: Claim) -> str:
    """A claimed task as JSON. Its payload is put in as it is stored: reading and writing it takes long."""
    same = ("id", "kind", "queue", "version", "max_attempts", "subject", "trace_id", "enqueued_at")
    values = {name: getattr(claim, name) for name in same} | {
        "lease_token": claim.fence,
        "payload": None,
        "attempt": claim.attempts + 1,
        "alone": claim.isolate,
        "timeout_seconds": claim.timeout_seconds or TIMEOUT_SECONDS,
        "idempotency_key": claim.key,
    }
    text = ClaimedShape.model_validate(values).model_dump_json(by_alias=True)
    # Within a string there would be a backslash before the second quotation mark.
    return text.replace('"payload":null', f'"payload":{claim.payload}', 1)


def _outcome(said: ReportShape) -> Outcome:
    match said.outcome:
        case End.COMPLETE:
            return Complete(None if said.result is None else json.dumps(said.result))
        case End.RETRY:
            return Retry(said.reason, said.after_seconds)
        case End.TIMEOUT:
            return Failed(Failure.of(FailureClass.TIMEOUT, said.reason), said.after_seconds)
        case End.RATE_LIMITED:
            return Failed(Failure.of(FailureClass.RATE_LIMITED, said.reason), said.after_seconds)
        case End.FAIL:
            return Fail(said.code or ErrorCode.EXECUTION_FAILED, said.reason)
        case End.SNOOZE:
            return Snooze(said.after_seconds or 0.0, said.progress)
        case End.CANCEL:
            return Cancel(said.reason)
        case End.RELEASE:
            return Released(Release.DRAINED)
