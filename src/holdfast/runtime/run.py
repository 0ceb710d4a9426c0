"""One handler at work, and what its end means."""

import asyncio
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.handler import Handler, Task
from holdfast.core.outcome import Failed, Finished, Outcome
from holdfast.core.task import Claim
from holdfast.runtime.solo import SoloRun


class Call(Protocol):
    """A bulk call, as one of its items sees it."""

    def told(self) -> None:
        """An item was told to stop."""


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
    solo: SoloRun | None = None
    # Why it was told to stop; this is its outcome unless it ends well all the same.
    told: Outcome | None = None
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
    """A coroutine, or a process that is not there yet: the others cannot be told in this way."""
    return run.handler.awaits if run.solo is None else run.solo.pidfd is None


def unless_told(run: Run, outcome: Outcome) -> Outcome:
    """A handler that fails after it was told to stop failed of that; one that ends well has ended well."""
    if run.told is not None and isinstance(outcome, Failed):
        return run.told
    return outcome
