"""Reading for people: lists of tasks, queues, workers, and why a task waits. Nothing here writes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.config import Settings
from holdfast.core.state import State
from holdfast.core.task import TaskView
from holdfast.store.pool import Conn
from holdfast.store.sql import load

_MARKED = (State.FAILED, State.CANCELLED, State.PAUSED)


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
        """The state as people see it: a queued task whose time is ahead is scheduled."""
        ahead = self.next_attempt_at is not None and self.next_attempt_at > datetime.now(UTC)
        return "scheduled" if self.state == State.QUEUED and ahead else self.state


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

    @property
    def paused(self) -> str:
        """Who paused it, why and until when, or nothing."""
        if self.paused_at is None:
            return ""
        until = f" until {self.paused_until:%H:%M} UTC" if self.paused_until else ""
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


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole in four figures."""

    failed: int
    paused: int
    completed_last_hour: int
    last_failure_at: datetime | None


class Browser:
    """The reads of the command line."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._sql = load("views.sql", (settings or Settings()).schema_name)

    async def tasks(  # noqa: PLR0913 (one for each filter)
        self,
        conn: Conn,
        *,
        state: State | None = None,
        kind: str | None = None,
        queue: str | None = None,
        subject: str | None = None,
        limit: int = 20,
        before: str | None = None,
    ) -> list[Listed]:
        """A page of tasks, the newest first; without a state, those that have not completed."""
        values: Mapping[str, object] = {
            "state": state,
            "kind": kind,
            "queue": queue,
            "subject": subject,
            "limit": limit,
            "before": before,
        }
        if state in _MARKED:
            name = "list_marked"
        else:
            name = "list_completed" if state is State.COMPLETED else "list_alive"
        cursor = await conn.execute(self._sql[name], values)
        return [Listed(*row) for row in await cursor.fetchall()]

    async def attempts(self, conn: Conn, task_id: str) -> list[tuple[object, ...]]:
        """Every claim of a task that ended otherwise than in success."""
        return await (await conn.execute(self._sql["attempts"], {"id": task_id})).fetchall()

    async def queues(self, conn: Conn) -> list[QueueView]:
        """Every queue that holds something, is paused or is served."""
        return [QueueView(*row) for row in await (await conn.execute(self._sql["queues"])).fetchall()]

    async def workers(self, conn: Conn) -> list[WorkerView]:
        """Every executor that is known."""
        return [WorkerView(*row) for row in await (await conn.execute(self._sql["workers"])).fetchall()]

    async def totals(self, conn: Conn) -> Totals:
        """The whole in four figures."""
        row = await (await conn.execute(self._sql["totals"])).fetchone()
        assert row is not None, "a select without a table always answers"
        return Totals(*row)

    async def why(self, conn: Conn, task: TaskView) -> list[str]:
        """Why a task has not ended, in sentences; the first is the one to look at."""
        match task.state:
            case State.COMPLETED:
                took = f"{task.execution_seconds or 0:.3f} s"
                return [f"it has completed, in {took} by worker {task.worker} under fence {task.fence}"]
            case State.FAILED:
                code = task.error.code if task.error else "no code"
                return [
                    f"it has failed for good ({task.dead_reason}, {code}): retry it when the cause is gone"
                ]
            case State.CANCELLED:
                return [f"it was cancelled: {task.mark_reason or 'no reason given'}"]
            case State.PAUSED:
                return [f"it was paused: {task.mark_reason or 'no reason given'}; resume it"]
            case State.RUNNING:
                return [f"it runs now, in worker {task.worker} under fence {task.fence}"]
            case State.QUEUED:
                return await self._queued(conn, task)

    async def _queued(self, conn: Conn, task: TaskView) -> list[str]:
        row = await (await conn.execute(self._sql["why"], {"id": task.id})).fetchone()
        if row is None:
            return ["it has just ended: ask again"]
        (ready, run_at, bucket, paused_at, paused_by, pause_reason, paused_until, parked_at, queue_paused_at,
         queue_by, queue_reason, queue_until, served, known, ahead, before, lane, limits) = row  # fmt: skip
        found: list[str] = []
        if run_at is not None and run_at > datetime.now(UTC):
            found.append(f"its time has not come: it may start at {run_at.isoformat(timespec='seconds')}")
        if queue_paused_at is not None:
            found.append(
                f"its queue {task.queue} is paused by {queue_by}: {queue_reason}{_until(queue_until)}"
            )
        if paused_at is not None:
            found.append(
                f"its kind {task.kind} is paused by {paused_by}: {pause_reason}{_until(paused_until)}"
            )
        if not served:
            found.append(
                f"no live worker serves its queue {task.queue}: start one with --queues {task.queue}"
            )
        elif not known or parked_at is not None:
            found.append(f"no live worker of its queue has a handler for its kind {task.kind}")
        if lane is not None:
            found.append(f"its lane {task.bucket} runs one at a time, and task {lane} comes first")
        found += [text for limit in limits if (text := _full(*limit))]
        if ready and ahead:
            found.append(f"{ahead}{'+' if ahead >= 10_000 else ''} tasks of its queue come before it")
        if before and lane is None:
            found.append(f"{before}{'+' if before >= 10_000 else ''} tasks behind {bucket} come before it")
        return found or ["nothing stands in its way: it is about to start"]


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f", until {moment.isoformat(timespec='seconds')}"


def _full(
    name: str,
    capacity: int | None,
    count: int | None,
    seconds: float | None,
    spent: bool | None,  # noqa: FBT001
    holders: Mapping[str, int] | None,
) -> str | None:
    """The sentence about a limit that is full."""
    held = holders or {}
    if capacity is not None and sum(held.values()) >= capacity:
        who = ", ".join(f"{worker} ({slots})" for worker, slots in held.items()) or "nobody"
        return f"the limit of {name}, {capacity} at once, is full: held by {who}"
    if spent:
        return f"the rate of {name}, {count} in {seconds:g} s, is spent for now"
    return None
