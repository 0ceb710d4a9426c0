"""`task.finish(…)`: a handler's own rows and the end of its task, in one commit under the fence.

The fenced statement is the last one before the commit, so that no lock of ours lasts through user code.
If it finds the task gone, everything is rolled back. If the commit's answer is lost, the task is marked
as uncertain, and whoever settles it looks first.
"""

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any

import psycopg

from holdfast.config import Settings
from holdfast.core.errors import LeaseLost, Misused
from holdfast.core.handler import Handlers, Task
from holdfast.store.bridges import AsyncBridge, Rows, SyncBridge, bridge_async, bridge_sync
from holdfast.store.pool import Conn, connect
from holdfast.store.sql import load

IDLE_MAX = 4


class Finishing:
    """The finisher of one executor, with a few connections of its own."""

    def __init__(self, settings: Settings, handlers: Handlers) -> None:
        self._url = settings.database_url
        self._handlers = handlers
        self._sql = load("tasks.sql", settings.schema_name)
        self._idle: list[Conn] = []
        self._idle_sync: list[psycopg.Connection[Any]] = []

    def finish(self, task: Task[Any], result: object, conn: object | None) -> "FinishBlock":
        """Begin the last act of a task."""
        if task.settled:
            raise Misused(f"task {task.id} is finished already: call finish once, at the end")
        text = None if result is None else self._handlers[task.kind].encode(result)
        return FinishBlock(self, task, text, conn)

    async def close(self) -> None:
        """Let the idle connections go."""
        while self._idle:
            await self._idle.pop().close()
        while self._idle_sync:
            self._idle_sync.pop().close()

    async def take(self) -> Conn:
        """A connection for one finish; one that lay idle is asked whether it is still there."""
        while self._idle:
            conn = self._idle.pop()
            try:
                await conn.execute("select 1")
            except psycopg.Error:
                await conn.close()
            else:
                return conn
        return await connect(self._url, application="holdfast finish")

    async def give(self, conn: Conn) -> None:
        """It is not needed any more."""
        if conn.closed or len(self._idle) >= IDLE_MAX:
            await conn.close()
        else:
            self._idle.append(conn)

    def take_sync(self) -> "psycopg.Connection[Any]":
        """A connection for one finish in a thread."""
        while True:
            try:
                conn = self._idle_sync.pop()
            except IndexError:
                break
            try:
                conn.execute("select 1")
            except psycopg.Error:
                conn.close()
            else:
                return conn
        return psycopg.connect(self._url, autocommit=True, application_name="holdfast finish")

    def give_sync(self, conn: "psycopg.Connection[Any]") -> None:
        """It is not needed any more."""
        if conn.closed or len(self._idle_sync) >= IDLE_MAX:
            conn.close()
        else:
            self._idle_sync.append(conn)

    async def complete(self, bridge: AsyncBridge, task: Task[Any], result: str | None) -> None:
        """The fenced end; nothing may come between it and the commit."""
        _require(await bridge.fetch(self._sql["complete"], _values(task, result)), task)

    def complete_sync(self, bridge: SyncBridge, task: Task[Any], result: str | None) -> None:
        """The same, where calls block."""
        _require(bridge.fetch(self._sql["complete"], _values(task, result)), task)


class FinishBlock:
    """One use of `task.finish`: with `async with`, or with `with`."""

    def __init__(self, by: Finishing, task: Task[Any], result: str | None, conn: object | None) -> None:
        self._by = by
        self._task = task
        self._result = result
        self._given = conn
        self._own: Conn | None = None
        self._own_sync: psycopg.Connection[Any] | None = None
        self._bridge: AsyncBridge | None = None
        self._bridge_sync: SyncBridge | None = None
        self._work: AbstractAsyncContextManager[object] | None = None
        self._work_sync: AbstractContextManager[object] | None = None

    async def __aenter__(self) -> Any:
        if self._given is None:
            self._own = await self._by.take()
        self._bridge = bridge_async(self._own if self._given is None else self._given)
        self._work = self._bridge.work()
        return await self._work.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bridge is not None, "it was entered"
        assert self._work is not None, "it was entered"
        try:
            if error is None:
                try:
                    await self._by.complete(self._bridge, self._task, self._result)
                except BaseException as refused:
                    await self._work.__aexit__(type(refused), refused, refused.__traceback__)
                    raise
                self._task.uncertain = True
                await self._work.__aexit__(None, None, None)
                self._task.uncertain, self._task.settled = False, True
            else:
                await self._work.__aexit__(kind, error, trace)
        finally:
            if self._own is not None:
                await self._by.give(self._own)

    def __enter__(self) -> Any:
        if self._given is None:
            self._own_sync = self._by.take_sync()
        self._bridge_sync = bridge_sync(self._own_sync if self._given is None else self._given)
        self._work_sync = self._bridge_sync.work()
        return self._work_sync.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bridge_sync is not None, "it was entered"
        assert self._work_sync is not None, "it was entered"
        try:
            if error is None:
                try:
                    self._by.complete_sync(self._bridge_sync, self._task, self._result)
                except BaseException as refused:
                    self._work_sync.__exit__(type(refused), refused, refused.__traceback__)
                    raise
                self._task.uncertain = True
                self._work_sync.__exit__(None, None, None)
                self._task.uncertain, self._task.settled = False, True
            else:
                self._work_sync.__exit__(kind, error, trace)
        finally:
            if self._own_sync is not None:
                self._by.give_sync(self._own_sync)


def _values(task: Task[Any], result: str | None) -> dict[str, object]:
    return {
        "ids": [task.id],
        "fences": [task.fence],
        "results": None if result is None else [result],
        "now": None,
    }


def _require(rows: Rows, task: Task[Any]) -> None:
    if not rows:
        raise LeaseLost(task.id, task.fence)
