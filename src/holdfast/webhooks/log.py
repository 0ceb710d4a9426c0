"""The delivery log: a row for each request, written in groups, there before its delivery is settled."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import psycopg

from holdfast.config import Settings
from holdfast.core.task import is_id
from holdfast.runtime.link import Link, LinkLost
from holdfast.store.pool import Conn
from holdfast.store.sql import load
from holdfast.webhooks.kinds import PACKAGE

GROUP_MAX = 500
GATHER_SECONDS = 0.003
MESSAGE_CHARACTERS_MAX = 500


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


class LogWriter:
    """Gathers rows of one process and writes them together."""

    def __init__(self, settings: Settings, link: Link) -> None:
        self._sql = load("webhooks.sql", settings.schema_name, PACKAGE)
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
            rows = json.dumps([asdict(attempt) for attempt, _ in group], default=_as_json)
            failed = await self._failed(rows)
            for _, written in group:
                if written.done():
                    # Its delivery was cancelled: nobody waits any more.
                    continue
                if failed is None:
                    written.set_result(None)
                else:
                    written.set_exception(failed)

    async def _failed(self, rows: str) -> Exception | None:
        """Write rows; answers what went wrong, for all who wait for one of them."""
        try:
            await self._link.use(lambda conn: conn.execute(self._sql["log"], {"rows": rows}))
        except (LinkLost, psycopg.Error) as error:
            return error
        return None


def _as_json(value: object) -> str:
    assert isinstance(value, datetime), "an attempt has no other values"
    return value.isoformat()


class DeliveryLog:
    """What people read of it."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("webhooks.sql", settings.schema_name, PACKAGE)

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
        return [Attempt(*row) for row in rows]
