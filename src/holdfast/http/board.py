"""How things stand: queues, kinds, workers, limits, schedules, and all of it in one answer."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field

from holdfast.core.audit import EntryFilter
from holdfast.core.state import State
from holdfast.http.asking import AskedBy, Asking
from holdfast.http.shapes import (
    PAGE_MAX,
    DeadLetterShape,
    EntryShape,
    LimitShape,
    ListedShape,
    QueueShape,
    Reasoned,
    ScheduleShape,
    Shape,
    Text,
    WorkerShape,
)
from holdfast.ops.audit import AuditReader
from holdfast.ops.dead import DeadFilter
from holdfast.store.browse import Browser, Totals
from holdfast.store.limits import Limits
from holdfast.store.schedules import Schedules

router = APIRouter(route_class=Asking, tags=["board"])

Name = Annotated[str, Path(min_length=1, max_length=200)]
LATEST = 10


class PauseShape(Reasoned):
    """Why, and until when."""

    until: datetime | None = None


class DoneShape(Shape):
    """Whether there was something to do."""

    name: str
    done: bool


class TotalsShape(Shape):
    """The whole in four figures."""

    failed: int
    paused: int
    completed_last_hour: int
    last_failure_at: datetime | None


class OpsShape(Shape):
    """Everything that an operator looks at first."""

    totals: TotalsShape
    queues: list[QueueShape]  # type: ignore[valid-type]
    workers: list[WorkerShape]  # type: ignore[valid-type]
    kinds: dict[str, int] = Field(description="Dead letters by kind.")
    latest_failures: list[ListedShape]  # type: ignore[valid-type]
    dead_letters: list[DeadLetterShape]  # type: ignore[valid-type]
    recent_audit_logs: list[EntryShape]  # type: ignore[valid-type]


class MeShape(Shape):
    """Who asks."""

    name: str
    role: str


@router.get("/api/me", response_model=MeShape)
async def me(asked: AskedBy) -> object:
    """Who you are, and what you may."""
    return {"name": asked.bearer.name, "role": asked.bearer.role}


@router.get("/api/tasks/ops", response_model=OpsShape)
async def ops(
    asked: AskedBy,
    audit_action: Annotated[Text | None, Query(alias="auditAction")] = None,
    audit_actor: Annotated[Text | None, Query(alias="auditActor")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = LATEST,
) -> object:
    """Queues, workers, latest failures, dead letters, what operators did lately."""
    browser, conn = Browser(asked.settings), asked.conn
    letters = asked.letters
    totals: Totals = await browser.totals(conn)
    return {
        "totals": totals,
        "queues": await browser.queues(conn),
        "workers": await browser.workers(conn),
        "kinds": (await letters.statistics(conn)).by_kind,
        "latest_failures": await browser.tasks(conn, state=State.FAILED, limit=limit),
        "dead_letters": await letters.page(conn, DeadFilter(), limit=limit),
        "recent_audit_logs": await AuditReader(asked.settings).page(
            conn, EntryFilter(action=audit_action, actor=audit_actor), limit=limit
        ),
    }


@router.get("/api/queues", response_model=list[QueueShape])  # type: ignore[valid-type]
async def queues(asked: AskedBy) -> object:
    """Every queue that holds something, is paused or is served."""
    return await Browser(asked.settings).queues(asked.conn)


@router.post("/api/queues/{name}/pause", response_model=DoneShape)
async def pause_queue(asked: AskedBy, name: Name, act: PauseShape) -> object:
    """Let nothing of a queue start."""
    await asked.operator.pause_queue(asked.conn, name, act.reason, act.until)
    return {"name": name, "done": True}


@router.post("/api/queues/{name}/resume", response_model=DoneShape)
async def resume_queue(asked: AskedBy, name: Name) -> object:
    """Let a queue start again."""
    return {"name": name, "done": await asked.operator.resume_queue(asked.conn, name)}


@router.post("/api/kinds/{name}/pause", response_model=DoneShape)
async def pause_kind(asked: AskedBy, name: Name, act: PauseShape) -> object:
    """Let no task of a kind start."""
    await asked.operator.close_kind(asked.conn, name, act.reason, until=act.until)
    return {"name": name, "done": True}


@router.post("/api/kinds/{name}/resume", response_model=DoneShape)
async def resume_kind(asked: AskedBy, name: Name) -> object:
    """Let a kind start again."""
    return {"name": name, "done": await asked.operator.open_kind(asked.conn, name)}


@router.get("/api/workers", response_model=list[WorkerShape])  # type: ignore[valid-type]
async def workers(asked: AskedBy) -> object:
    """Every executor that is known."""
    return await Browser(asked.settings).workers(asked.conn)


@router.get("/api/limits", response_model=list[LimitShape])  # type: ignore[valid-type]
async def limits(asked: AskedBy) -> object:
    """Every limit, who holds it, and what waits."""
    return await Limits(asked.settings, by=asked.by).show(asked.conn)


@router.get("/api/schedules", response_model=list[ScheduleShape])  # type: ignore[valid-type]
async def schedules(asked: AskedBy) -> object:
    """Every schedule, and when it fires next."""
    return await _schedules(asked).list(asked.conn)


@router.post("/api/schedules/{name}/pause", response_model=DoneShape)
async def pause_schedule(asked: AskedBy, name: Name, act: Reasoned) -> object:
    """Let it fire no more."""
    await _schedules(asked).pause(asked.conn, name, act.reason)
    return {"name": name, "done": True}


@router.post("/api/schedules/{name}/resume", response_model=DoneShape)
async def resume_schedule(asked: AskedBy, name: Name) -> object:
    """Let it fire again."""
    return {"name": name, "done": await _schedules(asked).resume(asked.conn, name)}


@router.post("/api/schedules/{name}/run", response_model=DoneShape)
async def run_schedule(asked: AskedBy, name: Name) -> object:
    """Enqueue its task now."""
    return {"name": name, "done": (await _schedules(asked).run(asked.conn, name)).created}


def _schedules(asked: AskedBy) -> Schedules:
    return Schedules(asked.settings, asked.service.listen, by=asked.by)
