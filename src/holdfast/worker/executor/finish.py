"""`task.finish(…)`: commits a handler's own rows together with the end of its task.

The fenced statement is the last one before the commit, so that no lock of ours lasts through user code.
If it finds the task gone, everything is rolled back. If the commit's answer is lost, the task is marked
as uncertain, and whoever settles it looks first.
"""

import asyncio
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, TypeAlias

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.config import Settings
from holdfast.core.errors import LeaseLost, Misused
from holdfast.core.handler import Handlers, Task
from holdfast.core.state import State
from holdfast.core.task import Predecessor
from holdfast.db.bridges import AsyncBridge, Rows, SyncBridge, bridge_async, bridge_sync
from holdfast.db.connect import Conn, connect, connect_sync
from holdfast.db.statements import load_all

# Of each sort in one executor: who finds none free waits, because opening one takes longer than a finish.
CONNECTIONS_MAX = 10
ASKING_MAX = 2
# While a fenced statement takes longer than this, because a table is locked, no connection is opened.
HELD_UP_SECONDS = 0.2
LOOK_SECONDS = 0.05
Results: TypeAlias = Sequence[str | None] | None


class Finishing:
    """The finisher of one executor, with a few connections of its own."""

    def __init__(self, settings: Settings, handlers: Handlers) -> None:
        self._url = settings.database_url
        self._handlers = handlers
        self._sql = load_all(["store/followups.sql", "store/settle.sql"], settings.schema_name)
        self._idle: list[Conn] = []
        self._idle_sync: list[psycopg.Connection[Any]] = []
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._room_sync = threading.Semaphore(CONNECTIONS_MAX)
        self._asking = asyncio.Semaphore(ASKING_MAX)
        self._asking_sync = threading.Semaphore(ASKING_MAX)
        # The fenced statements that are under way, and since when, in monotonic seconds.
        self._ending_since: dict[object, float] = {}

    def finish(
        self, tasks: Sequence[Task[Any]], results: Sequence[object] | None, conn: object | None
    ) -> "FinishBlock":
        """Begin the last act of a task, or of many at once."""
        for task in tasks:
            if task.settled:
                raise Misused(f"task {task.id} is finished already: call finish once, at the end")
        if results is not None and len(results) != len(tasks):
            raise Misused(f"there are {len(results)} results for {len(tasks)} tasks: give one for each")
        encode = self._handlers[tasks[0].kind].encode
        texts = [None if result is None else encode(result) for result in results or ()]
        return FinishBlock(self, tasks, texts if any(texts) else None, conn)

    async def predecessors(self, task_id: str) -> list[Predecessor]:
        """What became of the tasks that one came after."""
        # Not one of those for finishing: whoever asks may have one of them, and all may be asking.
        async with self._asking, await connect(self._url, application="holdfast asks") as conn:
            return _predecessors(
                await (await conn.execute(self._sql["predecessors"], {"id": task_id})).fetchall()
            )

    def predecessors_sync(self, task_id: str) -> list[Predecessor]:
        """The same, where calls block."""
        with self._asking_sync, connect_sync(self._url, application="holdfast asks") as conn:
            return _predecessors(conn.execute(self._sql["predecessors"], {"id": task_id}).fetchall())

    async def close(self) -> None:
        """Let the idle connections go."""
        while self._idle:
            await self._idle.pop().close()
        while self._idle_sync:
            self._idle_sync.pop().close()

    async def take(self) -> Conn:
        """A connection for one finish; one that lay idle is asked whether it is still there."""
        await self._room.acquire()
        try:
            while self._idle or self._held_up():
                if not self._idle:
                    await asyncio.sleep(LOOK_SECONDS)
                    continue
                conn = self._idle.pop()
                try:
                    await conn.execute("select 1")
                except psycopg.Error:
                    await conn.close()
                except BaseException:
                    await conn.close()
                    raise
                else:
                    return conn
            return await connect(self._url, application="holdfast finish")
        except BaseException:
            self._room.release()
            raise

    async def give(self, conn: Conn) -> None:
        """It is not needed any more; one that was cut off in the middle is not used again."""
        if conn.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(conn)
            self._room.release()
        else:
            self._room.release()
            await conn.close()

    def take_sync(self) -> "psycopg.Connection[Any]":
        """A connection for one finish in a thread."""
        self._room_sync.acquire()
        try:
            while True:
                try:
                    conn = self._idle_sync.pop()
                except IndexError:
                    if not self._held_up():
                        break
                    time.sleep(LOOK_SECONDS)
                    continue
                try:
                    conn.execute("select 1")
                except psycopg.Error:
                    conn.close()
                else:
                    return conn
            return connect_sync(self._url, application="holdfast finish")
        except BaseException:
            self._room_sync.release()
            raise

    def give_sync(self, conn: "psycopg.Connection[Any]") -> None:
        """It is not needed any more."""
        if conn.info.transaction_status is TransactionStatus.IDLE:
            self._idle_sync.append(conn)
        else:
            conn.close()
        self._room_sync.release()

    async def complete(self, bridge: AsyncBridge, tasks: Sequence[Task[Any]], results: Results) -> None:
        """The fenced end; nothing may come between it and the commit."""
        statement, values = self._sql["complete"], _values(tasks, results)
        with self._ending():
            rows = await bridge.fetch(statement, values)
            if len(rows) < len(tasks):
                # A statement skips a row of running that somebody else moves meanwhile; a new one finds it.
                rows += await bridge.fetch(statement, values)
        _require(rows, tasks)

    def complete_sync(self, bridge: SyncBridge, tasks: Sequence[Task[Any]], results: Results) -> None:
        """The same, where calls block."""
        statement, values = self._sql["complete"], _values(tasks, results)
        with self._ending():
            rows = bridge.fetch(statement, values)
            if len(rows) < len(tasks):
                rows += bridge.fetch(statement, values)
        _require(rows, tasks)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Note that a fenced statement is under way."""
        mark = object()
        self._ending_since[mark] = time.monotonic()
        try:
            yield
        finally:
            del self._ending_since[mark]

    def _held_up(self) -> bool:
        """Whether a fenced statement takes so long that more connections would only wait beside it."""
        began = min(list(self._ending_since.values()), default=None)
        return began is not None and time.monotonic() - began > HELD_UP_SECONDS


class FinishBlock:
    """One use of `task.finish`: with `async with`, or with `with`."""

    def __init__(
        self, by: Finishing, tasks: Sequence[Task[Any]], results: Results, conn: object | None
    ) -> None:
        self._by = by
        self._tasks = tasks
        self._results = results
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
        try:
            return await self._work.__aenter__()
        except BaseException:
            if self._own is not None:
                await self._by.give(self._own)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bridge is not None, "it was entered"
        assert self._work is not None, "it was entered"
        try:
            if error is None:
                try:
                    await self._by.complete(self._bridge, self._tasks, self._results)
                except BaseException as refused:
                    await self._work.__aexit__(type(refused), refused, refused.__traceback__)
                    raise
                self._mark(uncertain=True)
                await self._work.__aexit__(None, None, None)
                self._mark(settled=True)
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
        try:
            return self._work_sync.__enter__()
        except BaseException:
            if self._own_sync is not None:
                self._by.give_sync(self._own_sync)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._bridge_sync is not None, "it was entered"
        assert self._work_sync is not None, "it was entered"
        try:
            if error is None:
                try:
                    self._by.complete_sync(self._bridge_sync, self._tasks, self._results)
                except BaseException as refused:
                    self._work_sync.__exit__(type(refused), refused, refused.__traceback__)
                    raise
                self._mark(uncertain=True)
                self._work_sync.__exit__(None, None, None)
                self._mark(settled=True)
            else:
                self._work_sync.__exit__(kind, error, trace)
        finally:
            if self._own_sync is not None:
                self._by.give_sync(self._own_sync)

    def _mark(self, *, uncertain: bool = False, settled: bool = False) -> None:
        for task in self._tasks:
            task.uncertain, task.settled = uncertain, settled


def _predecessors(rows: Iterable[tuple[Any, ...]]) -> list[Predecessor]:
    return [Predecessor(row[0], row[1], State(row[2]), *row[3:]) for row in rows]


def _values(tasks: Sequence[Task[Any]], results: Results) -> dict[str, object]:
    return {
        "ids": [task.id for task in tasks],
        "fences": [task.fence for task in tasks],
        "results": results,
        "now": None,
    }


def _require(rows: Rows, tasks: Sequence[Task[Any]]) -> None:
    landed = {str(row[0]) for row in rows}
    for task in tasks:
        if task.id not in landed:
            raise LeaseLost(task.id, task.fence)
