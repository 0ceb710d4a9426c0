"""The current status, recent changes, and the findings of `holdfast doctor`."""

import asyncio
from datetime import datetime, timedelta
from enum import IntEnum
from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.core.audit import EntryFilter
from holdfast.db.connect import connect
from holdfast.http.problems import Refused
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.routes.groups import MetGroup, met_groups
from holdfast.http.routes.overview import TotalsShape
from holdfast.http.schemas import EntryShape, QueueShape, QueuesPartial, Shape, shape
from holdfast.ops.audit import AuditReader
from holdfast.ops.doctor import Doctor, Finding
from holdfast.ops.status import Seen, Status, judge
from holdfast.views.dashboard import Change, Dashboard, DatabaseView, Ended, KindView, Trend
from holdfast.views.figures import figures

router = APIRouter(route_class=TransactionRoute, tags=["now"])


class Span(IntEnum):
    """How many hours the chart shows."""

    HOUR = 1
    NIGHT = 6
    DAY = 24
    WEEK = 168


# How finely each span is drawn.
STEPS = {Span.HOUR: 60, Span.NIGHT: 300, Span.DAY: 900, Span.WEEK: 7_200}
GROUPS_SHOWN = 5
TRENDS_MAX = 100
GROUPS_JUDGED = 20
ENTRIES_SHOWN = 20
EXAMINED_SECONDS = 10.0
# Of these, so long for reading the tables of tasks, which may be large.
EXAMINED_ROWS_SECONDS = 5.0

VerdictShape = shape(Status, "Verdict")
EndedShape = shape(Ended)
ChangeShape = shape(Change)
KindShape = shape(KindView)
TrendShape = shape(Trend)
DatabaseShape = shape(DatabaseView)
FindingShape = shape(Finding)


class UsualShape(Shape):
    """How things go, beside what is usual."""

    failure_rate: float | None
    failure_rate_yesterday: float | None
    failed_hour: int
    failed_hour_usual: float | None
    refused_hour: int


class WorkersShape(Shape):
    """Executors that live, and that were lost in a day."""

    alive: int
    lost: int
    last_lost_at: datetime | None


class NowShape(Shape):
    """Everything that is looked at first."""

    at: datetime
    holdfast: str
    environment: str
    database: DatabaseShape  # type: ignore[valid-type]
    verdict: VerdictShape  # type: ignore[valid-type]
    totals: TotalsShape
    usual: UsualShape
    workers: WorkersShape
    completed_rate: float
    clear_seconds: float | None
    growth_per_minute: float | None
    step_seconds: int
    series: list[EndedShape]  # type: ignore[valid-type]
    changes: list[ChangeShape]  # type: ignore[valid-type]
    entries: list[EntryShape]  # type: ignore[valid-type]
    groups: list[MetGroup]  # type: ignore[valid-type]
    queues: list[QueueShape]  # type: ignore[valid-type]
    queues_partial: QueuesPartial
    trends: dict[str, TrendShape]  # type: ignore[valid-type]
    kinds: list[KindShape]  # type: ignore[valid-type]


class ExaminedShape(Shape):
    """What was looked at, each with its answer and what to do."""

    at: datetime
    findings: list[FindingShape]  # type: ignore[valid-type]


@router.get("/api/now", response_model=NowShape)
async def now(
    caller: CurrentCaller,
    hours: Annotated[Span, Query(description="The span of the chart.")] = Span.NIGHT,
) -> object:
    """Whether all is well, what is not, what is usual, and what changed."""
    conn, board = caller.conn, Dashboard(caller.settings)
    database = await board.database(conn)
    seen = await figures(conn, caller.settings)
    # Those with the most waiting: each is compared with a day.
    largest = sorted(seen.queues, key=lambda queue: queue.ready + queue.behind, reverse=True)
    trends = await board.trends(conn, largest[:TRENDS_MAX])
    compared = await board.compared(conn)
    step, seconds = STEPS[hours], hours * 3_600
    series = await board.series(conn, seconds, step)
    judged = series
    if hours is not Span.NIGHT:
        judged = await board.series(conn, Span.NIGHT * 3_600, STEPS[Span.NIGHT])
    groups = caller.groups
    worst = await groups.lately(conn, GROUPS_JUDGED)
    lost, last_lost_at = await board.lost(conn)
    verdict = judge(
        Seen(
            database.now,
            seen.queues,
            trends,
            compared,
            judged,
            timedelta(seconds=STEPS[Span.NIGHT]),
            worst,
            seen.workers_alive,
        )
    )
    growths = [trend.growth_per_minute for trend in trends.values() if trend.growth_per_minute is not None]
    recent = sorted(worst, key=lambda group: group.last_seen_at or group.first_seen_at, reverse=True)
    return {
        "at": database.now,
        "holdfast": version("holdfast"),
        "environment": caller.settings.environment,
        "database": database,
        "verdict": verdict,
        "totals": seen.totals,
        "usual": {
            "failure_rate": compared.failure_rate,
            "failure_rate_yesterday": compared.failure_rate_yesterday,
            "failed_hour": compared.failed_hour,
            "failed_hour_usual": compared.failed_hour_usual if compared.known_yesterday else None,
            "refused_hour": compared.refused_hour,
        },
        "workers": {"alive": seen.workers_alive, "lost": lost, "last_lost_at": last_lost_at},
        "completed_rate": seen.completed_rate,
        "clear_seconds": seen.clear_seconds,
        "growth_per_minute": sum(growths) if growths else None,
        "step_seconds": step,
        "series": series,
        "changes": await board.changes(conn, seconds),
        "entries": await AuditReader(caller.settings).page(
            conn, EntryFilter(), limit=ENTRIES_SHOWN, look=ENTRIES_SHOWN * 50
        ),
        "groups": await met_groups(caller, recent[:GROUPS_SHOWN]),
        "queues": seen.queues,
        "queues_partial": seen.queues_partial,
        "trends": trends,
        "kinds": await board.kinds(conn, (await caller.dead_letters.statistics(conn, quick=True)).by_kind),
    }


@router.get("/api/health", response_model=ExaminedShape)
async def examine(caller: CurrentCaller) -> object:
    """What silently hurts: each question that `holdfast doctor` asks, with its answer and what to do."""
    database = await Dashboard(caller.settings).database(caller.conn)
    # On a connection as workers have it: whether a pooler stands between is one of the questions.
    try:
        async with (
            asyncio.timeout(EXAMINED_SECONDS),
            await connect(caller.settings.database_url, application="holdfast doctor") as conn,
        ):
            findings = await Doctor(caller.settings).examine(conn, EXAMINED_ROWS_SECONDS)
            return {"at": database.now, "findings": findings}
    except TimeoutError as error:
        raise Refused(503, "the database took too long to be examined", {"Retry-After": "5"}) from error
