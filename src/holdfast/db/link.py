"""Keeps one connection open; every statement has a deadline, and none is cancelled.

Cancelling a commit that waits for a synchronous standby acknowledges data that the standby lacks, and
a frozen server keeps its TCP connections alive for as long as it likes. So a statement that takes too
long loses its connection instead: the socket is shut down, and what became of the statement is unknown
until the caller looks (a fence or a key tells).

A backend that waits for a lock goes on waiting without its client, so each deadline would leave one behind.
Therefore the server rolls back what has waited for one lock for most of the deadline (`lock_timeout`: nothing
can have been committed by then), the connection stays, and the statement is tried again. A pooler in
transaction mode does not pass that setting on. There the statement loses its connection, and nothing more is
sent while a backend of this name waits for a lock. A backend whose client has gone for another reason is
ended by the server within seconds (`CLIENT_CHECKED` in db/connect.py).
"""

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from holdfast.core.events import DatabaseFound, DatabaseLost, Listener, StatementDelayed
from holdfast.db.connect import OWN_PATH, Conn, connect
from holdfast.db.locks import abandoned_waits

T = TypeVar("T")

DEADLINE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
RETRY_SECONDS_MIN = 0.05
RETRY_SECONDS_MAX = 0.5
# As shares of the deadline: when a statement is reported as delayed, and how long it may wait for one lock.
DELAYED = 0.2
LOCKED = 0.8


class LinkLost(Exception):
    """The connection is gone, and nobody knows whether the last statement took effect."""


class Blocked(LinkLost):
    """A statement was rolled back because of another session's lock; those before it took effect."""


class Link:
    """A connection to one database, opened when it is needed and again when it was lost."""

    def __init__(
        self,
        url: str,
        application: str,
        listen: Listener,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        lock_seconds: float | None = None,
    ) -> None:
        self._url = url
        self._application = application
        self._listen = listen
        self._deadline = deadline_seconds
        self._lock_seconds = deadline_seconds * LOCKED if lock_seconds is None else lock_seconds
        self._conn: Conn | None = None
        self._lost = False
        # A statement was given up at its deadline, and its backend may still wait for a lock. The reason is
        # known only on the next connection, so nothing is reported until then.
        self._abandoned = False
        self._unreported = ""
        self._turn = asyncio.Lock()
        # Grows with every new connection: what was learnt on an older one may be about another server.
        self.generation = 0

    async def use(self, work: Callable[[Conn], Awaitable[T]], deadline_seconds: float | None = None) -> T:
        """Do some work on the connection, alone; `LinkLost` where its outcome is unknown."""
        async with self._turn:
            conn = await self._connected()
            doing = asyncio.ensure_future(self._after_the_abandoned(conn, work))
            late = await self._wait(conn, doing, deadline_seconds or self._deadline)
            try:
                return doing.result()
            except psycopg.errors.LockNotAvailable as error:
                raise Blocked(str(error)) from error
            except psycopg.Error as error:
                # A server that has become a standby will not write again: the address leads elsewhere now.
                standby = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
                if not conn.closed and not conn.broken and not standby:
                    raise
                message = late or str(error)
                await (self._drop() if self._unreported else self._forget(message))
                raise LinkLost(message) from error

    async def _wait(self, conn: Conn, doing: "asyncio.Future[T]", seconds: float) -> str:
        """Until it is done, or its connection is given up; answers why that was."""
        soon = min(seconds, self._deadline * DELAYED)
        done, _ = await asyncio.wait({doing}, timeout=soon)
        if done:
            return ""
        self._listen(StatementDelayed(conn.info.parameter_status("application_name") or self._application))
        done, _ = await asyncio.wait({doing}, timeout=seconds - soon)
        if done:
            return ""
        self._cut(conn)
        await asyncio.wait({doing})
        why = f"a statement was not answered within {seconds:g} s"
        self._unreported = "" if self._abandoned else why
        self._abandoned = True
        return why

    async def _after_the_abandoned(self, conn: Conn, work: Callable[[Conn], Awaitable[T]]) -> T:
        if self._abandoned:
            blocked = await abandoned_waits(conn)
            unreported, self._unreported = self._unreported, ""
            if blocked:
                raise Blocked("a statement that was given up still waits for a lock")
            self._abandoned = False
            if unreported:
                self._listen(DatabaseLost(unreported))
                self._listen(DatabaseFound())
        return await work(conn)

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
            opening = connect(
                self._url, application=self._application, lock_seconds=self._lock_seconds, path=OWN_PATH
            )
            conn = await asyncio.wait_for(opening, CONNECT_SECONDS)
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
        self._unreported = ""
        if not self._lost:
            self._lost = True
            self._listen(DatabaseLost(message.strip()))
        await self._drop()

    @staticmethod
    def _cut(conn: Conn) -> None:
        """Shut the socket down: the statement that waits on it ends with an error, nothing is cancelled."""
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(conn.pgconn.socket)) as alias:
            alias.shutdown(socket.SHUT_RDWR)


class ReconnectDelay:
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
