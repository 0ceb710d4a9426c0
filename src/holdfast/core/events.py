"""Everything that happens to tasks and workers, as values; logs and metrics are listeners.

Events come in groups as the store writes them, so that a listener pays once per group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.core.decide import Verdict
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
class TasksParked:
    """Claims met tasks that stand behind a bucket, and moved them out of the way."""

    tasks: int


@dataclass(frozen=True, slots=True)
class KindGateChanged:
    """A kind was paused, resumed, parked or unparked."""

    kind: str
    gate: str
    by: str
    reason: str


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


Event: TypeAlias = (
    TasksEnqueued
    | TasksClaimed
    | TasksSettled
    | LateResultsRefused
    | ResultRejected
    | TasksMoved
    | TasksParked
    | KindGateChanged
    | WorkersLost
    | PartitionsChanged
    | PartitionMissing
    | OwnerNeeded
)


class Listener(Protocol):
    """Hears every event, in order; it must not raise and must not wait."""

    def __call__(self, event: Event, /) -> None:
        """Take note of one event."""


def silent(event: Event, /) -> None:
    """Hear nothing: the listener of those who want none."""
