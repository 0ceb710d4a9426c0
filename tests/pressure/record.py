"""What the handlers' own lines say: who ran when, and how many at once."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Interval:
    """One execution, from the first line of its handler to the last, or to the death of its process."""

    kind: str
    task: str
    began: float
    ended: float


def intervals(record: Path, deaths: Sequence[float]) -> list[Interval]:
    """Every execution; one without an end lasted until the next death that was dealt out."""
    starts: dict[tuple[str, str], tuple[str, float]] = {}
    found: list[Interval] = []
    for line in record.read_text().splitlines():
        what, kind, task, fence, _pid, at = line.split(" ")
        if what == "start":
            starts[task, fence] = kind, float(at)
        else:
            _, began = starts.pop((task, fence))
            found.append(Interval(kind, task, began, float(at)))
    for (task, _), (kind, began) in starts.items():
        after = bisect_right(deaths, began)
        found.append(Interval(kind, task, began, deaths[after] if after < len(deaths) else began))
    return sorted(found, key=lambda one: one.began)


def most_at_once(found: Iterable[Interval]) -> int:
    """The largest number of executions that overlap."""
    moments = sorted([(one.began, 1) for one in found] + [(one.ended, -1) for one in found])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


def used(
    found: Sequence[Interval], limit: int, without: Sequence[tuple[float, float]], waited_until: float
) -> float:
    """The share of the limit that was used while work waited, some stretches of time left out."""
    first, last = found[0].began, min(waited_until, found[-1].began)
    moments = sorted([(one.began, 1) for one in found] + [(one.ended, -1) for one in found])
    area = time = 0.0
    now = 0
    before = first
    for at, change in moments:
        at = min(at, last)
        left_out = sum(max(0.0, min(at, end) - max(before, start)) for start, end in without)
        counted = max(0.0, at - before - left_out)
        area += min(now, limit) * counted
        time += counted
        before = at
        now += change
    return area / (limit * time) if time else 1.0


def most_in_window(found: Sequence[Interval], seconds: float) -> int:
    """The largest number of starts in any window of this length."""
    starts = [one.began for one in found]
    first = most = 0
    for place, at in enumerate(starts):
        while starts[first] <= at - seconds:
            first += 1
        most = max(most, place - first + 1)
    return most


def longest_way_back(found: Sequence[Interval], limit: int, deaths: Iterable[float]) -> float | None:
    """The longest time from one of these deaths until the limit was used in full again."""
    waits = []
    for death in deaths:
        full = (one.began for one in found if one.began > death and _overlapping(found, one.began) >= limit)
        if (first := next(full, None)) is not None:
            waits.append(first - death)
    return round(max(waits), 2) if waits else None


def _overlapping(found: Iterable[Interval], at: float) -> int:
    return sum(1 for one in found if one.began <= at < one.ended)
