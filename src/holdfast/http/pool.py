"""The connection pool of an API process: every wait of a request has an end."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from holdfast.db.connect import (
    CLIENT_CHECKED,
    ENCODING,
    OWN_PATH,
    Conn,
    ReadableTimes,
    options_for,
    refuses_options,
)

STATEMENT_SECONDS = 3.0
# Shorter, so that whoever waits for a locked table is told of the lock.
LOCK_SECONDS = 2.5
CONNECTIONS = 10
CONNECT_SECONDS = 3.0
# A database that does not answer the first statement in time is treated as down: a pooler may queue a client
# for minutes, and a network that is cut reports nothing.
ANSWER_SECONDS = 5.0
REQUEST_SECONDS = 60.0
LOGIN_SECONDS = 10
# Plans must use the indexes, as in `db/connect.py`: else listing the queues of a million tasks takes 640 ms.
_BOUNDS = """
select set_config('statement_timeout', %s, true), set_config('transaction_read_only', %s, true),
    set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('enable_memoize', 'off', true),
    set_config('holdfast_audit.token', %s, true), set_config('holdfast_audit.address', %s, true)
"""

_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "application_name": "holdfast api",
    "prepare_threshold": None,
    "connect_timeout": LOGIN_SECONDS,
    "client_encoding": ENCODING,
}


class PoolConnection(AsyncConnection[TupleRow]):
    """A connection of the pool: it waits for no lock beyond its time, and its backend ends with it."""

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Connect with these options, or without them where a pooler refuses them."""
        ours = f"{CLIENT_CHECKED} {OWN_PATH} -c lock_timeout={LOCK_SECONDS * 1_000:.0f}"
        try:
            return await super().connect(conninfo, options=options_for(conninfo, ours), **options)
        except psycopg.OperationalError as error:
            if not refuses_options(error):
                raise
        return await super().connect(conninfo, **options)


class Pool:
    """The connections of one API process."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
            url,
            connection_class=PoolConnection,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            # Whoever asks next begins anew. Otherwise the pool waits ever longer between two tries: after an
            # outage of 142 s it did not look for another 107 s.
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
            kwargs=_CONNECTION,
            configure=_configure,
        )

    async def close(self) -> None:
        """Let the connections go."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Conn]:
        """A pooled connection; raises OperationalError if the database cannot be reached in time."""
        if self._pool.closed:
            # Opened by the first request: an app that is mounted in another gets no startup event.
            await self._pool.open()
        try:
            async with self._pool.connection() as conn:
                yield conn
        except PoolTimeout as error:
            raise psycopg.OperationalError(str(error)) from error

    async def connect(self) -> Conn:
        """A connection outside the pool, configured alike, for those that must not wait for the pool."""
        conn = await PoolConnection.connect(self._url, **_CONNECTION)
        await _configure(conn)
        return conn

    @asynccontextmanager
    async def looking_up(self) -> AsyncIterator[Conn]:
        """One for a lookup, which a database that is away must not hold up."""
        async with self.connection() as conn:
            with answering(conn):
                yield conn

    @asynccontextmanager
    async def bounded(
        self,
        conn: Conn,
        *,
        writes: bool,
        seconds: float = STATEMENT_SECONDS,
        token: str = "",
        address: str = "",
    ) -> AsyncIterator[None]:
        """One transaction for a request, whose statements end in time and write only if they may.

        The audit takes from it whose token it is, and the address of the client.
        """
        async with AsyncExitStack() as stack:
            with answering(conn):
                await stack.enter_async_context(conn.transaction())
                limit = str(round(seconds * 1_000))
                await conn.execute(_BOUNDS, [limit, "off" if writes else "on", token, address])
            with answering(conn, REQUEST_SECONDS):
                yield


async def _configure(conn: Conn) -> None:
    """Read committed, and load every timestamp, also those that Python's datetime cannot hold."""
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    conn.adapters.register_loader("timestamptz", ReadableTimes)


@contextmanager
def answering(conn: Conn, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
    """Hang up on a database that gives no answer in time: whoever waits for it is told that it is away."""
    hang_up = asyncio.get_running_loop().call_later(seconds, _hang_up, conn)
    try:
        yield
    finally:
        hang_up.cancel()


def _hang_up(conn: Conn) -> None:
    # Shut down the socket and do not close the connection: the waiting coroutine still uses it.
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
