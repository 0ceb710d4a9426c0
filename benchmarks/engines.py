"""Two engines behind one small face, so that the same loop drives both: ours and the frozen yardstick.

The client is minimal on purpose: one connection, arrays passed as text, no decoding of payloads.
"""

import asyncio
import random
import string
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.rows import TupleRow
from uuid_utils import uuid7

from holdfast.db.connect import PINNED
from holdfast.db.migrate import migrate_up
from holdfast.db.statements import load_all
from holdfast.store.claim import Snapshot
from holdfast.worker.executor.floor import Floor, Sweep

KINDS = 10


@dataclass(frozen=True, slots=True)
class Taken:
    """The claims of one statement, as the arrays that completing wants."""

    ids: str
    fences: str
    count: int


STATEMENTS = ("store/enqueue.sql", "store/claim.sql", "store/settle.sql", "store/workers.sql")


class Engine(Protocol):
    """What the loops need."""

    def enqueue(self, tasks: int) -> None:
        """Add tasks in one statement."""

    def claim(self, limit: int) -> Taken:
        """Take up to so many."""

    def complete(self, taken: Taken) -> int:
        """Finish them; answers how many were accepted."""


def payload_of(size: int) -> str:
    """JSON of about the given size; large ones do not compress."""
    letters = random.Random(size)
    filler = "".join(letters.choices(string.ascii_letters + string.digits, k=max(0, size - 60)))
    return '{"episode": 7, "shot": 3, "note": "' + filler + '"}'


class Frozen:
    """The frozen statements, with their watermark rule."""

    name = "frozen"

    def __init__(self, conn: Connection[TupleRow], queue: str, payload: str) -> None:
        self._cursor = conn.cursor(binary=True)
        self._sql = _named(Path(__file__).parent / "frozen.sql")
        # The statement is frozen; the client is the same for both and sends text in binary.
        self._sql["enqueue"] = self._sql["enqueue"].replace("s::text[]", "b::text[]")
        self._queue, self._payload = queue, payload
        self._floor = datetime(1, 1, 1, tzinfo=UTC)
        self._rescan_at = 0.0

    @staticmethod
    def install(conn: Connection[TupleRow]) -> None:
        """Make its tables."""
        conn.execute("drop schema if exists frozen cascade")
        conn.execute(_named(Path(__file__).parent / "frozen.sql")["schema"])

    def enqueue(self, tasks: int) -> None:
        """Add tasks in one statement."""
        self._cursor.execute(
            self._sql["enqueue"],
            {
                "queue": self._queue,
                "kinds": [f"kind.{i % KINDS}" for i in range(tasks)],
                "payloads": [self._payload] * tasks,
                "traces": [f"trace-{i:06}" for i in range(tasks)],
            },
            prepare=True,
        )

    def claim(self, limit: int) -> Taken:
        """Take up to so many."""
        began = time.monotonic()
        rescan = began >= self._rescan_at
        floor = datetime(1, 1, 1, tzinfo=UTC) if rescan else self._floor
        self._cursor.execute(
            self._sql["claim"],
            {
                "lanes": [0, 1, 2, 3],
                "floors": [floor] * 4,
                "queue": self._queue,
                "limit": limit,
                "worker": "bench",
            },
            prepare=True,
        )
        rows = self._cursor.fetchall()
        if rescan:
            self._rescan_at = time.monotonic() + max(1.0, 30 * (time.monotonic() - began))
        elif rows:
            self._floor = min(row[8] for row in rows)
        ids = "{" + ",".join(row[0] for row in rows) + "}"
        return Taken(ids, "{" + ",".join(str(row[6]) for row in rows) + "}", len(rows))

    def complete(self, taken: Taken) -> int:
        """Finish them."""
        self._cursor.execute(self._sql["complete"], {"ids": taken.ids, "tokens": taken.fences}, prepare=True)
        return len(self._cursor.fetchall())


