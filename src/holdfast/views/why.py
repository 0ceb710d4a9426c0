"""Explains why a task is not running, the most important cause first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from holdfast.config import Settings
from holdfast.core.state import State
from holdfast.core.task import TaskView
from holdfast.db.connect import Conn
from holdfast.db.statements import load

COUNT_MAX = 10_000
_MARKED = (State.FAILED, State.CANCELLED, State.PAUSED)
_REPAIR = "run `holdfast doctor --repair --reason …`"


class WaitCause(StrEnum):
    """Everything that can be the answer."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    RUNNING = "running"
    ENDED = "ended"
    SCHEDULED = "scheduled"
    BACKING_OFF = "backing_off"
    SNOOZED = "snoozed"
    STRANDED = "stranded"
    AFTER_OTHERS = "after_others"
    QUEUE_PAUSED = "queue_paused"
    KIND_PAUSED = "kind_paused"
    NO_WORKER = "no_worker"
    NO_HANDLER = "no_handler"
    LANE = "lane"
    LIMIT_FULL = "limit_full"
    RATE_SPENT = "rate_spent"
    OTHERS_AHEAD = "others_ahead"
    ABOUT_TO_START = "about_to_start"


class Reason(NamedTuple):
    """One cause, and the sentence for people."""

    cause: WaitCause
    text: str


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the statement `why` answers, in its order."""

    has_row: bool
    ready: bool
    run_at: datetime | None
    ahead_of_clock: bool | None
    bucket: str | None
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    paused_until: datetime | None
    unserved_at: datetime | None
    queue_paused_at: datetime | None
    queue_by: str | None
    queue_reason: str | None
    queue_until: datetime | None
    served: bool
    known: bool
    ahead: int
    before: int
    after: Sequence[object]
    lane: str | None
    limits: Sequence[Sequence[object]]


class Why:
    """The one who knows why."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._sql = load("views/tasks.sql", (settings or Settings()).schema_name)

    async def of(self, conn: Conn, task: TaskView) -> list[Reason]:
        """Why a task is not running, or what became of it."""
        if task.state in _MARKED:
            row = await (await conn.execute(self._sql["has_row"], {"id": task.id})).fetchone()
            if row == (True, True):
                text = (
                    f"it is {task.state}, but still has a row in ready, blocked or running, so that a worker "
                    f"may run it: {_REPAIR}"
                )
                return [Reason(WaitCause.STRANDED, text), *await self._of(conn, task)]
        return await self._of(conn, task)

    async def _of(self, conn: Conn, task: TaskView) -> list[Reason]:
        match task.state:
            case State.COMPLETED:
                took = f"{task.execution_seconds or 0:.3f} s"
                text = f"it has completed, in {took} by worker {task.worker} under fence {task.fence}"
                return [Reason(WaitCause.COMPLETED, text)]
            case State.FAILED:
                code = task.error.code if task.error else "no code"
                text = f"it has failed for good ({task.dead_reason}, {code}): retry it when the cause is gone"
                return [Reason(WaitCause.FAILED, text)]
            case State.CANCELLED:
                return [
                    Reason(WaitCause.CANCELLED, f"it was cancelled: {task.mark_reason or 'no reason given'}")
                ]
            case State.PAUSED:
                why = task.mark_reason or "no reason given"
                return [Reason(WaitCause.PAUSED, f"it was paused: {why}; resume it")]
            case State.RUNNING:
                text = f"it runs now, in worker {task.worker} under fence {task.fence}"
                return [Reason(WaitCause.RUNNING, text)]
            case State.QUEUED:
                row = await (await conn.execute(self._sql["why"], {"id": task.id})).fetchone()
                if row is None:
                    return [Reason(WaitCause.ENDED, "it has just ended: ask again")]
                return _queued(task, _Facts(*row))


def _queued(task: TaskView, facts: _Facts) -> list[Reason]:
    found = [
        *_stranded(facts),
        *_time(task, facts),
        *_after(facts),
        *_paused(task, facts),
        *_workers(task, facts),
        *_behind(task, facts),
    ]
    return found or [Reason(WaitCause.ABOUT_TO_START, "nothing stands in its way: it is about to start")]


