"""The checker: what was acknowledged, what the handlers did, and what the database says must agree."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from tests.world import INVARIANTS

CRASHES_MAX = 3


@dataclass(slots=True)
class Report:
    """What was found; `broken` is empty if every promise held."""

    counts: dict[str, object] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def expect(self, wanted: object, text: str, examples: Sequence[object] = ()) -> None:
        if not wanted:
            self.broken.append(text + (f": {list(examples)[:5]}" if examples else ""))


def check(  # noqa: PLR0915 (one promise after another)
    url: str, acknowledged: Mapping[str, str], record: Path, max_attempts: Mapping[str, int]
) -> Report:
    """Compare the three records; `acknowledged` is task → kind, as the producers were told."""
    report = Report()
    with psycopg.connect(url) as conn:
        # One moment for all of it: what ends between two looks would be in neither.
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        completed: dict[str, int] = dict(
            conn.execute("select id::text, fence from holdfast.task_history").fetchall()
        )
        left = {
            row[0]: row[1:]
            for row in conn.execute(
                "select id::text, kind, mark, failures, crashes, failure_class from holdfast.tasks"
            ).fetchall()
        }
        ended = conn.execute("select task_id::text, fence, ended_as from holdfast.task_attempts").fetchall()
        reasons = conn.execute(
            "select task_id::text, fence, reason from holdfast.task_attempts"
            " where reason in ('not_started', 'ended', 'unsettled')"
        ).fetchall()
        misplaced = [row[0] for row in conn.execute(INVARIANTS).fetchall()]
        counters = conn.execute(
            "select id::text, kind, failures, crashes, attempts from holdfast.task_history"
        ).fetchall()
        places = conn.execute(
            "select (select count(*) from holdfast.ready), (select count(*) from holdfast.running),"
            " (select count(*) from holdfast.blocked)"
        ).fetchone()
    starts: dict[str, list[int]] = defaultdict(list)
    ends: set[tuple[str, int]] = set()
    torn = 0
    for line in record.read_text().splitlines():
        parts = line.split(" ")
        if len(parts) != 6:
            torn += 1
        elif parts[0] == "start":
            starts[parts[2]].append(int(parts[3]))
        elif parts[0] == "end":
            ends.add((parts[2], int(parts[3])))

    lost = [task for task in acknowledged if task not in completed and task not in left]
    report.expect(not lost, f"{len(lost)} acknowledged tasks are nowhere", lost)
    unfinished = [(task, row[0]) for task, row in left.items() if row[1] is None]
    report.expect(not unfinished, f"{len(unfinished)} tasks have not ended", unfinished)
    report.expect(places == (0, 0, 0), f"ready, running, waiting are not empty: {places}")
    report.expect(not misplaced, f"{len(misplaced)} invariants are broken", misplaced)

    ran = [key for *key, reason in reasons if reason == "not_started" and key[1] in starts[key[0]]]
    report.expect(not ran, f"{len(ran)} claims ran and are on record as not started", ran)
    unended = [key for *key, reason in reasons if reason != "not_started" and tuple(key) not in ends]
    report.expect(not unended, f"{len(unended)} are on record as ended and did not end", unended)

    without = [task for task, fence in completed.items() if fence not in starts[task]]
    report.expect(not without, f"{len(without)} completed under a fence that never started", without)
    stale = [task for task, fence in completed.items() if starts[task] and fence < max(starts[task])]
    report.expect(not stale, f"{len(stale)} stale results accepted", stale)

    accepted = Counter((task, fence) for task, fence, how in ended if how != "late")
    accepted.update(completed.items())
    twice = [key for key, times in accepted.items() if times > 1]
    report.expect(not twice, f"{len(twice)} claims were settled twice", twice)
    repeated = [task for task, fences in starts.items() if len(fences) != len(set(fences))]
    report.expect(not repeated, f"{len(repeated)} claims were started twice", repeated)

    for task, kind, failures, crashes, _ in counters:
        if failures >= max_attempts.get(kind, 3) or crashes >= CRASHES_MAX:
            report.broken.append(f"{task} completed with {failures} failures and {crashes} crashes")
    for task, (kind, mark, failures, crashes, failure_class) in left.items():
        expected = kind in ("segfault", "hopeless")
        if mark == "failed" and not expected and failure_class != "poison":
            report.broken.append(f"{task} of kind {kind} failed as {failure_class}")
        if failures > max_attempts.get(kind, 3) or crashes > CRASHES_MAX:
            report.broken.append(f"{task} has {failures} failures and {crashes} crashes")
    innocent = [task for task, row in left.items() if row[4] == "poison" and row[0] != "segfault"]
    executions = sum(map(len, starts.values()))
    report.counts = {
        "acknowledged": len(acknowledged),
        "completed": len(completed),
        "failed": len(left),
        "executions": executions,
        "ended without being settled": sum(reason != "not_started" for *_, reason in reasons),
        "run more than once": sum(len(fences) > 1 for fences in starts.values()),
        "late results refused": sum(how == "late" for _, _, how in ended),
        "ended as": dict(Counter(how for _, _, how in ended)),
        "poisoned though innocent": len(innocent),
        "torn lines": torn,
    }
    return report
