"""Outcomes of one claim, reported by a handler or by the worker in its place."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from holdfast.core.failure import Failure

# Seconds, or a timedelta.
Duration: TypeAlias = float | timedelta


def as_seconds(duration: Duration) -> float:
    """A duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


@dataclass(frozen=True, slots=True)
class Complete:
    """It is done; `result` is the JSON text that is kept with it."""

    result: str | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not done yet, and nothing went wrong: look again later. Spends no attempt."""

    after: Duration
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed in a way that may pass; `after` overrides the backoff, `code` is one of the user's own."""

    reason: str
    after: Duration | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Fail:
    """It failed for good, under a code of requirement T6 or one of the user's own."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """It is no longer wanted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """An exception, a timeout or a hint to wait, already classified."""

    failure: Failure
    after_seconds: float | None = None


class Release(StrEnum):
    """Why a claim was given back without having been spent."""

    DRAINED = "drained"
    COLLATERAL = "collateral"
    NOT_STARTED = "not_started"
    UNKNOWN_CLAIM = "unknown_claim"
    # Its handler had ended, and its outcome could not be written.
    UNSETTLED = "unsettled"


@dataclass(frozen=True, slots=True)
class Released:
    """The claim goes back as if it had never been made."""

    why: Release


@dataclass(frozen=True, slots=True)
class Expired:
    """The time of the task was over before it could start."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The process died under it; only a death while alone accuses the task.

    A suspect runs next in a process of its own, to be seen alone. `ended` says that the handler had ended,
    and that its outcome was not written.
    """

    sole: bool
    how: str = "it died"
    suspect: bool = True
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The handler settled its task itself, in a commit of its own; `then` is what it did after that."""

    then: "Outcome"


Outcome: TypeAlias = Complete | Snooze | Retry | Fail | Cancel | Failed | Released | Expired | WorkerLost
