"""Routes of queues."""

from fastapi import APIRouter, Response

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import DoneShape, Name, PauseShape, QueueShape
from holdfast.views.tasks import Browser

router = APIRouter(route_class=TransactionRoute, tags=["board"])

PARTIAL_HEADER = "X-Holdfast-Partial"


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
