"""Events about tasks and workers as values; logs and metrics listen to them.

Events come in groups as the store writes them, so that a listener pays once per group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.core.decide import Verdict
from holdfast.core.operator_events import Operated
from holdfast.core.state import Move
from holdfast.core.task import Claim, Enqueued, NewTask


@dataclass(frozen=True, slots=True)
class TasksEnqueued:
    """New tasks were written; they count once their transaction commits."""

    tasks: Sequence[tuple[NewTask, Enqueued]]


@dataclass(frozen=True, slots=True)
class TasksClaimed:
    """A worker took tasks, under one fence."""

    worker: str
    claims: Sequence[Claim]


@dataclass(frozen=True, slots=True)
class TasksSettled:
    """Verdicts were accepted."""

    settled: Sequence[tuple[Claim, Verdict]]


@dataclass(frozen=True, slots=True)
class LateResultsRefused:
    """Verdicts came from a holder that had lost the task; nothing of them was written."""

    refused: Sequence[tuple[Claim, Verdict]]


@dataclass(frozen=True, slots=True)
class TasksMissing:
    """Tasks that a worker held were deleted from outside: its claims on them were dropped."""

    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class ResultRejected:
    """The database could not store a result; the task fails as invalid instead."""

    claim: Claim
    message: str


@dataclass(frozen=True, slots=True)
class TasksMoved:
    """An operator or maintenance moved tasks that nobody was running."""

    move: Move
    ids: Sequence[str]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class TasksWoken:
    """Someone asked to poll these tasks now rather than at their time."""

    ids: Sequence[str]
    by: str


@dataclass(frozen=True, slots=True)
class SchedulesDeclared:
    """A worker told which schedules its kinds have."""

    names: Sequence[str]


@dataclass(frozen=True, slots=True)
class SchedulesFired:
    """The ticks of these schedules came, and so many tasks were made."""

    names: Sequence[str]
    tasks: int


@dataclass(frozen=True, slots=True)
class ScheduleFailed:
    """A schedule could not fire; the others go on."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClockStepped:
    """The database's clock was set forward (`seconds` is positive) or back (`seconds` is negative)."""

    seconds: float


@dataclass(frozen=True, slots=True)
class FollowupsReleased:
    """All tasks that these come after have ended."""

    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class TasksBlocked:
    """Claims met tasks that may not start yet, and moved them out of the way."""

    tasks: int


@dataclass(frozen=True, slots=True)
class KindStatusChanged:
    """A kind was paused or resumed, or is unserved or served again."""

    kind: str
    status: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class LimitChanged:
    """A limit was set, changed or cleared."""

    name: str
    by: str
    cleared: bool


@dataclass(frozen=True, slots=True)
class WorkersLost:
    """Workers let their leases lapse; their tasks are taken back."""

    workers: Sequence[str]


@dataclass(frozen=True, slots=True)
class PartitionsChanged:
    """Maintenance made partitions ahead or let old ones go."""

    created: Sequence[str]
    dropped: Sequence[str]


@dataclass(frozen=True, slots=True)
class PartitionMissing:
    """A settle found no partition for today: maintenance has not run for two weeks."""

    table: str


@dataclass(frozen=True, slots=True)
class OwnerNeeded:
    """A chore needs the rights of the schema's owner; run upkeep as the owner now and then."""

    message: str


@dataclass(frozen=True, slots=True)
class KindsUnknown:
    """A worker met tasks of kinds that it has no handler for, and left them to others."""

    worker: str
    kinds: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatabaseLost:
    """A connection went away, or could not be made; it is tried again."""

    message: str


@dataclass(frozen=True, slots=True)
class DatabaseFound:
    """The database answers again."""


@dataclass(frozen=True, slots=True)
class StatementDelayed:
    """A statement of a connection, known by its application name, takes long: a lock may be the reason."""

    application: str


@dataclass(frozen=True, slots=True)
class DatabaseLocked:
    """Statements of a worker wait for a lock of another session; they are tried again until they get it."""

    locked: Sequence[str]
    pid: int
    application: str | None
    user: str | None
    state: str | None
    transaction_seconds: float | None
    waits_for: Sequence[int]
    waiting: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatabaseUnlocked:
    """The session that statements waited for has ended its transaction."""

    locked: Sequence[str]
    pid: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StatementFailed:
    """The database refused a statement of the engine; it is tried again."""

    doing: str
    message: str


@dataclass(frozen=True, slots=True)
class ExecutorStarted:
    """A supervisor started a process; `name` is its worker's, for people."""

    worker: str
    pid: int
    name: str


@dataclass(frozen=True, slots=True)
class ExecutorEnded:
    """A process of a supervisor has ended; `leaving` says why, where it was by our own will."""

    worker: str
    pid: int
    status: int
    leaving: str | None


@dataclass(frozen=True, slots=True)
class CountsReported:
    """A process of a supervisor reports what it has counted since its last report, by name."""

    counts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class HandlersOverdue:
    """Handlers ran past their deadline and did not stop when told: their process is killed."""

    worker: str
    tasks: Sequence[str]


@dataclass(frozen=True, slots=True)
class LeaseAtRisk:
    """A lease was lost, or could not be renewed in time: the handlers under it are stopped."""

    worker: str
    lost: bool


@dataclass(frozen=True, slots=True)
class WorkerLeaving:
    """A signal told the worker to leave: after its work, or at once."""

    name: str
    at_once: bool


@dataclass(frozen=True, slots=True)
class FailedAfterFinish:
    """A handler raised after it had finished its task: the task stays completed."""

    claim: Claim
    message: str


Event: TypeAlias = (
    TasksEnqueued
    | TasksClaimed
    | TasksSettled
    | LateResultsRefused
    | TasksMissing
    | ResultRejected
    | TasksMoved
    | TasksBlocked
    | TasksWoken
    | SchedulesDeclared
    | SchedulesFired
    | ScheduleFailed
    | ClockStepped
    | FollowupsReleased
    | KindStatusChanged
    | LimitChanged
    | WorkersLost
    | PartitionsChanged
    | PartitionMissing
    | OwnerNeeded
    | KindsUnknown
    | DatabaseLost
    | DatabaseFound
    | StatementDelayed
    | DatabaseLocked
    | DatabaseUnlocked
    | StatementFailed
    | ExecutorStarted
    | ExecutorEnded
    | CountsReported
    | HandlersOverdue
    | LeaseAtRisk
    | WorkerLeaving
    | FailedAfterFinish
    | Operated
)


class Listener(Protocol):
    """Hears every event, in order; it must not raise and must not wait."""

    def __call__(self, event: Event, /) -> None:
        """Take note of one event."""


def silent(event: Event, /) -> None:
    """Hear nothing: the listener of those who want none."""


def both(first: Listener, second: Listener) -> Listener:
    """Two listeners as one."""

    def hear(event: Event, /) -> None:
        first(event)
        second(event)

    return hear
