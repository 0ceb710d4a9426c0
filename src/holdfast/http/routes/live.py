"""Live updates as server-sent events, read from the database once for all clients."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import psycopg
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.http.quotas import OpenLimit
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.routes.overview import TotalsShape
from holdfast.http.schemas import QueueShape, QueuesPartial, Shape
from holdfast.http.service import Service
from holdfast.http.streams import LimitedStream
from holdfast.ops.credentials import Credential
from holdfast.views.figures import figures

router = APIRouter(route_class=TransactionRoute, tags=["board"])

LOOK_SECONDS = 2.0
# A comment meanwhile, so that whatever stands between does not close a silent connection.
BREATH_SECONDS = 15.0
# Then whoever watches asks anew, with a token or a session that must still be good.
STREAM_SECONDS = 300
WATCHERS_PER_TOKEN = 8
WATCHERS_MAX = 200
# How often the credentials of all who watch are looked at.
CHECK_SECONDS = 1.0
GOODBYE = ": goodbye\n\n"
AWAY = "event: away\ndata: {}\n\n"


class LiveShape(Shape):
    """How things stand."""

    queues: list[QueueShape]  # type: ignore[valid-type]
    queues_partial: QueuesPartial
    totals: TotalsShape
    workers_alive: int
    workers_lost: int
    completed_rate: float
    clear_seconds: float | None


class Live:
    """What one process tells to those who watch; nothing is asked of the database while nobody does."""

    def __init__(self, service: Service, most: int = WATCHERS_MAX) -> None:
        self._service = service
        self.slots = OpenLimit("streams", WATCHERS_PER_TOKEN, most, STREAM_SECONDS + BREATH_SECONDS)
        # Each with what it was let in for; None where that cannot be taken back.
        self._watchers: dict[asyncio.Queue[str], Credential | None] = {}
        self._looking: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._last: str | None = None
        self._ended = False

    def end(self) -> None:
        """Let all who watch go: this process leaves, and they ask the one that comes after it."""
        self._ended = True
        self._tell(GOODBYE)

    async def stream(
        self, first: str, seconds: float, credential: Credential | None = None
    ) -> AsyncIterator[str]:
        """What was seen first, and what is seen whenever that changes, while the credential is good."""
        until = time.monotonic() + seconds
        waiting: asyncio.Queue[str] = asyncio.Queue(1)
        self._watchers[waiting] = credential
        try:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_on())
            if self._checking is None or self._checking.done():
                self._checking = asyncio.create_task(self._check_on())
            yield first
            while waiting in self._watchers and not self._ended and (left := until - time.monotonic()) > 0:
                try:
                    yield await asyncio.wait_for(waiting.get(), min(left, BREATH_SECONDS))
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._watchers.pop(waiting, None)

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

    async def _check_on(self) -> None:
        """End the streams whose token was revoked, or whose session has ended: one statement for all."""
        while self._watchers:
            await asyncio.sleep(CHECK_SECONDS)
            held = {credential for credential in self._watchers.values() if credential is not None}
            try:
                good = await self._service.auth.lookups.good(held) if held else {}
            except psycopg.Error:
                # A database that is away shows nobody anything either.
                continue
            for waiting, credential in list(self._watchers.items()):
                if credential in held and credential not in good:
                    del self._watchers[waiting]
                    _put(waiting, GOODBYE)

    def _tell(self, said: str) -> None:
        for waiting in self._watchers:
            _put(waiting, said)

    async def _look(self) -> str:
        service = self._service
        async with service.pool.connection() as conn, service.pool.bounded(conn, writes=False):
            return await look(conn, service.settings)


def _put(waiting: asyncio.Queue[str], said: str) -> None:
    # Whoever reads slowly is told the newest.
    with suppress(asyncio.QueueEmpty):
        waiting.get_nowait()
    waiting.put_nowait(said)


async def look(conn: Conn, settings: Settings) -> str:
    """How things stand now, as an event."""
    found = LiveShape.model_validate(await figures(conn, settings))
    return f"event: board\nretry: 2000\ndata: {found.model_dump_json(by_alias=True)}\n\n"


class EventStream(LimitedStream):
    """Server-sent events."""

    media_type = "text/event-stream"


@router.get("/api/live", response_class=EventStream)
async def live(
    request: Request,
    caller: CurrentCaller,
    seconds: Annotated[
        int, Query(ge=0, le=STREAM_SECONDS, description="For how long; 0 is one look.")
    ] = STREAM_SECONDS,
) -> StreamingResponse:
    """Queues, totals and workers, now and whenever they change; `away` while the database is."""
    live: Live = request.app.state.live
    live.slots.check(caller.bearer.token)
    # Looked at before anything is sent: a database that is away is said to be.
    first = await look(caller.conn, caller.settings)
    return EventStream(live.stream(first, seconds, caller.credential), live.slots, caller.bearer.token)
