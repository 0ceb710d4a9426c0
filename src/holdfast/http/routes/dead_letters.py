"""Routes of dead letters: list, count, preview, and redrive up to a few hundred."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import (
    IDS_MAX,
    PAGE_MAX,
    DeadLetterShape,
    Filter,
    Page,
    Paged,
    Shape,
    SortShape,
    StatisticsShape,
    Text,
    Why,
)
from holdfast.ops.dead_letters import FAILED, RETRYABLE
from holdfast.ops.plan_driver import PlanDriver
from holdfast.ops.plan_view import How

router = APIRouter(route_class=TransactionRoute, tags=["dead letters"])

LIMIT_DEFAULT = 50
PREVIEW_MAX = 100_000


class ListFilter(Filter):
    """Which dead letters, and where the list goes on."""

    limit: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 50
    before: Annotated[Text | None, Field(description="`next` of the page above.")] = None


class PreviewFilter(Filter, Paged):
    """Which dead letters, and which page of them."""

    cancelled: Annotated[bool, Field(description="Cancelled tasks too.")] = True


class RetryShape(Filter):
    """Which dead letters to put back to work, how many at most, and why."""

    limit: Annotated[int | None, Field(ge=1, le=IDS_MAX)] = None
    dry_run: bool = False
    reason: Why = ""


class PreviewShape(Shape):
    """What a redrive would do."""

    total: int
    page: int
    page_size: int
    items: list[DeadLetterShape]  # type: ignore[valid-type]
    sorts: list[SortShape]  # type: ignore[valid-type]
    excluded: Mapping[str, int]
    money_effect: Decimal | None
    needs_approval: bool
    unguarded: list[str]
    exact: Annotated[bool, Field(description="Otherwise there are at least so many; a plan counts them all.")]


class RetriedBatch(Shape):
    """What a redrive did, or would do."""

    dry_run: bool
    batch_id: str | None
    matched: int
    retried: int
    skipped: Mapping[str, int]


@router.get("/api/tasks/dead-letters", response_model=Page[DeadLetterShape])  # type: ignore[valid-type]
async def list_dead(caller: CurrentCaller, only: Annotated[ListFilter, Query()]) -> object:
    """Dead letters, the newest first."""
    return await caller.dead_letters.look(caller.conn, only.as_filter(FAILED), only.limit, only.before)


@router.get("/api/tasks/dead-letters/statistics", response_model=StatisticsShape)
async def statistics(caller: CurrentCaller) -> object:
    """How many there are: all, by kind, by class, by reason, and the subjects with the most."""
    return await caller.dead_letters.statistics(caller.conn, quick=True)


@router.get("/api/tasks/dead-letters/preview", response_model=PreviewShape)
async def preview(caller: CurrentCaller, only: Annotated[PreviewFilter, Query()]) -> object:
    """What a redrive of these would do; nothing is done."""
    chosen = only.as_filter(RETRYABLE if only.cancelled else FAILED)
    found = await caller.plans.preview(caller.conn, chosen, most=PREVIEW_MAX)
    items = await caller.dead_letters.page(caller.conn, chosen, limit=only.page_size, offset=only.offset)
    return {
        "total": found.tasks,
        "page": only.page,
        "page_size": only.page_size,
        "items": items,
        "sorts": found.sorts,
        "excluded": found.excluded,
        "money_effect": found.money_effect,
        "needs_approval": found.needs_approval,
        "unguarded": found.unguarded,
        "exact": found.exact,
    }


@router.post("/api/tasks/dead-letters/retry", response_model=RetriedBatch)
async def retry(caller: CurrentCaller, act: RetryShape) -> object:
    """Put them back to work at once, the oldest first: a plan without a canary, of at most 500."""
    chosen, plans = act.as_filter(), caller.plans
    limit = act.limit or (len(act.task_ids) if act.task_ids else LIMIT_DEFAULT)
    if act.dry_run:
        seen = await plans.preview(caller.conn, chosen, most=PREVIEW_MAX)
        matched = min(seen.tasks, limit)
        return {"dry_run": True, "batch_id": None, "matched": matched, "retried": 0, "skipped": seen.excluded}
    plan = await plans.freeze(caller.conn, chosen, act.reason, How(limit=limit))
    await plans.start(caller.conn, plan.id)
    await PlanDriver(caller.settings, caller.handlers, caller.listen).send_all(caller.conn, plan.id)
    done = await plans.show(caller.conn, plan.id)
    skipped = await plans.skips(caller.conn, plan.id)
    return {
        "dry_run": False,
        "batch_id": plan.id,
        "matched": plan.items,
        "retried": done.sent,
        "skipped": {**plan.excluded, **skipped},
    }
