"""Whether the API is there, and whether it can work; for whoever asks."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from holdfast.http.service import Service
from holdfast.http.shapes import Shape
from holdfast.store.migrate import require_current

router = APIRouter(tags=["health"])


class HealthShape(Shape):
    """All is well."""

    status: str


@router.get("/healthz", response_model=HealthShape)
async def healthy() -> object:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", response_model=HealthShape)
async def ready(request: Request) -> object:
    """The database answers, at the version that this package needs."""
    service: Service = request.app.state.service
    async with service.connection() as conn, service.bounded(conn, writes=False):
        await require_current(conn, service.settings.schema_name)
    return JSONResponse({"status": "ok"})
