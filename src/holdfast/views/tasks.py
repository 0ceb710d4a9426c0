"""Lists tasks, queues and workers for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

from holdfast.config import Settings
from holdfast.core.state import State
from holdfast.core.task import shown_state
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.views.counts import EXACT_MAX, QueueSample, Samples, larger

T = TypeVar("T")
WORKERS_MAX = 1_000
QUEUES_MAX = 500
ATTEMPTS_MAX = 200
# For one page no more than these are looked at: nobody who asks has millions searched for a rare one.
LOOK = 20_000
_LISTS: Mapping[State | None, str] = {
    State.FAILED: "list_marked",
    State.CANCELLED: "list_marked",
    State.PAUSED: "list_marked",
    State.COMPLETED: "list_completed",
    State.RUNNING: "list_running",
}


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list."""

    id: str
    kind: str
    queue: str
    state: str
    attempts: int
    failures: int
    subject: str | None
    trace_id: str | None
    enqueued_at: datetime
    next_attempt_at: datetime | None
    ended_at: datetime | None
    dead_reason: str | None
    error_code: str | None
    error: str | None

    @property
    def shown_state(self) -> str:
        """The state as people see it."""
        return shown_state(self.state, self.next_attempt_at)


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """A page of a list: what asks for the one below, and whether there may be more where nobody looked."""

    items: Sequence[T]
    next: str | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True)
class AttemptView:
    """A claim that ended otherwise than in success; its worker has a name as long as it is known."""

    fence: int
    ended_as: str
    started_at: datetime | None
    ended_at: datetime
    error_code: str | None
    message: str | None
    worker: str | None
    worker_name: str | None
    release: str | None
    progress: float | None
    failure_class: str | None


@dataclass(frozen=True, slots=True)
class QueueView:
    """One queue with what waits in it."""

    name: str
    ready: int
    scheduled: int
    behind: int
    running: int
    oldest_at: datetime | None
    workers: int
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    # Of many thousands: when there were so many. Where they were not counted yet, there are at least so many.
    counted_at: datetime | None = None
    exact: bool = True

    @property
    def paused(self) -> str:
        """Who paused it, why and until when, or nothing."""
        if self.paused_at is None:
            return ""
        until = f" until {self.paused_until.astimezone(UTC):%H:%M} UTC" if self.paused_until else ""
        return f"by {self.paused_by}: {self.pause_reason}{until}"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One executor."""

    id: str
    name: str
    registered_at: datetime
    lease_expires_at: datetime
    lost_at: datetime | None
    queues: list[str]
    kinds: list[str]
    running: int
    outside: bool
    release: str | None


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole in four figures."""

    failed: int
    paused: int
    completed_last_hour: int
    last_failure_at: datetime | None
    counted_at: datetime | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class WaitingLong:
    """A task that could start and has not."""

    id: str
    kind: str
    queue: str
    since: datetime
    error: str | None


class Browser:
    """The reads of the command line."""

    def __init__(self, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self._sql = load("views/tasks.sql", settings.schema_name)
        self._samples = Samples(settings)

    async def tasks(  # noqa: PLR0913 (one for each filter)
        self,
        conn: Conn,
        *,
        state: State | None = None,
        kind: str | None = None,
        queue: str | None = None,
        subject: str | None = None,
        trace: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> Found[Listed]:
        """A page of tasks, the newest first; without a state, those that have not completed."""
        values: Mapping[str, object] = {
            "state": state,
            "kind": kind,
            "queue": queue,
            "subject": subject,
            "trace": trace,
            "limit": limit,
            "before": before,
            "look": LOOK,
        }
        name = _LISTS.get(state, "list_alive")
        cursor = await conn.execute(self._sql[name], values)
        items = [Listed(*row) for row in await cursor.fetchall()]
        if len(items) == limit:
            return Found(items, items[-1].id)
        # What it asks for is rare: it may be below where the look ended.
        edge = await (await conn.execute(self._sql[f"{name}_edge"], values)).fetchone()
        return Found(items) if edge is None else Found(items, edge[0], partial=True)

    async def attempts(self, conn: Conn, task_id: str) -> list[AttemptView]:
        """The latest claims of a task that ended otherwise than in success."""
        cursor = await conn.execute(self._sql["attempts"], {"id": task_id, "limit": ATTEMPTS_MAX})
        return [AttemptView(*row) for row in await cursor.fetchall()]

    async def count_attempts(self, conn: Conn, task_id: str) -> int:
        """How many such claims there are, as far as they are counted."""
        values = {"id": task_id, "most": EXACT_MAX}
        row = await (await conn.execute(self._sql["count_attempts"], values)).fetchone()
        assert row is not None, "a count always answers"
        counted: int = row[0]
        return counted

    async def queues(self, conn: Conn) -> list[QueueView]:
        """Every queue that holds something, is paused or is served, as far as a list goes."""
        return (await self.some_queues(conn))[0]

    async def some_queues(self, conn: Conn) -> tuple[list[QueueView], bool]:
        """The same, and whether there are more: those that workers of ours serve come first."""
        values = {"most": EXACT_MAX, "queues_max": QUEUES_MAX}
        rows = await (await conn.execute(self._sql["queues"], values)).fetchall()
        is_partial = len(rows) > QUEUES_MAX
        found = [QueueView(*row) for row in rows[:QUEUES_MAX]]
        if all(max(view.ready, view.scheduled, view.behind) <= EXACT_MAX for view in found):
            return found, is_partial
        sample = await self._samples.queues(conn)
        return [_with_sample(view, sample) for view in found], is_partial

    async def workers(self, conn: Conn) -> list[WorkerView]:
        """Every executor that is known, as far as a list goes."""
        cursor = await conn.execute(self._sql["workers"], {"limit": WORKERS_MAX})
        return [WorkerView(*row) for row in await cursor.fetchall()]

    async def totals(self, conn: Conn) -> Totals:
        """The whole in four figures."""
        row = await (await conn.execute(self._sql["totals"], {"most": EXACT_MAX})).fetchone()
        assert row is not None, "a select without a table always answers"
        totals = Totals(*row)
        if max(totals.failed, totals.paused) <= EXACT_MAX:
            return totals
        sample = await self._samples.marked(conn)
        return replace(
            totals,
            failed=larger(totals.failed, sample.of("failed")),
            paused=larger(totals.paused, sample.of("paused")),
            counted_at=sample.at,
            exact=False,
        )

    async def waiting_long(self, conn: Conn, seconds: float, limit: int = 5) -> list[WaitingLong]:
        """Tasks that could start and have not for so long, the oldest first, with their last error."""
        cursor = await conn.execute(self._sql["waiting_long"], {"seconds": seconds, "limit": limit})
        return [WaitingLong(*row) for row in await cursor.fetchall()]


def _with_sample(view: QueueView, sample: QueueSample) -> QueueView:
    """What is too many to count now is as many as when it was counted last."""
    if max(view.ready, view.scheduled, view.behind) <= EXACT_MAX:
        return view
    ready, scheduled, behind = sample.of(view.name)
    return replace(
        view,
        ready=larger(view.ready, ready),
        scheduled=larger(view.scheduled, scheduled),
        behind=larger(view.behind, behind),
        counted_at=sample.at,
        exact=False,
    )
