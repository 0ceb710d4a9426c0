"""A kind's handler and the task that it is given, as plain values shared by store and worker."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from hashlib import sha256
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from holdfast.core.backoff import Backoff
from holdfast.core.decide import MAX_ATTEMPTS_DEFAULT, Policy
from holdfast.core.errors import NotInAWorker
from holdfast.core.limit import ANY, Limit, Scope
from holdfast.core.polling import Polling
from holdfast.core.schedule import Cron
from holdfast.core.task import QUEUE_DEFAULT, Claim, Predecessor

P = TypeVar("P")
GATHER_SIZE = 500
GATHER_SECONDS = 0.02


class Isolation(StrEnum):
    """Where a plain function runs: in a thread beside others, or in a process of its own."""

    THREAD = "thread"
    PROCESS = "process"


class Finish(Protocol):
    """The last act of a handler: its rows and its result in one fenced commit."""

    async def __aenter__(self) -> Any:
        """The connection to write on."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit with the result, unless an exception came or the task was lost."""

    def __enter__(self) -> Any:
        """The connection to write on."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit with the result, unless an exception came or the task was lost."""


class Finisher(Protocol):
    """Whoever runs a handler can finish its task, and knows what it came after."""

    async def predecessors(self, task_id: str) -> list[Predecessor]:
        """What became of the tasks that one came after."""

    def predecessors_sync(self, task_id: str) -> list[Predecessor]:
        """The same, where calls block."""

    def finish(
        self, tasks: "Sequence[Task[Any]]", results: Sequence[object] | None, conn: object | None
    ) -> Finish:
        """Begin the last act."""


@dataclass(slots=True)
class Task(Generic[P]):
    """What a handler sees of the task in its hands.

    `key` is the same at every attempt: pass it to whoever must not do the work twice. `fence` grows with
    every claim: pass it to whoever can refuse an older holder. `stopping` says why the handler should
    end: its time is over, or an operator cancelled it. A coroutine is cancelled as well; a plain
    function that runs long looks here now and then.
    """

    id: str
    kind: str
    payload: P
    key: str
    fence: int
    attempt: int
    polls: int = 0
    version: int = 1
    subject: str | None = None
    trace_id: str | None = None
    stopping: str | None = None
    # What follows is the runtime's.
    claim: Claim | None = field(default=None, repr=False, compare=False)
    finisher: Finisher | None = field(default=None, repr=False, compare=False)
    settled: bool = field(default=False, repr=False, compare=False)
    uncertain: bool = field(default=False, repr=False, compare=False)

    def finish(self, result: object = None, *, conn: object | None = None) -> Finish:
        """Write rows of your own and complete the task in one commit: `async with task.finish() as tx`.

        Without `conn` it is a psycopg connection to the tasks' own database. If the task was taken
        back meanwhile nothing is written, and `LeaseLost` is raised. If somebody else writes to its row at
        that moment nothing is written either, and the driver's serialization failure is raised.
        """
        return self._finisher("cannot be finished").finish([self], [result], conn)

    async def predecessors(self) -> list[Predecessor]:
        """What became of the tasks that this one came after, in the order in which they were given."""
        return await self._finisher("does not know what it came after").predecessors(self.id)

    def predecessors_sync(self) -> list[Predecessor]:
        """The same, where calls block."""
        return self._finisher("does not know what it came after").predecessors_sync(self.id)

    def _finisher(self, otherwise: str) -> Finisher:
        if self.finisher is None:
            raise NotInAWorker(f"task {self.id} is not run by a worker, so it {otherwise}")
        return self.finisher


class Bulk(list[Task[P]]):
    """What a bulk handler is given: many tasks of its kind."""

    def finish(self, results: Sequence[object] | None = None, *, conn: object | None = None) -> Finish:
        """Write rows of your own and complete all of these tasks in one commit, or none."""
        finisher = self[0].finisher
        if finisher is None:
            raise NotInAWorker("these tasks are not run by a worker, so they cannot be finished")
        return finisher.finish(self, results, conn)


@dataclass(frozen=True, slots=True)
class Gather:
    """How many tasks a bulk handler is called with, and how long it waits for more than the first."""

    size: int = GATHER_SIZE
    linger_seconds: float = GATHER_SECONDS


