"""Serves the OpenAPI document to authenticated callers."""

from typing import Any

from fastapi import APIRouter, Request

from holdfast.http.request import CurrentCaller, TransactionRoute

router = APIRouter(route_class=TransactionRoute, tags=["document"])


@router.get("/api/openapi.json", response_model=dict[str, Any])
async def openapi(request: Request, _: CurrentCaller) -> object:
    """Every route, as this document describes it."""
    described: dict[str, Any] = request.app.openapi()
    root = str(request.scope.get("root_path", "")).rstrip("/")
    return described | {"servers": [{"url": root}]} if root else described
