"""Live updates: one look at the database for all who watch, as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import psycopg
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from holdfast.config import Settings
from holdfast.http.asking import AskedBy, Asking
from holdfast.http.board import TotalsShape
from holdfast.http.problems import Refused
from holdfast.http.service import Service
from holdfast.http.shapes import QueueShape, Shape
from holdfast.store.figures import figures
from holdfast.store.pool import Conn

router = APIRouter(route_class=Asking, tags=["board"])

LOOK_SECONDS = 2.0
# A comment meanwhile, so that whatever stands between does not close a silent connection.
BREATH_SECONDS = 15.0
# Then whoever watches asks anew, with a token or a session that must still be good.
STREAM_SECONDS = 300
WATCHERS_MAX = 200
AWAY = "event: away\ndata: {}\n\n"


class LiveShape(Shape):
    """How things stand."""

    queues: list[QueueShape]  # type: ignore[valid-type]
    totals: TotalsShape
    workers_alive: int
    workers_lost: int
    completed_rate: float
    clear_seconds: float | None


class Live:
    """What one process tells to those who watch; nothing is asked of the database while nobody does."""

    def __init__(self, service: Service, most: int = WATCHERS_MAX) -> None:
        self._service = service
        self._most = most
        self._watchers: set[asyncio.Queue[str]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._last: str | None = None
        self._ended = False

    def full(self) -> bool:
        """Whether nobody more can watch."""
        return len(self._watchers) >= self._most

    def end(self) -> None:
        """Let all who watch go: this process leaves, and they ask the one that comes after it."""
        self._ended = True
        self._tell(": goodbye\n\n")

    async def stream(self, first: str, seconds: float) -> AsyncIterator[str]:
        """What was seen first, and what is seen whenever that changes."""
        until = time.monotonic() + seconds
        waiting: asyncio.Queue[str] = asyncio.Queue(1)
        self._watchers.add(waiting)
        try:
            yield first
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_on())
            while not self._ended and (left := until - time.monotonic()) > 0:
                try:
                    yield await asyncio.wait_for(waiting.get(), min(left, BREATH_SECONDS))
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._watchers.discard(waiting)

    async def _look_on(self) -> None:
        while self._watchers:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                seen = await self._look()
            except psycopg.errors.QueryCanceled:
                # It is there, and has too much to do: what was seen last stands.
                continue
            except psycopg.Error:
                # A database that is away is said to be, once.
                seen = AWAY
            if seen != self._last:
                self._last = seen
                self._tell(seen)

    def _tell(self, said: str) -> None:
        for waiting in self._watchers:
            # Whoever reads slowly is told the newest.
            with suppress(asyncio.QueueEmpty):
                waiting.get_nowait()
            waiting.put_nowait(said)

    async def _look(self) -> str:
        service = self._service
        async with service.connection() as conn, service.bounded(conn, writes=False):
            return await look(conn, service.settings)


async def look(conn: Conn, settings: Settings) -> str:
    """How things stand now, as an event."""
    found = LiveShape.model_validate(await figures(conn, settings))
    return f"event: board\nretry: 2000\ndata: {found.model_dump_json(by_alias=True)}\n\n"


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"


@router.get("/api/live", response_class=EventStream)
async def live(
    request: Request,
    asked: AskedBy,
    seconds: Annotated[
        int, Query(ge=0, le=STREAM_SECONDS, description="For how long; 0 is one look.")
    ] = STREAM_SECONDS,
) -> StreamingResponse:
    """Queues, totals and workers, now and whenever they change; `away` while the database is."""
    live: Live = request.app.state.live
    if live.full():
        raise Refused(503, "as many as may are watching already: ask again later", {"Retry-After": "10"})
    # Looked at before anything is sent: a database that is away is said to be.
    return EventStream(live.stream(await look(asked.conn, asked.settings), seconds))
