"""One running handler and its outcome."""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.handler import Handler, Task
from holdfast.core.outcome import Failed, Finished, Outcome
from holdfast.core.task import Claim
from holdfast.worker.executor.fork_server import ForkedRun


class Call(Protocol):
    """A bulk call, as one of its items sees it."""

    def item_stopped(self) -> None:
        """An item was asked to stop."""


@dataclass(slots=True, eq=False)
class Run:
    """One handler at work."""

    claim: Claim
    handler: Handler
    began_at: float
    deadline_at: float
    # How many slots, and places for items of bulk calls, it gives back when it ends.
    slots: int = 0
    items: int = 0
    task: Task[Any] | None = None
    doing: "asyncio.Task[None] | None" = None
    # Its process, where it runs in one of its own.
    forked: ForkedRun | None = None
    # The outcome of a run that was asked to stop, unless the handler succeeds all the same.
    stop_outcome: Outcome | None = None
    # The bulk call that it is in, and how many share its time.
    call: Call | None = None
    mates: int = 1
    # How a process of its own ended, while this waits for its turn to be settled.
    outcome: Outcome | Finished | None = None

    @property
    def key(self) -> tuple[str, int]:
        """What the claim is known by."""
        return self.claim.id, self.claim.fence


def cancellable(run: Run) -> bool:
    """Whether cancelling the asyncio task stops it: a coroutine, or a process that has not started yet."""
    return run.handler.awaits if run.forked is None else run.forked.pidfd is None


def unless_stopped(run: Run, outcome: Outcome) -> Outcome:
    """The outcome of the stop if the handler failed after it was asked to stop; a success stays a success."""
    if run.stop_outcome is not None and isinstance(outcome, Failed):
        return run.stop_outcome
    return outcome
