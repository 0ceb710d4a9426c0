"""One interface over seven kinds of connection, so that tasks are written in the caller's transaction.

Nothing here begins, commits or rolls back unless `work` says so: an enqueue is one statement on the
connection that it was given. Drivers that are not installed are never imported: a connection is known
by the names of its classes.
"""

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from functools import cache
from typing import Any, Protocol, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.core.errors import Misused, NotAConnection

Rows: TypeAlias = list[tuple[Any, ...]]
Values: TypeAlias = Mapping[str, object]

_PARAMETER = re.compile(r"%\((\w+)\)[sb](?:::([\w ]+(?:\[\])?))?")


class AsyncBridge(Protocol):
    """A connection whose calls are awaited."""

    async def fetch(self, statement: str, values: Values) -> Rows:
        """Run one of our statements and answer its rows."""

    def work(self) -> AbstractAsyncContextManager[object]:
        """A piece of work that is committed at its end, or rolled back by an exception."""


class SyncBridge(Protocol):
    """A connection whose calls block."""

    def fetch(self, statement: str, values: Values) -> Rows:
        """Run one of our statements and answer its rows."""

    def work(self) -> AbstractContextManager[object]:
        """A piece of work that is committed at its end, or rolled back by an exception."""


def bridge_async(conn: object) -> AsyncBridge:
    """The face of a connection that is awaited; says what to do where it cannot be."""
    match _family(conn):
        case "psycopg.AsyncConnection":
            return _PsycopgAsync(conn)
        case "asyncpg":
            return _Asyncpg(conn)
        case "sqlalchemy.AsyncSession" | "sqlalchemy.AsyncConnection":
            return _SqlalchemyAsync(conn)
        case "psycopg.Connection" | "sqlalchemy.Session" | "sqlalchemy.Connection" as found:
            raise NotAConnection(conn, f"a {found} blocks: use enqueue_sync (or `with task.finish(…)`)")
        case _:
            raise NotAConnection(conn, _KNOWN)


def bridge_sync(conn: object) -> SyncBridge:
    """The face of a connection that blocks; says what to do where it cannot be."""
    match _family(conn):
        case "psycopg.Connection":
            return _PsycopgSync(conn)
        case "sqlalchemy.Session" | "sqlalchemy.Connection":
            return _SqlalchemySync(conn)
        case None:
            raise NotAConnection(conn, _KNOWN)
        case found:
            raise NotAConnection(conn, f"a {found} is awaited: use enqueue (or `async with task.finish(…)`)")


_KNOWN = (
    "pass a psycopg Connection or AsyncConnection, an asyncpg connection, or a SQLAlchemy Session, "
    "AsyncSession, Connection or AsyncConnection"
)


def _family(conn: object) -> str | None:
    for cls in type(conn).__mro__:
        package, name = cls.__module__.split(".")[0], cls.__name__
        if package == "psycopg" and name in ("Connection", "AsyncConnection"):
            return f"psycopg.{name}"
        if package == "asyncpg" and name in ("Connection", "PoolConnectionProxy"):
            return "asyncpg"
        if package == "sqlalchemy" and name in ("AsyncSession", "AsyncConnection", "Session", "Connection"):
            return f"sqlalchemy.{name}"
        if package == "sqlalchemy" and name in ("scoped_session", "async_scoped_session"):
            return "sqlalchemy.Session" if name == "scoped_session" else "sqlalchemy.AsyncSession"
    return None


def _require_idle(*, busy: bool) -> None:
    """Inside a transaction of the caller's the commit would not be ours, and might never come."""
    if busy:
        raise Misused(
            "this connection is in a transaction already, so the end of the task would not be committed with "
            "it: commit before `finish`, or leave conn out"
        )


class _PsycopgAsync:
    def __init__(self, conn: Any) -> None:
        self._conn: psycopg.AsyncConnection[Any] = conn

    async def fetch(self, statement: str, values: Values) -> Rows:
        # The caller's connection may make rows into something else, and decode text in its own way.
        cursor = self._conn.cursor(row_factory=psycopg.rows.tuple_row)
        return await (await cursor.execute(statement, values)).fetchall()

    @asynccontextmanager
    async def work(self) -> AsyncIterator[object]:
        _require_idle(busy=self._conn.info.transaction_status is not TransactionStatus.IDLE)
        async with self._conn.transaction():
            yield self._conn


class _PsycopgSync:
    def __init__(self, conn: Any) -> None:
        self._conn: psycopg.Connection[Any] = conn

    def fetch(self, statement: str, values: Values) -> Rows:
        cursor = self._conn.cursor(row_factory=psycopg.rows.tuple_row)
        return cursor.execute(statement, values).fetchall()

    @contextmanager
    def work(self) -> Iterator[object]:
        _require_idle(busy=self._conn.info.transaction_status is not TransactionStatus.IDLE)
        with self._conn.transaction():
            yield self._conn


class _Asyncpg:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def fetch(self, statement: str, values: Values) -> Rows:
        text, names = numbered(statement)
        rows: Sequence[Any] = await self._conn.fetch(text, *(values[name] for name in names))
        return [tuple(row) for row in rows]

    @asynccontextmanager
    async def work(self) -> AsyncIterator[object]:
        _require_idle(busy=self._conn.is_in_transaction())
        async with self._conn.transaction():
            yield self._conn


class _SqlalchemyAsync:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    async def fetch(self, statement: str, values: Values) -> Rows:
        found = await self._conn.execute(_text(statement), values)
        return [tuple(row) for row in found.all()]

    @asynccontextmanager
    async def work(self) -> AsyncIterator[object]:
        try:
            yield self._conn
        except BaseException:
            await self._conn.rollback()
            raise
        await self._conn.commit()


class _SqlalchemySync:
    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def fetch(self, statement: str, values: Values) -> Rows:
        return [tuple(row) for row in self._conn.execute(_text(statement), values).all()]

    @contextmanager
    def work(self) -> Iterator[object]:
        try:
            yield self._conn
        except BaseException:
            self._conn.rollback()
            raise
        self._conn.commit()


@cache
def numbered(statement: str) -> tuple[str, tuple[str, ...]]:
    """A statement with $1, $2, …, and the names that stand for them."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        name, cast = found.groups()
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}" + (f"::{cast}" if cast else "")

    return _PARAMETER.sub(number, statement), tuple(names)


@cache
def _text(statement: str) -> Any:
    from sqlalchemy import text

    def named(found: re.Match[str]) -> str:
        name, cast = found.groups()
        return f"cast(:{name} as {cast})" if cast else f":{name}"

    return text(_PARAMETER.sub(named, statement))
