"""Where a claim starts to scan: a floor per queue and priority that skips dead rows.

Claimed rows leave dead entries at the head of ready's index. As long as some old snapshot is open
anywhere they cannot be removed, and a claim that starts at the beginning reads all of them again.
So a claim starts at its floor: every row below it was taken, as far as its snapshot could see.

What the snapshot could not see are the rows of transactions that had not committed. Each of them has
a number (xid) that is at least the snapshot's xmin, and its rows carry a run_at read from the clock
after it got that number (the two rules in `store/__init__.py`). Every claim that takes something has
a number of its own, given out after the claim began; whatever has a higher number got it later still.
So the latest claim whose own number lies below today's xmin began at a moment before which no hidden
row can lie, and the floor never passes it. This needs no rights and no second query, and it covers
prepared transactions; a mere reader has no number and does not hold it back. (The snapshot's xmax will
not do in place of a claim's own number: it is one past the highest number that has *ended*, so that a
transaction at or above it may have begun long before.)

A writing transaction that stays open for minutes would hold the floor for minutes, so it is followed
for `FOLLOW_SECONDS` only. Those late rows, and rows that a rolled-back claim put back, are found by
the sweep: a walk over the range below the floor, in slices short enough that nobody waits for them,
on a budget of one part in `SWEEP_SHARE` of one connection's time.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from holdfast.core.task import PRIORITIES
from holdfast.store.claim import BEGINNING, END, Range, Snapshot

FOLLOW_SECONDS = 5.0
SWEEP_SECONDS_MIN = 1.0
SWEEP_SHARE = 30
SLICE_SECONDS_MAX = 0.02

_FOLLOW = timedelta(seconds=FOLLOW_SECONDS)
_FIRST_WIDTH = timedelta(seconds=30)
_NARROWEST = timedelta(seconds=2)
_WIDEST = timedelta(days=365)
# The floor moves on while a walk catches up with it; what is younger is the next walk's.
_CLOSE = timedelta(seconds=0.1)

Taken: TypeAlias = tuple[str, int, datetime]


class Floor:
    """The floors of one claimer for its queues, in the order in which they are served."""

    def __init__(self, queues: Sequence[str]) -> None:
        self._lanes = [(queue, priority) for queue in queues for priority in PRIORITIES]
        self._floors = dict.fromkeys(self._lanes, BEGINNING)
        self._numbers: list[int] = []
        self._times: list[datetime] = []
        self._latest = BEGINNING

    def ranges(self) -> list[Range]:
        """Where the next claim is to look, the most urgent first."""
        return [Range(queue, priority, at, END) for (queue, priority), at in self._floors.items()]

    def at(self, queue: str, priority: int) -> datetime:
        """Where one floor stands."""
        return self._floors[queue, priority]

    def learn(
        self, seen: Snapshot, taken: Iterable[Taken], *, full: bool, unread: Collection[str] = ()
    ) -> None:
        """Raise the floors after a claim over `ranges()` that took these rows, some queues unread."""
        if seen.at < self._latest:
            # The database's clock went back (a failover, a step): start over from the beginning.
            self.reset()
        self._latest = seen.at
        self._remember(seen)
        bound = self._bound(seen)
        last: dict[tuple[str, int], datetime] = {}
        for queue, priority, run_at in taken:
            lane = queue, priority
            # Compared in the zone of all of them, which is quick; where an hour comes twice the one taken
            # may not be the last, and the floor stands too low for a while.
            if lane not in last or run_at > last[lane]:
                last[lane] = run_at
        if full and not last:
            return
        # Lanes are read in order: those before the one where a full claim stopped were read to their
        # end, and of that one no more is known than the last row it gave.
        stopped_at = max(last, key=self._lanes.index) if full else None
        for lane in self._lanes:
            # In UTC: arithmetic in a zone with daylight saving is off by an hour twice a year.
            reached = last[lane].astimezone(UTC) if lane == stopped_at else seen.at
            if lane[0] not in unread:
                self._floors[lane] = max(self._floors[lane], min(reached, bound))
            if lane == stopped_at:
                return

    def reset(self) -> None:
        """Forget everything: after a lost connection the other end may be another server."""
        self._floors = dict.fromkeys(self._lanes, BEGINNING)
        self._numbers.clear()
        self._times.clear()

    def _bound(self, seen: Snapshot) -> datetime:
        """No row that this snapshot could not see has a run_at before this moment."""
        position = bisect_left(self._numbers, seen.xmin)
        followed = self._times[position - 1] if position else BEGINNING
        return max(followed, seen.at - _FOLLOW)

    def _remember(self, seen: Snapshot) -> None:
        if seen.number is None:
            return
        self._numbers.append(seen.number)
        self._times.append(seen.at)
        oldest = seen.at - 2 * _FOLLOW
        if self._times[0] < oldest:
            del self._times[: bisect_left(self._times, oldest)]
            del self._numbers[: len(self._numbers) - len(self._times)]


class Sweep:
    """One claimer's walk below its floors, slice by slice, each as wide as the last one allows.

    Times here are the caller's monotonic seconds.
    """

    def __init__(self, floor: Floor) -> None:
        self._floor = floor
        self._queues: frozenset[str] = frozenset()
        self._lower = BEGINNING
        self._upper = BEGINNING
        self._first_end = BEGINNING
        self._width = _FIRST_WIDTH
        self._began_at = 0.0
        self._spent_seconds = 0.0
        self._due_at = 0.0

    def due(self, now: float) -> bool:
        """It is time for the next slice, or for a new walk."""
        return now >= self._due_at

    @property
    def walking(self) -> bool:
        """A walk has begun and has not reached every floor."""
        return bool(self._queues)

    @property
    def walk_seconds(self) -> float:
        """How long a walk is expected to take, rests included; others stay away for so long."""
        return max(SWEEP_SECONDS_MIN, self._spent_seconds * SWEEP_SHARE)

    def begin(self, queues: Iterable[str], now: float) -> None:
        """Start a new walk over these queues; with none, ask again in a while."""
        self._queues = frozenset(queues)
        self._lower = BEGINNING
        self._began_at = now
        if not self._queues:
            self._due_at = now + SWEEP_SECONDS_MIN / 4
            return
        self._spent_seconds = 0.0

    def slice(self) -> list[Range]:
        """The next stretch of each lane."""
        lanes = [r for r in self._floor.ranges() if r.queue in self._queues]
        self._upper = self._next_upper(max(lane.start for lane in lanes))
        return [
            Range(lane.queue, lane.priority, self._lower, min(self._upper, lane.start))
            for lane in lanes
            if lane.start > self._lower
        ]

    def learn(self, seconds: float, now: float) -> None:
        """Take note of what the last slice cost; rest, and move on or end the walk."""
        self._spent_seconds += seconds
        self._due_at = now + seconds * SWEEP_SHARE
        if seconds > SLICE_SECONDS_MAX and self._lower > BEGINNING:
            # Never so narrow that the walk would be slower than time itself.
            self._width = max(min(self._width, self._upper - self._lower) / 2, _NARROWEST)
        elif seconds < SLICE_SECONDS_MAX / 4:
            self._width = min(self._width * 2, _WIDEST)
        self._lower = self._upper
        top = max(lane.start for lane in self._floor.ranges() if lane.queue in self._queues)
        if self._lower + _CLOSE >= top:
            self._queues = frozenset()
            self._due_at = max(self._due_at, self._began_at + SWEEP_SECONDS_MIN)

    def _next_upper(self, top: datetime) -> datetime:
        if self._lower == BEGINNING:
            # What lies before this claimer's first walk is one slice: nothing tells where it begins.
            if self._first_end == BEGINNING:
                self._first_end = top
            return self._first_end
        return top if top - self._lower <= self._width else self._lower + self._width