class Ours:
    """Holdfast's own statements, with its floor and sweep."""

    name = "holdfast"

    def __init__(
        self, conn: Connection[TupleRow], queue: str, payload: str, schema: str = "holdfast"
    ) -> None:
        self._cursor = conn.cursor(binary=True)
        self._sql = load_all(STATEMENTS, schema)
        self._queue, self._payload = queue, payload
        self._worker = str(uuid4())
        self._floor = Floor([queue])
        self._sweep = Sweep(self._floor)
        self.slowest_sweep_seconds = 0.0
        conn.execute(
            self._sql["register_worker"],
            {
                "worker": self._worker,
                "name": "bench",
                "lease": 3600,
                "queues": [queue],
                "kinds": [],
                "release": None,
            },
        )

    @staticmethod
    def install(conn: Connection[TupleRow], schema: str = "holdfast") -> None:
        """Make its tables."""
        # What a killed worker had begun goes on until the server notices.
        conn.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = current_database() and application_name like 'holdfast%'"
        )
        conn.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))
        asyncio.run(_migrate(conn.info.dsn, schema))

    def enqueue(self, tasks: int) -> None:
        """Add tasks in one statement."""
        values: dict[str, object] = dict.fromkeys(
            (
                "run_ats",
                "versions",
                "subjects",
                "keys",
                "uniques",
                "expires_ats",
                "bucket_names",
                "attempts_max",
                "timeouts",
                "priorities",
            )
        )
        values |= {
            "ids": [str(uuid7()) for _ in range(tasks)],
            "kinds": [f"kind.{i % KINDS}" for i in range(tasks)],
            "payloads": [self._payload] * tasks,
            "queues": [self._queue],
            "trace_ids": [f"trace-{i:06}" for i in range(tasks)],
            "key_seconds": 86400.0,
            "hints": True,
        }
        self._cursor.execute(self._sql["enqueue_many"], values, prepare=True)

    def claim(self, limit: int) -> Taken:
        """Take up to so many; a slice of the sweep comes first when it is due."""
        if self._sweep.due(time.monotonic()):
            swept = self._sweep_once(limit)
            if swept.count:
                return swept
        ranges = self._floor.ranges()
        rows = self._claim(
            limit,
            [r.queue for r in ranges],
            [r.priority for r in ranges],
            [r.start for r in ranges],
            [r.end for r in ranges],
        )
        head, *claims = rows
        seen = Snapshot(head[1], head[19], head[8])
        self._floor.learn(
            seen, [(row[3], row[4], row[7]) for row in claims], full=len(claims) + head[16] >= limit
        )
        return _taken(claims)

    def _claim(
        self, limit: int, queues: list[str], priorities: list[int], froms: list[datetime], tos: list[datetime]
    ) -> list[TupleRow]:
        self._cursor.execute(
            self._sql["claim"],
            {
                "queues": queues,
                "priorities": priorities,
                "froms": froms,
                "tos": tos,
                "limit": limit,
                "at_once": limit,
                "kinds": [f"kind.{i}" for i in range(KINDS)],
                "generation": 0,
                "line": False,
                "timeout": 600.0,
                "worker": self._worker,
            },
            prepare=True,
        )
        return self._cursor.fetchall()

    def _sweep_once(self, limit: int) -> Taken:
        now = time.monotonic()
        if not self._sweep.walking:
            self._cursor.execute(
                self._sql["take_sweep"],
                {"queues": [self._queue], "every": self._sweep.walk_seconds},
                prepare=True,
            )
            self._sweep.begin([queue for (queue,) in self._cursor.fetchall()], now)
            if not self._sweep.walking:
                return Taken("{}", "{}", 0)
        ranges = self._sweep.slice()
        rows: list[TupleRow] = []
        if ranges:
            _, *rows = self._claim(
                limit,
                [r.queue for r in ranges],
                [r.priority for r in ranges],
                [r.start for r in ranges],
                [r.end for r in ranges],
            )
        cost = time.monotonic() - now
        self.slowest_sweep_seconds = max(self.slowest_sweep_seconds, cost)
        self._sweep.learn(cost, time.monotonic())
        return _taken(rows)

    def complete(self, taken: Taken) -> int:
        """Finish them."""
        self._cursor.execute(
            self._sql["complete"],
            {"ids": taken.ids, "fences": taken.fences, "results": None, "now": None},
            prepare=True,
        )
        return len(self._cursor.fetchall())


def _taken(rows: list[TupleRow]) -> Taken:
    return Taken(
        "{" + ",".join(row[0] for row in rows) + "}",
        "{" + ",".join(str(row[1]) for row in rows) + "}",
        len(rows),
    )


def _named(path: Path) -> dict[str, str]:
    parts = path.read_text().split("-- name: ")[1:]
    return {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1] for part in parts}


def engine_for(name: str, conn: Connection[TupleRow], queue: str, payload: str) -> Engine:
    """The frozen yardstick by its name; any other name is the schema of an installation of ours."""
    if name == Frozen.name:
        return Frozen(conn, queue, payload)
    return Ours(conn, queue, payload, name)


def connect(url: str) -> Connection[TupleRow]:
    """A connection as the minimal client wants it."""
    return psycopg.connect(url, autocommit=True, options=PINNED)


async def _migrate(url: str, schema: str) -> None:
    async with await AsyncConnection.connect(url, autocommit=True) as conn:
        await migrate_up(conn, schema)
