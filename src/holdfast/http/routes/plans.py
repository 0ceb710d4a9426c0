"""Routes of plans: create, approve, start, follow, pause, abort."""

from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import Field

from holdfast.http.problems import Refused
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import PAGE_MAX, Filter, PlanShape, Reasoned, Shape, Why, leads_to
from holdfast.ops.dead_letters import FAILED, RETRYABLE
from holdfast.ops.plan_view import ITEMS_MAX, STOP_RATIO, How, PlanView
from holdfast.ops.plans import Plans
from holdfast.ops.tokens import Role

router = APIRouter(route_class=TransactionRoute, tags=["plans"])

PlanId = Annotated[str, Path(max_length=64, description="The plan's id.")]
EXPIRES_HOURS_MAX = 24 * 30


class NewPlan(Filter):
    """What a plan is to be made of, and how it is to go."""

    action: Literal["redrive", "forget"] = "redrive"
    reason: Annotated[Why, Field(min_length=1)]
    cancelled: Annotated[bool, Field(description="Cancelled tasks too.")] = False
    limit: Annotated[int, Field(ge=1, le=ITEMS_MAX)] = ITEMS_MAX
    canary: Annotated[int, Field(ge=0, le=ITEMS_MAX)] = 0
    rate: Annotated[float | None, Field(gt=0, le=1_000_000)] = None
    stop_ratio: Annotated[float, Field(ge=0, le=1)] = STOP_RATIO
    expires_hours: Annotated[float, Field(gt=0, le=EXPIRES_HOURS_MAX)] = 24.0


class PlanDetail(Shape):
    """A plan, how its set has drifted before the start, and why items were left alone."""

    plan: PlanShape  # type: ignore[valid-type]
    drift: dict[str, int]
    skips: dict[str, int]


@router.get("/api/plans", response_model=list[PlanShape])  # type: ignore[valid-type]
async def list_plans(caller: CurrentCaller, limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50) -> object:
    """The latest plans; those that wait for a second person say so in `shownState`."""
    return [_shown(plan) for plan in await caller.plans.latest(caller.conn, limit)]


@router.post(
    "/api/plans",
    response_model=PlanShape,
    status_code=201,
    responses={201: leads_to(plans_show="plan_id=id", plans_start="plan_id=id", plans_abort="plan_id=id")},
)
async def freeze(caller: CurrentCaller, new: NewPlan) -> object:
    """Freeze what the filter finds into a plan; nothing happens to the tasks before it is started."""
    how = How(new.canary, new.rate, new.stop_ratio, new.expires_hours * 3_600, new.limit)
    only = new.as_filter(RETRYABLE if new.cancelled else FAILED)
    return _shown(await caller.plans.freeze(caller.conn, only, new.reason, how, new.action))


@router.get("/api/plans/{plan_id}", response_model=PlanDetail)
async def show(caller: CurrentCaller, plan_id: PlanId) -> object:
    """How far it has come, and what became of its items."""
    plans = caller.plans
    view = await plans.show(caller.conn, plan_id)
    return await _detail(caller, plans, view)


@router.post("/api/plans/{plan_id}/approve", response_model=PlanShape)
async def approve(caller: CurrentCaller, plan_id: PlanId, act: Reasoned) -> object:
    """Say as a second person that it may start; for one that forgets that is an admin."""
    view = await caller.plans.show(caller.conn, plan_id)
    if view.action == "forget" and caller.bearer.role is not Role.ADMIN:
        raise Refused(403, "this plan forgets dead letters for good: an admin has to approve it")
    return _shown(await caller.plans.approve(caller.conn, plan_id, act.reason))


@router.post("/api/plans/{plan_id}/start", response_model=PlanDetail)
async def start(caller: CurrentCaller, plan_id: PlanId) -> object:
    """Let it begin; a worker does the rest."""
    plans = caller.plans
    view, drift = await plans.start(caller.conn, plan_id)
    return {"plan": _shown(view), "drift": drift, "skips": {}}


@router.post("/api/plans/{plan_id}/pause", response_model=PlanDetail)
async def pause(caller: CurrentCaller, plan_id: PlanId, act: Reasoned) -> object:
    """Send nothing more until it is resumed."""
    plans = caller.plans
    await plans.pause(caller.conn, plan_id, act.reason)
    return await _detail(caller, plans, await plans.show(caller.conn, plan_id))


@router.post("/api/plans/{plan_id}/resume", response_model=PlanDetail)
async def resume(caller: CurrentCaller, plan_id: PlanId, act: Reasoned) -> object:
    """Go on where it was paused."""
    plans = caller.plans
    await plans.resume(caller.conn, plan_id, act.reason)
    return await _detail(caller, plans, await plans.show(caller.conn, plan_id))


@router.post("/api/plans/{plan_id}/abort", response_model=PlanDetail)
async def abort(caller: CurrentCaller, plan_id: PlanId, act: Reasoned) -> object:
    """End it for good; what was sent stays sent, and is followed."""
    plans = caller.plans
    await plans.abort(caller.conn, plan_id, act.reason)
    return await _detail(caller, plans, await plans.show(caller.conn, plan_id))


async def _detail(caller: CurrentCaller, plans: Plans, view: PlanView) -> dict[str, object]:
    drift = await plans.drift(caller.conn, view.id) if view.state == "frozen" else {}
    return {"plan": _shown(view), "drift": drift, "skips": await plans.skips(caller.conn, view.id)}


def _shown(view: PlanView) -> dict[str, object]:
    return asdict(view) | {"shown_state": view.shown_state}
