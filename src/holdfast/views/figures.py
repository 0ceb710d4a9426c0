"""The figures of the whole database for metrics."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.views.tasks import Browser, QueueView, Totals


@dataclass(frozen=True, slots=True)
class EndedCount:
    """What ended since the beginning, of one kind and in one way; it only grows."""

    kind: str
    ended_as: str
    tasks: int
    run_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """How things stand, and what has happened so far."""

    queues: Sequence[QueueView]
    totals: Totals
    settled: Sequence[EndedCount]
    workers_alive: int
    workers_lost: int
    # How many completed in a second, over the last five minutes.
    completed_rate: float
    # Whether there are more queues than these.
    queues_partial: bool = False

    @property
    def clear_seconds(self) -> float | None:
        """How long what is ready would take at that rate; nothing is known where nothing completes."""
        ready = sum(queue.ready + queue.behind for queue in self.queues)
        if not ready:
            return 0.0
        return ready / self.completed_rate if self.completed_rate else None


async def figures(conn: Conn, settings: Settings) -> Figures:
    """All of them, as of now."""
    sql, browser = load("views/counts.sql", settings.schema_name), Browser(settings)
    settled = [EndedCount(*row) for row in await (await conn.execute(sql["settled"])).fetchall()]
    row = await (await conn.execute(sql["pulse"])).fetchone()
    assert row is not None, "a select without a table always answers"
    queues, is_partial = await browser.some_queues(conn)
    return Figures(queues, await browser.totals(conn), settled, row[0], row[1], row[2], is_partial)