def _stranded(facts: _Facts) -> list[Reason]:
    if facts.has_row:
        return []
    text = (
        "its row in ready, blocked or running is missing, or differs from tasks. If it is missing, no worker "
        "finds the task; if it differs, a worker may run the task, but it cannot be cancelled or paused: "
        f"{_REPAIR}"
    )
    return [Reason(WaitCause.STRANDED, text)]


def _time(task: TaskView, facts: _Facts) -> list[Reason]:
    if facts.run_at is None or not facts.ahead_of_clock:
        return []
    at = facts.run_at.isoformat(timespec="seconds")
    failures = task.counters.failures + task.counters.rate_limits
    if failures and task.error is not None and task.error.at == task.last_attempt_at:
        first = task.error.message.splitlines()[0] if task.error.message else task.error.code
        text = f"it backs off until {at}, after failure {failures}: {first}"
        return [Reason(WaitCause.BACKING_OFF, text)]
    if task.counters.polls:
        text = f"it is polled again at {at}, after {task.counters.polls} polls: wake it to poll now"
        return [Reason(WaitCause.SNOOZED, text)]
    return [Reason(WaitCause.SCHEDULED, f"its time has not come: it may start at {at}")]


def _after(facts: _Facts) -> list[Reason]:
    count, one = facts.after
    if not count:
        return []
    text = f"it comes after {count} tasks that have not ended, {one} among them"
    return [Reason(WaitCause.AFTER_OTHERS, text)]


def _paused(task: TaskView, facts: _Facts) -> list[Reason]:
    found = []
    if facts.queue_paused_at is not None:
        until = _until(facts.queue_until)
        text = f"its queue {task.queue} is paused by {facts.queue_by}: {facts.queue_reason}{until}"
        found.append(Reason(WaitCause.QUEUE_PAUSED, text))
    if facts.paused_at is not None:
        until = _until(facts.paused_until)
        text = f"its kind {task.kind} is paused by {facts.paused_by}: {facts.pause_reason}{until}"
        found.append(Reason(WaitCause.KIND_PAUSED, text))
    return found


def _workers(task: TaskView, facts: _Facts) -> list[Reason]:
    if not facts.served:
        text = f"no live worker serves its queue {task.queue}: start one with --queues {task.queue}"
        return [Reason(WaitCause.NO_WORKER, text)]
    if not facts.known or facts.unserved_at is not None:
        text = f"no live worker of its queue has a handler for its kind {task.kind}"
        return [Reason(WaitCause.NO_HANDLER, text)]
    return []


def _behind(task: TaskView, facts: _Facts) -> list[Reason]:
    found = []
    if facts.lane is not None:
        text = f"its lane {task.bucket} runs one at a time, and task {facts.lane} comes first"
        found.append(Reason(WaitCause.LANE, text))
    for limit in facts.limits:
        found += _full(*limit)  # type: ignore[arg-type]
    if facts.ready and facts.ahead:
        found.append(
            Reason(WaitCause.OTHERS_AHEAD, f"{_many(facts.ahead)} tasks of its queue come before it")
        )
    if facts.before and facts.lane is None and not facts.after[0]:
        text = f"{_many(facts.before)} tasks behind {facts.bucket} come before it"
        found.append(Reason(WaitCause.OTHERS_AHEAD, text))
    return found


def _many(count: int) -> str:
    return f"{count}{'+' if count >= COUNT_MAX else ''}"


def _until(moment: datetime | None) -> str:
    return "" if moment is None else f", until {moment.isoformat(timespec='seconds')}"


def _full(
    name: str,
    capacity: int | None,
    count: int | None,
    seconds: float | None,
    spent: bool | None,  # noqa: FBT001
    holders: Mapping[str, int] | None,
) -> list[Reason]:
    """Whether a limit is full, or a rate is spent."""
    held = holders or {}
    if capacity is not None and sum(held.values()) >= capacity:
        who = ", ".join(f"{worker} ({permits})" for worker, permits in held.items()) or "nobody"
        text = f"the limit of {name}, {capacity} at once, is full: held by {who}"
        return [Reason(WaitCause.LIMIT_FULL, text)]
    if spent:
        return [
            Reason(WaitCause.RATE_SPENT, f"the rate of {name}, {count} in {seconds:g} s, is spent for now")
        ]
    return []
