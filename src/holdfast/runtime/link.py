"""One connection that is kept up: every statement has a deadline, and none is ever cancelled.

Cancelling a commit that waits for a synchronous standby acknowledges data that the standby lacks, and
a frozen server keeps its TCP connections alive for as long as it likes. So a statement that takes too
long loses its connection instead: the socket is shut down, and what became of the statement is unknown
until the caller looks (a fence or a key tells).
"""

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from holdfast.core.events import DatabaseFound, DatabaseLost, Listener
from holdfast.store.pool import Conn, connect

T = TypeVar("T")

DEADLINE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
RETRY_SECONDS_MIN = 0.05
RETRY_SECONDS_MAX = 0.5


class LinkLost(Exception):
    """The connection is gone, and nobody knows whether the last statement took effect."""


class Link:
    """A connection to one database, opened when it is needed and again when it was lost."""

    def __init__(
        self, url: str, application: str, listen: Listener, *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        self._url = url
        self._application = application
        self._listen = listen
        self._deadline = deadline_seconds
        self._conn: Conn | None = None
        self._lost = False
        self._turn = asyncio.Lock()
        # Grows with every new connection: what was learnt on an older one may be about another server.
        self.generation = 0

    async def use(self, work: Callable[[Conn], Awaitable[T]], deadline_seconds: float | None = None) -> T:
        """Do some work on the connection, alone; `LinkLost` where its outcome is unknown."""
        async with self._turn:
            conn = await self._connected()
            doing = asyncio.ensure_future(work(conn))
            done, _ = await asyncio.wait({doing}, timeout=deadline_seconds or self._deadline)
            if not done:
                self._cut(conn)
                await asyncio.wait({doing})
            try:
                return doing.result()
            except psycopg.Error as error:
                # A server that has become a standby will not write again: the address leads elsewhere now.
                standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
                if not conn.closed and not conn.broken and not standby:
                    raise
                await self._forget(str(error))
                raise LinkLost(str(error)) from error

    @property
    def busy(self) -> bool:
        """Whether a statement is on its way."""
        return self._turn.locked()

    async def close(self) -> None:
        """Let the connection go, once nobody uses it."""
        async with self._turn:
            await self._drop()

    async def _drop(self) -> None:
        if self._conn is not None:
            conn, self._conn = self._conn, None
            with suppress(psycopg.Error):
                await conn.close()

    async def _connected(self) -> Conn:
        if self._conn is not None and not self._conn.closed:
            return self._conn
        try:
            conn = await asyncio.wait_for(connect(self._url, application=self._application), CONNECT_SECONDS)
        except (psycopg.Error, TimeoutError, OSError) as error:
            await self._forget(str(error) or "it did not answer")
            raise LinkLost(str(error) or "the database did not answer in time") from error
        self._conn = conn
        self.generation += 1
        if self._lost:
            self._lost = False
            self._listen(DatabaseFound())
        return conn

    async def _forget(self, message: str) -> None:
        if not self._lost:
            self._lost = True
            self._listen(DatabaseLost(message.strip()))
        await self._drop()

    @staticmethod
    def _cut(conn: Conn) -> None:
        """Shut the socket down: the statement that waits on it ends with an error, nothing is cancelled."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.pgconn.socket)) as alias:
            alias.shutdown(socket.SHUT_RDWR)


class Backoff:
    """How long to wait between attempts to reach the database."""

    def __init__(self) -> None:
        self._seconds = RETRY_SECONDS_MIN

    def reset(self) -> None:
        """It answered."""
        self._seconds = RETRY_SECONDS_MIN

    def next(self) -> float:
        """Longer each time, up to half a second: work resumes soon after the database is back."""
        seconds = self._seconds * random.uniform(0.5, 1.0)
        self._seconds = min(self._seconds * 2, RETRY_SECONDS_MAX)
        return seconds
