"""Counts refused tokens in memory and writes one audit entry per address and minute."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias

import psycopg

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.db.connect import Conn
from holdfast.store.audit import CODE, AuditWriter, Author

EVERY_SECONDS = 60.0
# Entries in a minute; the last of them stands for all further addresses.
ENTRIES_MAX = 100
_CODE = f"{CODE}:api"


Work: TypeAlias = Callable[[Conn], Awaitable[None]]


class Refusals:
    """The tokens that one process has refused since the last entry."""

    def __init__(self, settings: Settings, write: Callable[[Work], Awaitable[None]]) -> None:
        self._audit = AuditWriter(settings)
        self._write = write
        self._counts: dict[str, int] = {}
        self._others = 0
        self._writing: asyncio.Task[None] | None = None

    def count(self, address: str) -> None:
        """One more token from this address; costs the request no more than this."""
        if address in self._counts or len(self._counts) < ENTRIES_MAX - 1:
            self._counts[address] = self._counts.get(address, 0) + 1
        else:
            self._others += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later())

    async def close(self) -> None:
        """Write what was counted, before the process ends."""
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
        await self.flush()

    async def flush(self) -> None:
        """Write what was counted; where that fails, it is counted on."""
        counts, others = self._counts, self._others
        if not counts and not others:
            return
        self._counts, self._others = {}, 0

        async def work(conn: Conn) -> None:
            for address, refused in counts.items():
                await self._note(conn, address, {"count": refused, "from": address})
            if others:
                await self._note(conn, "", {"count": others, "from": "further addresses"})

        try:
            await self._write(work)
        except (psycopg.Error, asyncio.CancelledError) as error:
            self._others += others + sum(self._counts.values())
            self._counts = counts
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _note(self, conn: Conn, address: str, details: dict[str, object]) -> None:
        await conn.execute("select set_config('holdfast_audit.address', %s, true)", [address])
        author = Author(CODE, "", _CODE)
        await self._audit.note(conn, Action.TOKEN_REFUSED, author, details=details)

    async def _write_later(self) -> None:
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            await self.flush()
            if not self._counts and not self._others:
                return
