"""Routes of the overview: who asks, and everything that an operator looks at first."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from holdfast.core.audit import EntryFilter
from holdfast.core.state import State
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import (
    PAGE_MAX,
    DeadLetterShape,
    EntryShape,
    ListedShape,
    QueueShape,
    QueuesPartial,
    Shape,
    Text,
    WorkerShape,
)
from holdfast.ops.audit import AuditReader
from holdfast.ops.dead_letters import DeadFilter
from holdfast.views.tasks import Browser, Totals

router = APIRouter(route_class=TransactionRoute, tags=["board"])

LATEST = 10


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
    totals: Totals = await browser.totals(conn)
    found, is_partial = await browser.some_queues(conn)
    return {
        "totals": totals,
        "queues": found,
        "queues_partial": is_partial,
        "workers": await browser.workers(conn),
        "kinds": (await caller.dead_letters.statistics(conn, quick=True)).by_kind,
        "latest_failures": (await browser.tasks(conn, state=State.FAILED, limit=limit)).items,
        "dead_letters": await caller.dead_letters.page(conn, DeadFilter(), limit=limit),
        "recent_audit_logs": await AuditReader(caller.settings).page(
            conn, EntryFilter(action=audit_action, actor=audit_actor), limit=limit
        ),
    }
