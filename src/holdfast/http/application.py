"""Builds the FastAPI application: routes, errors, middleware. `holdfast api` serves it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.http import problems
from holdfast.http.auth import RATE
from holdfast.http.identity import Auth
from holdfast.http.middleware import BoundsMiddleware
from holdfast.http.permissions import check
from holdfast.http.problems import MEDIA_TYPE, Problem
from holdfast.http.proxies import Proxy
from holdfast.http.quotas import OpenLimit
from holdfast.http.readiness import Readiness
from holdfast.http.routes import (
    audit,
    dead_letters,
    document,
    groups,
    kinds,
    limits,
    live,
    metrics,
    now,
    overview,
    plans,
    queues,
    schedules,
    tasks,
    webhooks,
    worker_protocol,
    workers,
)
from holdfast.http.routes.console import router as console
from holdfast.http.routes.health import router as health
from holdfast.http.routes.session import router as sessions
from holdfast.http.service import Service

# Fixed paths before those that take an id.
ROUTERS = (
    dead_letters.router,
    audit.router,
    overview.router,
    queues.router,
    kinds.router,
    workers.router,
    limits.router,
    schedules.router,
    now.router,
    tasks.router,
    groups.router,
    plans.router,
    webhooks.router,
    worker_protocol.router,
    metrics.router,
    live.router,
    document.router,
)


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """The document of all routes, with the one response that every operation refers to as its default."""
        document = super().openapi()
        components = document["components"]
        components["schemas"]["Problem"] = Problem.model_json_schema()
        components["responses"] = {
            "Problem": {
                "description": "A problem",
                "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }
        }
        return document


def _named(route: APIRoute) -> str:
    """What an operation is called in the document, and in clients that are made of it."""
    return f"{str(route.tags[0]).replace(' ', '_')}_{route.name}"


def create(
    settings: Settings,
    handlers: Handlers | None = None,
    *,
    auth: Auth = Auth.TOKENS,
    listen: Listener = silent,
    rate: float = RATE,
    proxy: Proxy | None = None,
) -> FastAPI:
    """The API over one installation; `handlers` are the app's, for guards, payload checks and secrets."""
    service = Service(settings, handlers, auth, listen, rate, proxy)
    readiness = Readiness(service)
    service.on_close.append(readiness.close)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = _Api(
        title="Holdfast",
        version=version("holdfast"),
        description="Tasks, failures, plans and the audit. Errors are problem documents that say what to do.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # The route of FastAPI asks nobody who they are: `http/routes/document.py` has ours.
        openapi_url=None,
        generate_unique_id_function=_named,
        redirect_slashes=False,
        responses={"default": {"$ref": "#/components/responses/Problem", "description": "A problem"}},
    )
    app.state.service = service
    app.state.live = live.Live(service)
    app.state.exports = OpenLimit("exports", audit.EXPORTS_PER_TOKEN, audit.EXPORTS_MAX, audit.EXPORT_SECONDS)
    app.state.readiness = readiness
    for router in (*ROUTERS, health, sessions, console):
        check(router)
        app.include_router(router)
    problems.install(app)
    app.add_middleware(BoundsMiddleware, auth=auth, proxy=proxy)
    return app
