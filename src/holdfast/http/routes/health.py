"""Liveness and readiness checks."""

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse

from holdfast.http.problems import answer_for
from holdfast.http.readiness import Readiness
from holdfast.http.schemas import Shape

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
    readiness: Readiness = request.app.state.readiness
    error = await readiness.check()
    return JSONResponse({"status": "ok"}) if error is None else answer_for(error)
