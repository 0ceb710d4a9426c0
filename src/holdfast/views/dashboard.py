"""Data for the dashboard: what ended when, usual rates, new failures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.views.counts import EXACT_MAX, Samples
from holdfast.views.tasks import QUEUES_MAX, QueueView

CHANGES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DatabaseView:
    """Which database this is."""

    name: str
    host: str | None
    port: int | None
    standby: bool
    version: str
    schema_number: int
    now: datetime


@dataclass(frozen=True, slots=True)
class Ended:
    """What ended in a stretch of time that begins then."""

    at: datetime
    completed: int
    retried: int
    failed: int


@dataclass(frozen=True, slots=True)
class Compared:
    """How things go, beside what is usual."""

    ended: int
    failed: int
    ended_yesterday: int
    failed_yesterday: int
    failed_hour: int
    refused_hour: int
    failed_hour_usual: float
    # Whether there was a day before: otherwise nothing is usual yet.
    known_yesterday: bool
    # When anything ended last, of what was not rolled up yet.
    last_ended_at: datetime | None

    @property
    def failure_rate(self) -> float | None:
        """Of what ended in the last quarter of an hour, how much failed."""
        return self.failed / self.ended if self.ended else None

    @property
    def failure_rate_yesterday(self) -> float | None:
        """The same of the hour a day ago."""
        known = self.known_yesterday and self.ended_yesterday
        return self.failed_yesterday / self.ended_yesterday if known else None


@dataclass(frozen=True, slots=True)
class Change:
    """Something new: a release, a lost worker, a cause."""

    at: datetime
    what: str
    name: str
    detail: str | None
    kind: str | None


@dataclass(frozen=True, slots=True)
class KindView:
    """A kind: what waits and runs of it, and what ended in the last hour."""

    name: str
    ready: int
    scheduled: int
    running: int
    dead: int
    completed: int
    retried: int
    failed: int
    mean_seconds: float | None
    # Of many thousands: when they were counted. Where they were not counted yet, there are at least so many.
    counted_at: datetime | None = None
    exact: bool = True
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether a queue grows, and how old its oldest usually is."""

    # Over about five minutes, and over the last one or two.
    growth_per_minute: float | None
    lately_per_minute: float | None
    usual_oldest_seconds: float | None


class Dashboard:
    """The figures of the board."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("views/dashboard.sql", settings.schema_name)
        self._samples = Samples(settings)

    async def database(self, conn: Conn) -> DatabaseView:
        """Which database answers."""
        row = await (await conn.execute(self._sql["database"])).fetchone()
        assert row is not None, "a select without a table always answers"
        return DatabaseView(*row)

    async def series(self, conn: Conn, seconds: float, step: float) -> list[Ended]:
        """What ended in each stretch; one without anything is not there."""
        cursor = await conn.execute(self._sql["series"], {"seconds": seconds, "step": step})
        return [
            Ended(at, done or 0, again or 0, failed or 0)
            for at, done, again, failed in await cursor.fetchall()
        ]

    async def compared(self, conn: Conn) -> Compared:
        """Now, and what is usual."""
        row = await (await conn.execute(self._sql["compared"])).fetchone()
        assert row is not None, "a sum always answers"
        return Compared(*row)

    async def changes(self, conn: Conn, seconds: float) -> list[Change]:
        """What was new in so many seconds, the newest first."""
        cursor = await conn.execute(self._sql["changes"], {"seconds": seconds, "limit": CHANGES_SHOWN})
        return [Change(*row) for row in await cursor.fetchall()]

    async def kinds(self, conn: Conn, dead: Mapping[str, int]) -> list[KindView]:
        """Every kind that waits, runs, died or ended within the hour; `dead` are dead letters by kind."""
        most = {"most": EXACT_MAX}
        waiting: Mapping[str, Sequence[int]] = {
            kind: counts
            for kind, *counts in await (await conn.execute(self._sql["count_some_kinds"], most)).fetchall()
        }
        counted_at, exact = None, True
        if sum(map(sum, waiting.values())) > EXACT_MAX:
            exact = False
            counted_at, sampled = await self._samples.kinds(conn)
            waiting = sampled or waiting
        running: dict[str, int] = dict(
            await (await conn.execute(self._sql["running_kinds"], most)).fetchall()
        )
        ended = {
            kind: counts
            for kind, *counts in await (await conn.execute(self._sql["ended_by_kind"])).fetchall()
        }
        paused = {
            kind: facts for kind, *facts in await (await conn.execute(self._sql["paused_kinds"])).fetchall()
        }
        found = []
        for name in sorted({*waiting, *running, *ended, *dead, *paused}):
            ready, scheduled = waiting.get(name, (0, 0))
            completed, retried, failed, mean = ended.get(name, (0, 0, 0, None))
            found.append(
                KindView(
                    name,
                    ready,
                    scheduled,
                    running.get(name, 0),
                    dead.get(name, 0),
                    completed,
                    retried,
                    failed,
                    mean,
                    counted_at,
                    exact,
                    *paused.get(name, ()),
                )
            )
        return found

    async def lost(self, conn: Conn) -> tuple[int, datetime | None]:
        """How many workers were lost in a day, and when the last was."""
        row = await (await conn.execute(self._sql["lost"])).fetchone()
        assert row is not None, "a count always answers"
        return row[0], row[1]

    async def trends(self, conn: Conn, queues: Sequence[QueueView]) -> dict[str, Trend]:
        """How each queue goes; nothing is known where nobody noted it."""
        now = {queue.name: queue for queue in queues}
        rows = await (await conn.execute(self._sql["queue_trends"], {"queues": list(now)})).fetchall()
        return {
            name: Trend(_growth(now[name], before), _growth(now[name], lately), usual)
            for name, before, lately, usual in rows
        }


def _growth(queue: QueueView, before: Sequence[Any] | None) -> float | None:
    """By how many it has grown in a minute since then; two looks at one count say nothing."""
    if before is None:
        return None
    waiting, seconds, counted_at = before
    if None not in (queue.counted_at, counted_at) and datetime.fromisoformat(counted_at) == queue.counted_at:
        return None
    grown: float = (queue.ready + queue.behind - waiting) * 60 / seconds
    return grown


async def note_queues(conn: Conn, settings: Settings) -> None:
    """Write down what waits in each queue this minute, as it was counted last."""
    sample = await Samples(settings).queues(conn)
    counted = {name: sample.of(name) for name in sample.figures}
    values = {
        "queues": list(counted),
        "waiting": [ready + behind for ready, _, behind in counted.values()],
        "oldest": [sample.oldest_seconds(name) for name in counted],
        "counted_at": sample.at,
        "queues_max": QUEUES_MAX,
    }
    await conn.execute(load("views/dashboard.sql", settings.schema_name)["note_queues"], values)
