"""Routes of queues, kinds, workers, limits and schedules."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AwareDatetime, Field

from holdfast.core.audit import EntryFilter
from holdfast.core.limit import Limit, Scope
from holdfast.core.state import State
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import (
    PAGE_MAX,
    DeadLetterShape,
    EntryShape,
    LimitShape,
    ListedShape,
    QueueShape,
    QueuesPartial,
    Reasoned,
    ScheduleShape,
    Shape,
    Text,
    WorkerShape,
)
from holdfast.ops.audit import AuditReader
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.masking import mask_for
from holdfast.store.limits import Limits
from holdfast.store.schedules import Schedules
from holdfast.views.tasks import Browser, Totals

router = APIRouter(route_class=TransactionRoute, tags=["board"])

Name = Annotated[str, Path(min_length=1, max_length=200)]
LATEST = 10
PARTIAL_HEADER = "X-Holdfast-Partial"


class PauseShape(Reasoned):
    """Why, and until when."""

    until: AwareDatetime | None = None


class DoneShape(Shape):
    """Whether there was something to do."""

    name: str
    done: bool


class NamedShape(Shape):
    """The full name of a limit."""

    name: str


class LimitOfShape(Shape):
    """Which limit."""

    scope: Scope
    name: Annotated[
        str, Field(min_length=1, max_length=200, description="The kind, the queue, or KIND/FIELD=VALUE.")
    ]


class SetLimitShape(LimitOfShape):
    """What may run at once, what may start in a window, the weight of a turn."""

    running: Annotated[int | None, Field(ge=0, le=1_000_000)] = None
    rate: Annotated[str | None, Field(max_length=50, description="100/s, 20/10s, 500/h.")] = None
    burst: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    weight: Annotated[float, Field(ge=1, le=1_000)] = 1.0


class TotalsShape(Shape):
    """The whole in four figures."""

    failed: int
    paused: int
    completed_last_hour: int
    last_failure_at: datetime | None
    counted_at: Annotated[
        datetime | None, Field(description="Where there are too many to count for each who asks.")
    ]
    exact: bool


class OpsShape(Shape):
    """Everything that an operator looks at first."""

    totals: TotalsShape
    queues: list[QueueShape]  # type: ignore[valid-type]
    queues_partial: QueuesPartial
    workers: list[WorkerShape]  # type: ignore[valid-type]
    kinds: dict[str, int] = Field(description="Dead letters by kind.")
    latest_failures: list[ListedShape]  # type: ignore[valid-type]
    dead_letters: list[DeadLetterShape]  # type: ignore[valid-type]
    recent_audit_logs: list[EntryShape]  # type: ignore[valid-type]


class MeShape(Shape):
    """Who asks."""

    name: str
    role: str
    csrf_token: Annotated[
        str | None, Field(description="In a session: what every act must carry as X-CSRF-Token.")
    ]


@router.get("/api/me", response_model=MeShape)
async def me(request: Request, caller: CurrentCaller) -> object:
    """Who you are, and what you may."""
    csrf = getattr(request.state, "csrf", None)
    return {"name": caller.bearer.name, "role": caller.bearer.role, "csrf_token": csrf}


@router.get("/api/tasks/ops", response_model=OpsShape)
async def ops(
    caller: CurrentCaller,
    audit_action: Annotated[Text | None, Query(alias="auditAction")] = None,
    audit_actor: Annotated[Text | None, Query(alias="auditActor")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = LATEST,
) -> object:
    """Queues, workers, latest failures, dead letters, what operators did lately."""
    browser, conn = Browser(caller.settings), caller.conn
    letters = caller.letters
    totals: Totals = await browser.totals(conn)
    found, is_partial = await browser.some_queues(conn)
    return {
        "totals": totals,
        "queues": found,
        "queues_partial": is_partial,
        "workers": await browser.workers(conn),
        "kinds": (await letters.statistics(conn, quick=True)).by_kind,
        "latest_failures": (await browser.tasks(conn, state=State.FAILED, limit=limit)).items,
        "dead_letters": await letters.page(conn, DeadFilter(), limit=limit),
        "recent_audit_logs": await AuditReader(caller.settings).page(
            conn, EntryFilter(action=audit_action, actor=audit_actor), limit=limit
        ),
    }


@router.get("/api/queues", response_model=list[QueueShape])  # type: ignore[valid-type]
async def queues(caller: CurrentCaller, response: Response) -> object:
    """Every queue that holds something, is paused or is served; at most 500, with `X-Holdfast-Partial`."""
    found, is_partial = await Browser(caller.settings).some_queues(caller.conn)
    if is_partial:
        response.headers[PARTIAL_HEADER] = "true"
    return found


@router.post("/api/queues/{name}/pause", response_model=DoneShape)
async def pause_queue(caller: CurrentCaller, name: Name, act: PauseShape) -> object:
    """Let nothing of a queue start."""
    await caller.operator.pause_queue(caller.conn, name, act.reason, act.until)
    return {"name": name, "done": True}


@router.post("/api/queues/{name}/resume", response_model=DoneShape)
async def resume_queue(caller: CurrentCaller, name: Name) -> object:
    """Let a queue start again."""
    return {"name": name, "done": await caller.operator.resume_queue(caller.conn, name)}


@router.post("/api/kinds/{name}/pause", response_model=DoneShape)
async def pause_kind(caller: CurrentCaller, name: Name, act: PauseShape) -> object:
    """Let no task of a kind start."""
    await caller.operator.pause_kind(caller.conn, name, act.reason, until=act.until)
    return {"name": name, "done": True}


@router.post("/api/kinds/{name}/resume", response_model=DoneShape)
async def resume_kind(caller: CurrentCaller, name: Name) -> object:
    """Let a kind start again."""
    return {"name": name, "done": await caller.operator.resume_kind(caller.conn, name)}


@router.get("/api/workers", response_model=list[WorkerShape])  # type: ignore[valid-type]
async def workers(caller: CurrentCaller) -> object:
    """Every executor that is known."""
    return await Browser(caller.settings).workers(caller.conn)


@router.get("/api/limits", response_model=list[LimitShape])  # type: ignore[valid-type]
async def limits(caller: CurrentCaller) -> object:
    """Every limit, who holds it, and what waits."""
    return await Limits(caller.settings, by=caller.by).show(caller.conn)


@router.post("/api/limits", response_model=NamedShape)
async def set_limit(caller: CurrentCaller, wanted: SetLimitShape) -> object:
    """Set or change a limit, on all workers together; what runs goes on."""
    limit = Limit(wanted.running, wanted.rate, wanted.burst, wanted.weight)
    limits = Limits(caller.settings, caller.service.listen, by=caller.by)
    return {"name": await limits.set(caller.conn, wanted.scope, wanted.name, limit)}


@router.post("/api/limits/clear", response_model=DoneShape)
async def clear_limit(caller: CurrentCaller, wanted: LimitOfShape) -> object:
    """Let everything run again."""
    limits = Limits(caller.settings, caller.service.listen, by=caller.by)
    return {"name": wanted.name, "done": await limits.clear(caller.conn, wanted.scope, wanted.name)}


@router.get("/api/schedules", response_model=list[ScheduleShape])  # type: ignore[valid-type]
async def schedules(caller: CurrentCaller) -> object:
    """Every schedule, and when it fires next."""
    found = await _schedules(caller).list(caller.conn)
    mask = await mask_for(caller.conn, caller.settings, [view.kind for view in found], caller.handlers)
    return [mask.schedule(view) for view in found]


@router.post("/api/schedules/{name}/pause", response_model=DoneShape)
async def pause_schedule(caller: CurrentCaller, name: Name, act: Reasoned) -> object:
    """Let it fire no more."""
    await _schedules(caller).pause(caller.conn, name, act.reason)
    return {"name": name, "done": True}


@router.post("/api/schedules/{name}/resume", response_model=DoneShape)
async def resume_schedule(caller: CurrentCaller, name: Name) -> object:
    """Let it fire again."""
    return {"name": name, "done": await _schedules(caller).resume(caller.conn, name)}


@router.post("/api/schedules/{name}/remove", response_model=DoneShape)
async def remove_schedule(caller: CurrentCaller, name: Name) -> object:
    """Forget it; code that still declares it makes it anew when a worker starts."""
    await _schedules(caller).remove(caller.conn, name)
    return {"name": name, "done": True}


@router.post("/api/schedules/{name}/run", response_model=DoneShape)
async def run_schedule(caller: CurrentCaller, name: Name) -> object:
    """Enqueue its task now."""
    return {"name": name, "done": (await _schedules(caller).run(caller.conn, name)).created}


def _schedules(caller: CurrentCaller) -> Schedules:
    return Schedules(caller.settings, caller.service.listen, by=caller.by)
