"""A worker at work while another session locks one of its tables, and what is seen of that from outside."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from psycopg import sql

from holdfast.config import Settings
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect
from holdfast.store.store import Store
from tests.locks.app import KINDS
from tests.tree import Tree, until, until_true

APPLICATION = "migration of the test"
LOOK_SECONDS = 0.1
# The minute before a lock is what it is compared with.
BEFORE_SECONDS_MAX = 60.0
TASKS_PER_SECOND = 30
GROUPS = 8
RESUMED_SECONDS_MAX = 2.0
MORE_BACKENDS_MAX = 3
# Lines that say of a lock that something else was the matter.
WRONG = (
    "database.lost",
    "database.statement_failed",
    "worker.lease_lost",
    "worker.lease_at_risk",
    "worker.lost",
)
_BACKENDS = """
select count(*), count(*) filter (where wait_event_type = 'Lock')
from pg_stat_activity
where datname = current_database() and application_name like 'holdfast %'
"""


@dataclass(slots=True)
class Seen:
    """What one lock did."""

    table: str
    seconds: float
    before: int
    executors: int
    during: int = 0
    # With the backlog that the lock left: `task.finish` opens up to its ten connections then.
    after: int = 0
    waited: int = 0
    resumed_seconds: float = float("inf")
    lines: list[dict[str, object]] = field(default_factory=list)

    def misses(self) -> list[str]:
        """What is not as promised."""
        named = [line for line in self.lines if line["event"] == "database.locked"]
        told = [line for line in named if self._names_the_cause(line)]
        over = [line for line in self.lines if line["event"] == "database.unlocked"]
        wrong = [str(line["event"]) for line in self.lines if line["event"] in WRONG]
        found = [f"{len(wrong)} lines blame something else: {sorted(set(wrong))}"] if wrong else []
        if self.during > self.before + MORE_BACKENDS_MAX * self.executors:
            found.append(f"{self.during - self.before} more backends of {self.executors} executors")
        if self.resumed_seconds > RESUMED_SECONDS_MAX:
            found.append(f"resumed after {self.resumed_seconds:.1f} s")
        if len(named) > 1 or len(over) != len(named) or told != named:
            found.append(f"{len(named)} lines name a cause, {len(over)} its end: {named + over}")
        return found

    def _names_the_cause(self, line: dict[str, object]) -> bool:
        return line["application"] == APPLICATION and f"holdfast.{self.table}" in str(line["locked"])


class Scene:
    """Tasks of every kind come and run; `lock` looks what a lock does to that."""

    def __init__(self, conn: Conn, url: str, tree: Tree, executors: int) -> None:
        self._conn = conn
        self._url = url
        self._tree = tree
        self._executors = executors
        # When, how many backends the worker had, how many of them waited for a lock.
        self._samples: list[tuple[float, int, int]] = []
        self.enqueued = 0

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Enqueue until the end; a lock may hold that up, too."""
        stop = asyncio.Event()
        beside = [asyncio.create_task(self._produce(stop)), asyncio.create_task(self._look_on(stop))]
        try:
            await until(lambda: self._started_since(0.0) >= set(KINDS), what="every kind")
            await until(
                lambda: len({effect.pid for effect in self._tree.effects()}) == self._executors,
                what="every executor",
            )
            yield
        finally:
            stop.set()
            await asyncio.gather(*beside)

    async def lock(self, table: str, seconds: float, before_seconds: float) -> Seen:
        """Hold a table exclusively for so long."""
        await asyncio.sleep(before_seconds)
        locked = time.monotonic()
        seen = Seen(table, seconds, self._most(locked - BEFORE_SECONDS_MAX, locked)[0], self._executors)
        lines = len(self._tree.lines())
        async with await connect(self._url, application=APPLICATION) as other:
            async with other.transaction():
                name = sql.Identifier("holdfast", table)
                await other.execute(sql.SQL("lock table {} in access exclusive mode").format(name))
                await asyncio.sleep(seconds)
            released = time.monotonic()
            seen.during, seen.waited = self._most(locked, released)
            with suppress(AssertionError):
                await until(lambda: self._started_since(released) >= set(KINDS), 30, "every kind again")
                seen.resumed_seconds = time.monotonic() - released
        named = [line for line in self._tree.lines()[lines:] if line["event"] == "database.locked"]
        if named:
            with suppress(AssertionError):
                await until(lambda: self._over(lines), 5, "the line that says that it is over")
        await asyncio.sleep(RESUMED_SECONDS_MAX)
        seen.after, _ = self._most(released, time.monotonic())
        seen.lines = [line for line in self._tree.lines()[lines:] if _is_of_locks(line)]
        return seen

    async def ended(self) -> dict[str, object]:
        """Wait until everything has ended; how it did."""

        async def done() -> bool:
            return await self._one("select count(*) from holdfast.task_history") == self.enqueued

        await until_true(done, 60, "the end of all tasks")
        row = await self._one(
            "select json_object_agg(ended_as || coalesce(' ' || reason, ''), n) from"
            " (select ended_as, reason, count(*) n from holdfast.task_attempts group by 1, 2) x"
        )
        return {
            "tasks": self.enqueued,
            "attempts at most": await self._one("select max(attempts) from holdfast.task_history"),
            "failures at most": await self._one("select max(failures) from holdfast.task_history"),
            "ended otherwise": row,
        }

    def _over(self, lines: int) -> bool:
        return any(line["event"] == "database.unlocked" for line in self._tree.lines()[lines:])

    def _started_since(self, moment: float) -> set[str]:
        return {effect.kind for effect in self._tree.effects() if effect.at > moment}

    def _most(self, since: float, until_then: float) -> tuple[int, int]:
        """The most backends of the worker between two moments, and the most that waited for a lock."""
        found = [(held, waited) for at, held, waited in self._samples if since <= at <= until_then]
        return max(held for held, _ in found), max(waited for _, waited in found)

    async def _look_on(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            row = await (await self._conn.execute(_BACKENDS)).fetchone()
            assert row is not None
            self._samples.append((time.monotonic(), *row))
            await asyncio.sleep(LOOK_SECONDS)

    async def _one(self, query: str) -> object:
        row = await (await self._conn.execute(query.encode())).fetchone()
        assert row is not None
        return row[0]

    async def _produce(self, stop: asyncio.Event) -> None:
        store = Store(Settings(database_url=self._url))
        async with await connect(self._url, application="producer of the test") as conn:
            while not stop.is_set():
                tasks = [self._task(kind) for kind in KINDS]
                await store.enqueue_many(conn, tasks)
                self.enqueued += len(tasks)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), len(tasks) / TASKS_PER_SECOND)

    def _task(self, kind: str) -> NewTask:
        if kind != "keyed":
            return NewTask(kind)
        group = self.enqueued % GROUPS
        return NewTask(kind, json.dumps({"group": group}), bucket=f"keyed/group={group}")


def _is_of_locks(line: dict[str, object]) -> bool:
    return str(line["event"]).startswith("database.") or line["event"] in WRONG
