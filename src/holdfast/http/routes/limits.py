"""Routes of limits."""

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from holdfast.core.limit import Limit, Scope
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import DoneShape, LimitShape, Shape

router = APIRouter(route_class=TransactionRoute, tags=["board"])


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


@router.get("/api/limits", response_model=list[LimitShape])  # type: ignore[valid-type]
async def limits(caller: CurrentCaller) -> object:
    """Every limit, who holds it, and what waits."""
    return await caller.limits.show(caller.conn)


@router.post("/api/limits", response_model=NamedShape)
async def set_limit(caller: CurrentCaller, wanted: SetLimitShape) -> object:
    """Set or change a limit, on all workers together; what runs goes on."""
    limit = Limit(wanted.running, wanted.rate, wanted.burst, wanted.weight)
    return {"name": await caller.limits.set(caller.conn, wanted.scope, wanted.name, limit)}


@router.post("/api/limits/clear", response_model=DoneShape)
async def clear_limit(caller: CurrentCaller, wanted: LimitOfShape) -> object:
    """Let everything run again."""
    return {"name": wanted.name, "done": await caller.limits.clear(caller.conn, wanted.scope, wanted.name)}
