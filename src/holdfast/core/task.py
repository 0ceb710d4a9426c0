"""A task as it is enqueued, as a worker holds it, and as it is shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.state import State

PRIORITIES = (0, 1, 2, 3)
PRIORITY_DEFAULT = 2
QUEUE_DEFAULT = "default"
# Served by every worker, and paused by nobody: what operators ask for is done there.
RESERVED_QUEUE = "holdfast"
KEY_WINDOW_SECONDS = 24 * 60 * 60
TIMEOUT_SECONDS = 600.0
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# A timedelta means from now on, by the database's clock.
Moment: TypeAlias = datetime | timedelta


class Unique(StrEnum):
    """What a second enqueue of the same key means."""

    KEY = "key"
    QUEUED = "queued"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class NewTask:
    """One task to enqueue; `payload` is JSON text, so that it is encoded exactly once."""

    kind: str
    payload: str = "{}"
    id: str | None = None
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    version: int = 1
    run_at: Moment | None = None
    expires_at: Moment | None = None
    subject: str | None = None
    trace_id: str | None = None
    key: str | None = None
    unique: Unique = Unique.KEY
    bucket: str | None = None
    max_attempts: int | None = None
    timeout_seconds: float | None = None
    # It starts when these tasks have ended.
    after: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Predecessor:
    """What became of a task that another one came after."""

    id: str
    kind: str | None
    state: State
    result: str | None
    error_code: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The answer to an enqueue: the task, and whether this call made it."""

    id: str
    created: bool


@dataclass(frozen=True, slots=True)
class Counters:
    """How often a task was tried, failed, crashed its process, was polled, was told to wait."""

    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    polls: int = 0
    rate_limits: int = 0


class Claim(NamedTuple):
    """A task in a worker's hands, valid under its fence until the worker's lease ends.

    A tuple in the order of the claim's columns, because one is made for every task that runs. `isolate`
    says that a process died while this and other tasks ran in it, so that it runs in one of its own now.
    """

    id: str
    fence: int
    kind: str
    queue: str
    priority: int
    payload: str
    version: int
    run_at: datetime
    enqueued_at: datetime
    expires_at: datetime | None
    subject: str | None
    trace_id: str | None
    key: str | None
    bucket: str | None
    max_attempts: int | None
    timeout_seconds: float | None
    attempts: int
    failures: int
    crashes: int
    polls: int
    rate_limits: int
    isolate: bool
    # What is known of its polls, if it has snoozed before: see `core.polling.Polled`.
    polled: Sequence[float | None] | None
    claimed_at: datetime
    worker: str
    # The limits that it counts against while it runs, by the names of their buckets.
    limits: Sequence[str] = ()
    # Counted in a rate window: if it has not started by then (monotonic seconds), it goes back.
    start_by: float | None = None

    @property
    def expired(self) -> bool:
        """It was claimed after the moment by which it had to start."""
        return self.expires_at is not None and self.expires_at <= self.claimed_at


def is_id(text: str) -> bool:
    """Whether it looks like one."""
    return _ID.fullmatch(text) is not None


def shown_state(state: str, next_attempt_at: datetime | None) -> str:
    """The state as people see it: a queued task whose time is ahead is scheduled."""
    ahead = next_attempt_at is not None and next_attempt_at > datetime.now(UTC)
    return "scheduled" if state == State.QUEUED and ahead else state


@dataclass(frozen=True, slots=True)
class ErrorMark:
    """The last failure of a task, marked in its own row."""

    failure_class: FailureClass
    code: str
    message: str
    stack: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as people see it, from whichever table it stands in."""

    id: str
    kind: str
    queue: str
    state: State
    priority: int
    payload: str | None
    result: str | None
    subject: str | None
    trace_id: str | None
    key: str | None
    counters: Counters
    max_attempts: int | None
    fence: int | None
    worker: str | None
    bucket: str | None
    enqueued_at: datetime
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    finished_at: datetime | None
    execution_seconds: float | None
    progress: float | None
    dead_reason: DeadReason | None
    mark_reason: str | None
    error: ErrorMark | None
    # Of the worker that has it: it is given to somebody else once that has passed.
    lease_expires_at: datetime | None = None
    # The group that a failed task is in.
    fingerprint: str | None = None

    @property
    def is_failed(self) -> bool:
        """It ended in failure and waits for an operator."""
        return self.state is State.FAILED
