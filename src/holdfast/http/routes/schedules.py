"""Routes of schedules."""

from fastapi import APIRouter

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import DoneShape, Name, Reasoned, ScheduleShape
from holdfast.ops.masking import mask_for

router = APIRouter(route_class=TransactionRoute, tags=["board"])


@router.get("/api/schedules", response_model=list[ScheduleShape])  # type: ignore[valid-type]
async def schedules(caller: CurrentCaller) -> object:
    """Every schedule, and when it fires next."""
    found = await caller.schedules.list(caller.conn)
    mask = await mask_for(caller.conn, caller.settings, [view.kind for view in found], caller.handlers)
    return [mask.schedule(view) for view in found]


@router.post("/api/schedules/{name}/pause", response_model=DoneShape)
async def pause_schedule(caller: CurrentCaller, name: Name, act: Reasoned) -> object:
    """Let it fire no more."""
    await caller.schedules.pause(caller.conn, name, act.reason)
    return {"name": name, "done": True}


@router.post("/api/schedules/{name}/resume", response_model=DoneShape)
async def resume_schedule(caller: CurrentCaller, name: Name) -> object:
    """Let it fire again."""
    return {"name": name, "done": await caller.schedules.resume(caller.conn, name)}


@router.post("/api/schedules/{name}/remove", response_model=DoneShape)
async def remove_schedule(caller: CurrentCaller, name: Name) -> object:
    """Forget it; code that still declares it makes it anew when a worker starts."""
    await caller.schedules.remove(caller.conn, name)
    return {"name": name, "done": True}


@router.post("/api/schedules/{name}/run", response_model=DoneShape)
async def run_schedule(caller: CurrentCaller, name: Name) -> object:
    """Enqueue its task now."""
    return {"name": name, "done": (await caller.schedules.run(caller.conn, name)).created}
