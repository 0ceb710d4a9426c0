"""Listens for notifications that wake idle executors; polling finds the work without them."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import sql

from holdfast.db.connect import connect, is_direct
from holdfast.db.link import ReconnectDelay
from holdfast.store.store import HINT_CHANNEL
from holdfast.worker.options import WorkerOptions

RETRY_SECONDS = 5.0


class Notifications:
    """Hears that a queue has work, and tells."""

    def __init__(self, options: WorkerOptions, wake: Callable[[], None]) -> None:
        self._url = options.direct_url or options.url
        self._trusted = bool(options.direct_url)
        self._name = options.name
        self._queues = frozenset(options.queues)
        self._channel = f"{options.schema}.{HINT_CHANNEL}"
        self._wake = wake

    async def run(self) -> None:
        """Listen for ever; behind a pooler nothing would be heard, so nothing is tried."""
        delay = ReconnectDelay()
        while True:
            began = time.monotonic()
            with suppress(psycopg.Error, OSError):
                if not await self._listen():
                    return
            if time.monotonic() - began > RETRY_SECONDS:
                delay.reset()
            # Whatever was said while nobody listened is found by looking.
            self._wake()
            await asyncio.sleep(delay.next())

    async def _listen(self) -> bool:
        async with await connect(self._url, application=f"holdfast {self._name} hints") as conn:
            if not self._trusted and not is_direct(conn):
                return False
            await conn.execute(sql.SQL("listen {}").format(sql.Identifier(self._channel)))
            self._wake()
            async for hint in conn.notifies():
                if hint.payload in self._queues:
                    self._wake()
        return True
