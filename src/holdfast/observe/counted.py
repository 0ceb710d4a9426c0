"""Events as counts: a listener that adds up what its process does, in memory that outlives it.

A group of events costs a few additions, however many tasks are in it; only the two histograms look at each.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from holdfast.core.decide import Verdict
from holdfast.core.events import (
    DatabaseLost,
    Event,
    ExecutorEnded,
    ExecutorStarted,
    LateResultsRefused,
    LeaseAtRisk,
    TasksClaimed,
    TasksParked,
    TasksSettled,
    TasksSettling,
    WorkersLost,
)
from holdfast.core.state import Move
from holdfast.core.task import Claim
from holdfast.runtime.tally import LATEST, Pending, Tally

# Seconds; the last bucket has no end.
EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
# Between the parts of a name: no kind has it.
SEPARATOR = "\x1f"


class Figure(StrEnum):
    """What is counted; the parts of its name are its labels."""

    CLAIMED = "claimed"
    SETTLED = "settled"
    LATENCY = "latency"
    RAN = "ran"
    LATE = "late"
    ASIDE = "aside"
    LEASES = "leases"
    CRASHES = "crashes"
    STARTED = "started"
    WORKERS_LOST = "workers_lost"
    DATABASE_LOST = "database_lost"
    # When something last succeeded here.
    SUCCESS_AT = f"{LATEST}success_at"


def name_of(figure: Figure, *labels: object) -> str:
    """The name of one count."""
    return SEPARATOR.join([figure, *map(str, labels)])


class Counted:
    """A listener that counts into a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        # The group whose answer is awaited.
        self._awaited: frozenset[str] = frozenset()

    def __call__(self, event: Event, /) -> None:
        """Add it up."""
        match event:
            case TasksClaimed(_, claims):
                self._claimed(claims)
            case TasksSettling(settling):
                self._settling(settling)
            case TasksSettled(settled):
                self._settled(settled)
            case LateResultsRefused(refused):
                for kind, count in Counter(claim.kind for claim, _ in refused).items():
                    self._tally.add(name_of(Figure.LATE, kind), count)
            case _:
                for figure, amount in _rare(event).items():
                    self._tally.add(name_of(figure), amount)

    def _claimed(self, claims: Sequence[Claim]) -> None:
        for kind, count in Counter(claim.kind for claim in claims).items():
            self._tally.add(name_of(Figure.CLAIMED, kind), count)
        self._observe(
            Figure.LATENCY,
            [(claim.kind, (claim.claimed_at - claim.run_at).total_seconds()) for claim in claims],
        )

    def _settling(self, settling: Sequence[tuple[Claim, Verdict]]) -> None:
        """If this process dies before it hears more, the one above asks which of these were written."""
        self._awaited = frozenset(claim.id for claim, _ in settling)
        self._tally.about_to(
            "\n".join(
                Pending(claim.id, claim.fence, verdict.move, _settled_name(claim, verdict)).write()
                for claim, verdict in settling
            )
        )

    def _settled(self, settled: Sequence[tuple[Claim, Verdict]]) -> None:
        ends = Counter(_settled_name(claim, verdict) for claim, verdict in settled)
        if settled[0][0].id in self._awaited:
            self._awaited = frozenset()
            self._tally.about_to("")
        for name, count in ends.items():
            self._tally.add(name, count)
        now = time.time()
        self._observe(
            Figure.RAN,
            [
                (claim.kind, now - claim.claimed_at.timestamp())
                for claim, verdict in settled
                if verdict.move is not Move.RELEASE
            ],
        )
        if any(verdict.move is Move.COMPLETE for _, verdict in settled):
            self._tally.set(name_of(Figure.SUCCESS_AT), now)

    def _observe(self, figure: Figure, seconds: Sequence[tuple[str, float]]) -> None:
        """Into the buckets of a histogram, and to its sum."""
        sums: Counter[str] = Counter()
        found: Counter[tuple[str, int]] = Counter()
        for kind, length in seconds:
            found[kind, bisect_left(EDGES, length)] += 1
            sums[kind] += max(length, 0.0)  # type: ignore[assignment]
        for (kind, bucket), count in found.items():
            self._tally.add(name_of(figure, kind, bucket), count)
        for kind, total in sums.items():
            self._tally.add(name_of(figure, kind, "sum"), total)


def _settled_name(claim: Claim, verdict: Verdict) -> str:
    return _name_of_end(claim.kind, verdict.move, verdict.failure.failure_class if verdict.failure else "")


@lru_cache(1_000)
def _name_of_end(kind: str, move: Move, failure_class: str) -> str:
    """Made once for all tasks that end alike."""
    return name_of(Figure.SETTLED, kind, move, failure_class)


def _rare(event: Event) -> dict[Figure, int]:
    """What is counted of an event that comes by itself; of the others the log says more."""
    match event:
        case TasksParked(tasks):
            return {Figure.ASIDE: tasks}
        case LeaseAtRisk():
            return {Figure.LEASES: 1}
        case ExecutorStarted():
            return {Figure.STARTED: 1}
        case ExecutorEnded(_, _, status, None) if status:
            return {Figure.CRASHES: 1}
        case WorkersLost(workers):
            return {Figure.WORKERS_LOST: len(workers)}
        case DatabaseLost():
            return {Figure.DATABASE_LOST: 1}
        case _:
            return {}
