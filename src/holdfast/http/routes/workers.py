"""Routes that show workers; `worker_protocol.py` has those that workers use."""

from fastapi import APIRouter

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import WorkerShape
from holdfast.views.tasks import Browser

router = APIRouter(route_class=TransactionRoute, tags=["board"])


@router.get("/api/workers", response_model=list[WorkerShape])  # type: ignore[valid-type]
async def workers(caller: CurrentCaller) -> object:
    """Every executor that is known."""
    return await Browser(caller.settings).workers(caller.conn)
