"""Samples counts that are too expensive to compute for every reader."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load

# Up to so many are counted at once, and the figure is exact.
EXACT_MAX = 10_000
# A count that takes a second is taken every fifty.
SHARE = 50.0
QUEUES, MARKED, KINDS = "queues", "marked", "kinds"

Rows: TypeAlias = Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class QueueSample:
    """How many waited in each queue: ready, scheduled, behind buckets; and how old the oldest was."""

    at: datetime | None
    figures: Mapping[str, Sequence[Any]]

    def of(self, queue: str) -> Sequence[int]:
        """Of one queue."""
        return self.figures.get(queue, (0, 0, 0))[:3]

    def oldest_seconds(self, queue: str) -> float | None:
        """The age of what could have started first."""
        # What an earlier version counted had no age.
        return next(iter(self.figures[queue][3:]), None)


@dataclass(frozen=True, slots=True)
class MarkedSample:
    """How many had which mark, kind, class and reason."""

    at: datetime | None
    figures: Sequence[tuple[str, str, str | None, str | None, int]]

    def of(self, mark: str) -> int:
        """With one mark."""
        return sum(tasks for marked, _, _, _, tasks in self.figures if marked == mark)


def larger(counted: int, sampled: int) -> int:
    """A figure that stopped at what is counted at once is at least that; what was sampled may be old."""
    return counted if counted <= EXACT_MAX else max(counted, sampled)


class Samples:
    """The samples of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("views/counts.sql", settings.schema_name)

    async def take(self, conn: Conn) -> None:
        """Count again what was not counted for so long that it costs next to nothing."""
        await self._take(conn, "count_waiting", {QUEUES: _by_queue, KINDS: _by_kind})
        await self._take(conn, "count_marked", {MARKED: list})

    async def _take(
        self, conn: Conn, statement: str, samples: Mapping[str, Callable[[Rows], object]]
    ) -> None:
        first = next(iter(samples))
        row = await (await conn.execute(self._sql["sample_age"], {"name": first})).fetchone()
        if row is not None and row[0] < row[1] * SHARE:
            return
        began = time.monotonic()
        async with conn.transaction():
            await conn.execute(self._sql["count_freely"])
            rows = await (await conn.execute(self._sql[statement])).fetchall()
        took = time.monotonic() - began
        for name, figures in samples.items():
            values = {"name": name, "figures": json.dumps(figures(rows)), "took": took}
            await conn.execute(self._sql["sample"], values)

    async def queues(self, conn: Conn) -> QueueSample:
        """What waited where, when it was counted last."""
        row = await (await conn.execute(self._sql["sampled"], {"name": QUEUES})).fetchone()
        return QueueSample(None, {}) if row is None else QueueSample(row[1], row[0])

    async def kinds(self, conn: Conn) -> tuple[datetime | None, Mapping[str, Sequence[int]]]:
        """What waited of each kind then: ready and scheduled."""
        row = await (await conn.execute(self._sql["sampled"], {"name": KINDS})).fetchone()
        return (None, {}) if row is None else (row[1], row[0])

    async def marked(self, conn: Conn) -> MarkedSample:
        """What had marks then."""
        row = await (await conn.execute(self._sql["sampled"], {"name": MARKED})).fetchone()
        return MarkedSample(None, []) if row is None else MarkedSample(row[1], row[0])


def _by_queue(rows: Rows) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for queue, _, ready, scheduled, behind, oldest in rows:
        figures = found.setdefault(queue, [0, 0, 0, None])
        figures[:3] = figures[0] + ready, figures[1] + scheduled, figures[2] + behind
        figures[3] = max((age for age in (figures[3], oldest) if age is not None), default=None)
    return found


def _by_kind(rows: Rows) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for _, kind, ready, scheduled, behind, _ in rows:
        figures = found.setdefault(kind, [0, 0])
        figures[:] = figures[0] + ready + behind, figures[1] + scheduled
    return found
