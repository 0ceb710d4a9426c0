"""Puts the API together: routes, problems, bounds, headers. `holdfast api` serves it; others may mount it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.routing import APIRoute

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.http import audit, board, dead, groups, plans, problems, tasks
from holdfast.http.access import least
from holdfast.http.bounds import Bounds
from holdfast.http.desk import Auth, Desk
from holdfast.http.health import router as health
from holdfast.http.problems import MEDIA_TYPE, Problem

# Fixed paths before those that take an id.
ROUTERS = (dead.router, audit.router, board.router, tasks.router, groups.router, plans.router)
_PROBLEMS = {400, 401, 403, 404, 409, 413, 415, 422, 429, 503}


def create(
    settings: Settings,
    handlers: Handlers | None = None,
    *,
    auth: Auth = Auth.TOKENS,
    listen: Listener = silent,
) -> FastAPI:
    """The API over one installation; `handlers` are the app's, for guards, payload checks and secrets."""
    desk = Desk(settings, handlers, auth, listen)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await desk.open()
        yield
        await desk.close()

    app = FastAPI(
        title="Holdfast",
        version=version("holdfast"),
        description="Tasks, failures, plans and the audit. Errors are problem documents that say what to do.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses={
            status: {"model": Problem, "content": {MEDIA_TYPE: {}}, "description": "A problem"}
            for status in sorted(_PROBLEMS)
        },
    )
    app.state.desk = desk
    for router in (*ROUTERS, health):
        # Nobody learns by accident that a route was open to all.
        for route in router.routes:
            if isinstance(route, APIRoute):
                for method in route.methods or ():
                    least(method, route.path)
        app.include_router(router)
    problems.install(app)
    app.add_middleware(Bounds)
    return app
