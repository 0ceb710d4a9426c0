"""Somebody else's write to the row of a task, at any moment of what the engine does to that task.

The engine's connection stops before each message to the server, `begin` and `commit` included. Before the
chosen one the outsider writes; it commits at once, or as soon as the engine waits for it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, LiteralString, TypeVar

from holdfast.db.connect import Conn

T = TypeVar("T")
BOUND_SECONDS = 20.0


class Write(StrEnum):
    """What is done to the row; an update changes nothing but its place."""

    UPDATE = "update"
    DELETE = "delete"
    LOCK = "lock"


_STATEMENTS: dict[tuple[Write, str], LiteralString] = {
    (Write.UPDATE, "tasks"): "update holdfast.tasks set trace_id = trace_id where id = %s",
    (Write.UPDATE, "ready"): "update holdfast.ready set kind = kind where id = %s",
    (Write.UPDATE, "blocked"): "update holdfast.blocked set kind = kind where id = %s",
    (Write.UPDATE, "running"): "update holdfast.running set worker = worker where id = %s",
    (Write.DELETE, "tasks"): "delete from holdfast.tasks where id = %s",
    (Write.DELETE, "ready"): "delete from holdfast.ready where id = %s",
    (Write.DELETE, "blocked"): "delete from holdfast.blocked where id = %s",
    (Write.DELETE, "running"): "delete from holdfast.running where id = %s",
    (Write.LOCK, "tasks"): "select from holdfast.tasks where id = %s for update",
    (Write.LOCK, "ready"): "select from holdfast.ready where id = %s for update",
    (Write.LOCK, "blocked"): "select from holdfast.blocked where id = %s for update",
    (Write.LOCK, "running"): "select from holdfast.running where id = %s for update",
}


@dataclass
class Outsider:
    """One write on a connection of its own; `watching` sees who waits for whom."""

    conn: Conn
    watching: Conn
    write: Write
    table: str
    task: str
    # Before which of the engine's messages it writes.
    at: int
    # Whether it keeps its transaction open until the engine waits for it.
    waits: bool
    messages: int = 0
    _writing: asyncio.Task[None] | None = field(default=None, init=False)
    _wrote: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _may_end: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    @asynccontextmanager
    async def beside(self, engine: Conn) -> AsyncIterator[None]:
        """Write while the engine acts on this connection; whatever is left to do is done at the end."""
        ordinary = engine.wait

        async def wait(*given: Any, **named: Any) -> Any:
            if self.messages == self.at:
                await self._begin()
            self.messages += 1
            answer = asyncio.ensure_future(ordinary(*given, **named))
            if self._writing is not None and not self._may_end.is_set():
                await self._until(answer, engine)
                if not answer.done():
                    await self._end()
            return await answer

        engine.wait = wait  # type: ignore[method-assign]
        try:
            yield
            if self._writing is None:
                await self._begin()
        finally:
            engine.wait = ordinary  # type: ignore[method-assign]
            await self._end()

    async def _begin(self) -> None:
        """Write, and go on when that is done or waits for the engine."""
        self._writing = asyncio.create_task(self._run())
        await self._until(asyncio.ensure_future(self._wrote.wait()), self.conn)

    async def _end(self) -> None:
        self._may_end.set()
        if self._writing is not None:
            async with asyncio.timeout(BOUND_SECONDS):
                await self._writing

    async def _run(self) -> None:
        async with self.conn.transaction():
            await self.conn.execute(_STATEMENTS[self.write, self.table], [self.task])
            if self.waits:
                self._wrote.set()
                await self._may_end.wait()
        self._wrote.set()

    async def _until(self, done: Awaitable[T], waiting: Conn) -> None:
        """Until something is done, or this connection waits for another one's lock."""
        future = asyncio.ensure_future(done)
        async with asyncio.timeout(BOUND_SECONDS):
            while not future.done() and not await self._waits(waiting):
                await asyncio.wait({future}, timeout=0)

    async def _waits(self, conn: Conn) -> bool:
        cursor = await self.watching.execute(
            "select cardinality(pg_blocking_pids(%s)) > 0", [conn.info.backend_pid]
        )
        row = await cursor.fetchone()
        return row is not None and bool(row[0])
