"""Counts events of one process.

What ended alike, of one claim, is counted together.
"""

import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

from holdfast.core.decide import Verdict
from holdfast.core.events import (
    CountsReported,
    DatabaseLost,
    Event,
    ExecutorEnded,
    ExecutorStarted,
    LateResultsRefused,
    LeaseAtRisk,
    TasksBlocked,
    TasksClaimed,
    TasksSettled,
    WorkersLost,
)
from holdfast.core.failure import FailureClass
from holdfast.core.state import Move
from holdfast.core.task import Claim

# Seconds; the last bucket has no end.
EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
_EDGES = tuple(timedelta(seconds=edge) for edge in EDGES)
# Between the parts of a name: no kind has it.
SEPARATOR = "\x1f"
# The first character of names whose values are times: they are not added up, the latest one is kept.
LATEST = "@"


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


@lru_cache(4_096)
def name_of(figure: Figure, *labels: object) -> str:
    """The name of one count, made once."""
    return SEPARATOR.join([figure, *map(str, labels)])


class ProcessCounters:
    """A listener that counts into a mapping, by name."""

    def __init__(self, counts: dict[str, float]) -> None:
        self._counts = counts

    def __call__(self, event: Event, /) -> None:
        """Add it up."""
        match event:
            case TasksClaimed(_, claims):
                self._claimed(claims)
            case TasksSettled(settled):
                self._settled(settled)
            case LateResultsRefused(refused):
                for kind, count in Counter(claim.kind for claim, _ in refused).items():
                    self._add(name_of(Figure.LATE, kind), count)
            case CountsReported(counts):
                for name, value in counts.items():
                    self._add(name, value)
            case _:
                for figure, amount in _rare(event).items():
                    self._add(name_of(figure), amount)

    def _add(self, name: str, value: float) -> None:
        before = self._counts.get(name, 0.0)
        self._counts[name] = max(before, value) if name.startswith(LATEST) else before + value

    def _claimed(self, claims: Sequence[Claim]) -> None:
        by_kind: dict[str, list[timedelta]] = defaultdict(list)
        at = _as_counted_in(claims[0].run_at, claims[0].claimed_at)
        for claim in claims:
            by_kind[claim.kind].append(at - claim.run_at)
        for kind, waits in by_kind.items():
            self._add(name_of(Figure.CLAIMED, kind), len(waits))
            total = sum(waits, timedelta()).total_seconds()
            self._add(name_of(Figure.LATENCY, kind, "sum"), max(0.0, total))
            # In their order, so that where a bucket ends is looked for and not each task.
            waits.sort()
            counted = 0
            while counted < len(waits):
                bucket = bisect_left(_EDGES, waits[counted])
                end = bisect_right(waits, _EDGES[bucket]) if bucket < len(_EDGES) else len(waits)
                self._add(name_of(Figure.LATENCY, kind, bucket), end - counted)
                counted = end

    def _settled(self, settled: Sequence[tuple[Claim, Verdict]]) -> None:
        alike: Counter[Ending] = Counter()
        # Neighbours mostly are alike.
        for ending, group in groupby(settled, _key):
            alike[ending] += len(list(group))
        now = time.time()
        for (kind, move, failure, claimed_at), count in alike.items():
            self._add(name_of(Figure.SETTLED, kind, move, failure or ""), count)
            if move is not Move.RELEASE:
                length = max(0.0, now - claimed_at.timestamp())
                self._add(name_of(Figure.RAN, kind, bisect_left(EDGES, length)), count)
                self._add(name_of(Figure.RAN, kind, "sum"), length * count)
            if move is Move.COMPLETE:
                self._add(name_of(Figure.SUCCESS_AT), now)


def _as_counted_in(moment: datetime, at: datetime) -> datetime:
    """The same instant in the zone of a moment, if no change of the hour lies between.

    A difference within one zone takes a tenth of the time of one between two, and knows of no such change.
    """
    there = at.astimezone(moment.tzinfo)
    return there if there.utcoffset() == moment.utcoffset() else at


# How a task ended: its kind, move and failure, and the moment of its claim.
Ending: TypeAlias = tuple[str, Move, FailureClass | None, datetime]


def _key(settlement: tuple[Claim, Verdict]) -> Ending:
    claim, verdict = settlement
    failed = None if verdict.failure is None else verdict.failure.failure_class
    return claim.kind, verdict.move, failed, claim.claimed_at


def _rare(event: Event) -> dict[Figure, int]:
    """What is counted of an event that comes by itself; of the others the log says more."""
    match event:
        case TasksBlocked(tasks):
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
