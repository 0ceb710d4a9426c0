"""Routes that pause and resume kinds."""

from fastapi import APIRouter

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import DoneShape, Name, PauseShape

router = APIRouter(route_class=TransactionRoute, tags=["board"])


@router.post("/api/kinds/{name}/pause", response_model=DoneShape)
async def pause_kind(caller: CurrentCaller, name: Name, act: PauseShape) -> object:
    """Let no task of a kind start."""
    await caller.operator.pause_kind(caller.conn, name, act.reason, until=act.until)
    return {"name": name, "done": True}


@router.post("/api/kinds/{name}/resume", response_model=DoneShape)
async def resume_kind(caller: CurrentCaller, name: Name) -> object:
    """Let a kind start again."""
    return {"name": name, "done": await caller.operator.resume_kind(caller.conn, name)}