Answer: TypeAlias = object
Call: TypeAlias = Callable[..., Answer | Awaitable[Answer]]


def _plain_json(payload: str, version: int) -> object:  # noqa: ARG001 (a decoder is given it)
    """What a handler without a declared payload gets, whatever the version."""
    return json.loads(payload)


def _no_model() -> None:
    """A handler without a declared payload has no schema."""


def hash_of_schema(schema: Mapping[str, object]) -> str | None:
    """By which a change of a payload's JSON schema is noticed; one that takes anything has none."""
    return sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest() if schema else None


def _plain_check(payload: str) -> str:
    """A payload of a kind that declares none: anything that is JSON."""
    return json.dumps(json.loads(payload))


@dataclass(frozen=True, slots=True)
class Candidate:
    """A dead letter as its kind's guard sees it before it is redriven."""

    id: str
    kind: str
    payload: Any
    version: int
    subject: str | None
    error_code: str | None


@dataclass(frozen=True, slots=True)
class Guarded:
    """What a guard says of one dead letter: why it must not be redriven, or what that would cost."""

    veto: str | None = None
    money_effect: Decimal = Decimal(0)


# Given dead letters of its kind, answers one Guarded for each, in their order.
Guard: TypeAlias = Callable[[Sequence[Candidate]], Awaitable[Sequence[Guarded]]]


class Scheduled(NamedTuple):
    """A schedule of a kind: when, with which payload, and behind which bucket its tasks stand."""

    cron: Cron
    payload: str
    bucket: str | None = None


@dataclass(frozen=True, slots=True)
class Handler:
    """How tasks of one kind are run; None means that the worker's own setting holds."""

    kind: str
    call: Call
    awaits: bool
    queue: str = QUEUE_DEFAULT
    timeout_seconds: float | None = None
    max_attempts: int | None = None
    backoff: Backoff = field(default_factory=Backoff)
    isolation: Isolation = Isolation.THREAD
    permanent: tuple[type[Exception], ...] = ()
    rate_limited: tuple[type[Exception], ...] = ()
    decode: Callable[[str, int], object] = _plain_json
    encode: Callable[[object], str] = json.dumps
    # An operator's payload as it is to be kept, if the kind takes it.
    check: Callable[[str], str] = _plain_check
    # Of the payload's JSON schema, where it has one; made when a worker declares its kinds.
    payload_hash: Callable[[], str | None] = _no_model
    # Fields of the payload whose values are kept out of failures, logs and the audit.
    secrets: tuple[str, ...] = ()
    # Asked before dead letters of the kind are redriven.
    guard: Guard | None = None
    version: int = 1
    limit: Limit | None = None
    # The field of the payload by whose value tasks stand behind limits of their own.
    per: tuple[str, Limit] | None = None
    lane_blocks: bool = False
    polling: Polling = field(default_factory=Polling)
    # Called with many tasks at once.
    bulk: Gather | None = None
    # What is made by itself.
    schedules: tuple[Scheduled, ...] = ()

    @property
    def schedule_names(self) -> list[str]:
        """What its schedules are called: after the kind, where they have no name of their own."""
        return [one.cron.name or self.kind for one in self.schedules]

    def limits(self) -> list[tuple[Scope, str, Limit]]:
        """The limits that this kind declares."""
        found = [] if self.limit is None else [(Scope.KIND, self.kind, self.limit)]
        if self.per is not None:
            field, limit = self.per
            found.append((Scope.KEY, f"{self.kind}/{field}={ANY}", limit))
        return found

    def policy(self, max_attempts: int = MAX_ATTEMPTS_DEFAULT) -> Policy:
        """What this kind says of retries, and the worker where the kind says nothing."""
        return Policy(self.max_attempts or max_attempts, self.backoff, polling=self.polling)


Handlers: TypeAlias = Mapping[str, Handler]


def task_of(claim: Claim, payload: object, finisher: Finisher | None = None) -> Task[Any]:
    """The handler's view of a claim."""
    return Task(
        claim.id,
        claim.kind,
        payload,
        claim.key or claim.id,
        claim.fence,
        claim.attempts + 1,
        claim.polls,
        claim.version,
        claim.subject,
        claim.trace_id,
        None,
        claim,
        finisher,
    )
