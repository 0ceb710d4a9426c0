"""Events as counts: a listener that adds up what its process does, in memory that outlives it.

What ended alike, of one claim, is counted together.
"""

import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

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
from holdfast.core.failure import FailureClass
from holdfast.core.state import Move
from holdfast.core.task import Claim
from holdfast.runtime.tally import LATEST, Pending, Tally

# Seconds; the last bucket has no end.
EDGES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0)
_EDGES = tuple(timedelta(seconds=edge) for edge in EDGES)
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


@lru_cache(4_096)
def name_of(figure: Figure, *labels: object) -> str:
    """The name of one count, made once."""
    return SEPARATOR.join([figure, *map(str, labels)])


class Counted:
    """A listener that counts into a tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        # The group whose answer is awaited.
        self._awaited: Alike = {}

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
        by_kind: dict[str, list[timedelta]] = defaultdict(list)
        at = _as_counted_in(claims[0].run_at, claims[0].claimed_at)
        for claim in claims:
            by_kind[claim.kind].append(at - claim.run_at)
        for kind, waits in by_kind.items():
            self._tally.add(name_of(Figure.CLAIMED, kind), len(waits))
            total = sum(waits, timedelta()).total_seconds()
            self._tally.add(name_of(Figure.LATENCY, kind, "sum"), max(0.0, total))
            # In their order, so that where a bucket ends is looked for and not each task.
            waits.sort()
            counted = 0
            while counted < len(waits):
                bucket = bisect_left(_EDGES, waits[counted])
                end = bisect_right(waits, _EDGES[bucket]) if bucket < len(_EDGES) else len(waits)
                self._tally.add(name_of(Figure.LATENCY, kind, bucket), end - counted)
                counted = end

    def _settling(self, settling: Sequence[tuple[Claim, Verdict]]) -> None:
        """If this process dies before it hears more, the one above asks which of these were written."""
        self._awaited = _alike(settling)
        self._tally.about_to(
            "\n".join(
                Pending(fence, move, _name_of_end(kind, move, failure), ids).write()
                for (fence, kind, move, failure, _), ids in self._awaited.items()
            )
        )

    def _settled(self, settled: Sequence[tuple[Claim, Verdict]]) -> None:
        alike = self._heard(settled)
        now = time.time()
        for (_, kind, move, failure, claimed_at), ids in alike.items():
            self._tally.add(_name_of_end(kind, move, failure), len(ids))
            if move is not Move.RELEASE:
                length = max(0.0, now - claimed_at.timestamp())
                self._tally.add(name_of(Figure.RAN, kind, bisect_left(EDGES, length)), len(ids))
                self._tally.add(name_of(Figure.RAN, kind, "sum"), length * len(ids))
            if move is Move.COMPLETE:
                self._tally.set(name_of(Figure.SUCCESS_AT), now)

    def _heard(self, settled: Sequence[tuple[Claim, Verdict]]) -> "Alike":
        """What was settled, by how it ended; if that was awaited, it is not any more."""
        key, id_ = _key(*settled[0]), settled[0][0].id
        if id_ not in self._awaited.get(key, ()):
            return _alike(settled)
        awaited, self._awaited = self._awaited, {}
        self._tally.about_to("")
        return awaited if sum(map(len, awaited.values())) == len(settled) else _alike(settled)


def _as_counted_in(moment: datetime, at: datetime) -> datetime:
    """The same instant in the zone of a moment, if no change of the hour lies between.

    A difference within one zone takes a tenth of the time of one between two, and knows of no such change.
    """
    there = at.astimezone(moment.tzinfo)
    return there if there.utcoffset() == moment.utcoffset() else at


# Tasks of one claim that ended alike: their ids, by fence, kind, move, failure and the moment of the claim.
Ending: TypeAlias = tuple[int, str, Move, FailureClass | None, datetime]
Alike: TypeAlias = dict[Ending, list[str]]


def _key(claim: Claim, verdict: Verdict) -> Ending:
    failed = None if verdict.failure is None else verdict.failure.failure_class
    return claim.fence, claim.kind, verdict.move, failed, claim.claimed_at


def _alike(settled: Sequence[tuple[Claim, Verdict]]) -> Alike:
    found: Alike = {}
    fence = kind = move = failure = None
    ids: list[str] = []
    for claim, verdict in settled:
        # Neighbours mostly are alike, and a key takes five times as long as this.
        if (
            claim.fence != fence
            or verdict.move is not move
            or verdict.failure is not failure
            or claim.kind != kind
        ):
            fence, kind, move, failure = claim.fence, claim.kind, verdict.move, verdict.failure
            ids = found.setdefault(_key(claim, verdict), [])
        ids.append(claim.id)
    return found


def _name_of_end(kind: str, move: Move, failure: FailureClass | None) -> str:
    return name_of(Figure.SETTLED, kind, move, failure or "")


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
