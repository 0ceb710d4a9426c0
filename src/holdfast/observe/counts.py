"""What a process has done, counted in memory; metrics read it, and so do tests."""

from collections import Counter

from holdfast.core.events import (
    Event,
    LateResultsRefused,
    Listener,
    TasksClaimed,
    TasksSettled,
    WorkersLost,
)


class Counts:
    """A listener that counts by name and kind."""

    def __init__(self) -> None:
        self.claimed: Counter[str] = Counter()
        self.settled: Counter[tuple[str, str]] = Counter()
        self.refused: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def __call__(self, event: Event, /) -> None:
        """Count one event."""
        self.events[type(event).__name__] += 1
        match event:
            case TasksClaimed(_, claims):
                self.claimed.update(claim.kind for claim in claims)
            case TasksSettled(settled):
                self.settled.update((claim.kind, verdict.move.value) for claim, verdict in settled)
            case LateResultsRefused(refused):
                self.refused.update(claim.kind for claim, _ in refused)
            case WorkersLost(workers):
                self.events["lost workers"] += len(workers)
            case _:
                pass


def each(*listeners: Listener) -> Listener:
    """One listener that tells several."""

    def tell(event: Event, /) -> None:
        for listener in listeners:
            listener(event)

    return tell
