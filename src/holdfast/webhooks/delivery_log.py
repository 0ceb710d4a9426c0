"""Records each delivery request, in groups, before the delivery is settled."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from operator import attrgetter

import psycopg

from holdfast.config import Settings
from holdfast.core.events import Listener, StatementFailed
from holdfast.core.redact import shown_url
from holdfast.core.task import is_id
from holdfast.db.connect import Conn
from holdfast.db.link import Link, LinkLost
from holdfast.db.partitions import ensure_partitions
from holdfast.db.statements import load

GROUP_MAX = 500
GATHER_SECONDS = 0.003


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request of a delivery, and what came of it."""

    at: datetime
    endpoint: str
    task_id: str
    attempt: int
    event: str
    type: str
    url: str
    signed_at: int
    keys: Sequence[str]
    body_bytes: int
    took_seconds: float
    status: int | None
    code: str | None
    message: str | None
    answer_head: str | None

    @property
    def delivered(self) -> bool:
        """Whether the receiver took it."""
        return self.status is not None and 200 <= self.status < 300


_COLUMNS = [field.name for field in fields(Attempt)]


class LogWriter:
    """Gathers rows of one process and writes them together."""

    def __init__(self, settings: Settings, link: Link, listen: Listener) -> None:
        self._schema = settings.schema_name
        self._listen = listen
        self._sql = load("webhooks/webhooks.sql", settings.schema_name)
        self._link = link
        self._waiting: list[tuple[Attempt, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, attempt: Attempt) -> None:
        """Have it written; back when it is."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((attempt, written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        await written

    async def _write(self) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        while self._waiting:
            group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
            try:
                await self._keep([attempt for attempt, _ in group])
            finally:
                for _, written in group:
                    if not written.done():
                        written.set_result(None)

    async def _keep(self, attempts: Sequence[Attempt]) -> None:
        """Write rows, twice if need be; what cannot be is told, and its delivery counts as it went."""
        values = {name: list(map(attrgetter(name), attempts)) for name in _COLUMNS}
        values["keys"] = [" ".join(attempt.keys) for attempt in attempts]
        for last in (False, True):
            try:
                await self._link.use(lambda conn: conn.execute(self._sql["log"], values))
            except psycopg.errors.CheckViolation:
                # Nobody has made today's partition.
                await self._make_days()
            except (LinkLost, psycopg.Error) as error:
                if last:
                    self._listen(StatementFailed("webhook log", str(error).strip()))
            else:
                return

    async def _make_days(self) -> None:
        try:
            await self._link.use(lambda conn: ensure_partitions(conn, self._schema))
        except (LinkLost, psycopg.Error) as error:
            self._listen(StatementFailed("webhook log", str(error).strip()))


class DeliveryLog:
    """What people read of it."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("webhooks/webhooks.sql", settings.schema_name)

    async def page(
        self,
        conn: Conn,
        *,
        endpoint: str | None = None,
        task: str | None = None,
        before: datetime | None = None,
        failed: bool = False,
        limit: int = 50,
    ) -> list[Attempt]:
        """Requests of an endpoint or of one delivery, the latest first."""
        if not all(one is None or is_id(one) for one in (endpoint, task)):
            return []
        values = {"endpoint": endpoint, "task": task, "before": before, "failed": failed, "limit": limit}
        rows = await (await conn.execute(self._sql["attempts"], values)).fetchall()
        # Before 0.3.0 the path was logged whole.
        found = [Attempt(*row) for row in rows]
        return [replace(one, url=shown_url(one.url)) for one in found]
