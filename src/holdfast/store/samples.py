"""Counts of what is too many to count for whoever asks: taken now and then, shown with their time."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdfast.config import Settings
from holdfast.store.pool import Conn
from holdfast.store.sql import load

# Up to so many are counted at once, and the figure is exact.
EXACT_MAX = 10_000
# A count that takes a second is taken every fifty.
SHARE = 50.0
QUEUES, MARKED, KINDS = "queues", "marked", "kinds"


@dataclass(frozen=True, slots=True)
class QueueSample:
    """How many waited in each queue: ready, scheduled, behind buckets."""

    at: datetime | None
    figures: Mapping[str, Sequence[int]]

    def of(self, queue: str) -> Sequence[int]:
        """Of one queue."""
        return self.figures.get(queue, (0, 0, 0))


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
        self._sql = load("counts.sql", settings.schema_name)

    async def take(self, conn: Conn) -> None:
        """Count again what was not counted for so long that it costs next to nothing."""
        for name, statement in ((QUEUES, "count_queues"), (MARKED, "count_marked"), (KINDS, "count_kinds")):
            row = await (await conn.execute(self._sql["sample_age"], {"name": name})).fetchone()
            if row is not None and row[0] < row[1] * SHARE:
                continue
            began = time.monotonic()
            rows = await (await conn.execute(self._sql[statement])).fetchall()
            took = time.monotonic() - began
            figures = json.dumps({row[0]: row[1:] for row in rows} if name != MARKED else rows)
            await conn.execute(self._sql["sample"], {"name": name, "figures": figures, "took": took})

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
