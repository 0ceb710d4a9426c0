"""Kills executors between the end of the last handler and its settle: `python -m tests.endings --rounds 200`.

A round counts only if the flight record says *ended, not written* at the kill. Afterwards every run of a
handler must be on record as what it was: completed, given back as ended, or lost while it ran.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.worker.flight_record import FlightRecord
from tests.cluster import cluster
from tests.flights import flight_record, stop
from tests.tree import Tree

DATABASE = "endings"
TASKS = 40
# How long after the last handler's end the process is killed at the most; a settle takes about half of it.
GAP_SECONDS = 0.012
# An executor that dies young is replaced with a growing delay, so a new worker is started instead.
KILLS_PER_TREE = 2
PATIENCE_SECONDS = 60.0

Key = tuple[str, int]


@dataclass(slots=True)
class Rounds:
    """What was done: how often the fault hit, and which claims it hit."""

    counted: int = 0
    missed: int = 0
    hit: set[Key] = field(default_factory=set)
    killed: set[int] = field(default_factory=set)


async def _prepare(url: str) -> None:
    async with await connect(f"{url}/postgres") as conn:
        await conn.execute(f"create database {DATABASE}")
    async with await connect(f"{url}/{DATABASE}") as conn:
        await migrate_up(conn, "holdfast")


def _patiently(what: str, began: float) -> None:
    if time.monotonic() - began > PATIENCE_SECONDS:
        raise TimeoutError(f"waited {PATIENCE_SECONDS:g} s for {what}")


def _wait_for_the_last_end(record: FlightRecord, ended: Path, before: int) -> None:
    """Until no handler is at work; the outcomes may be written by then."""
    began = time.monotonic()
    while record.running() or _ends(ended) < before + TASKS:
        _patiently("the end of the handlers", began)


def _ends(record: Path) -> int:
    return record.read_bytes().count(b"end ") if record.exists() else 0


def _executor(tree: Tree, killed: set[int]) -> int:
    began = time.monotonic()
    while not (found := [pid for pid in tree.executors() if pid not in killed]):
        _patiently("an executor", began)
        time.sleep(0.01)
    return found[0]


def _round(
    conn: "psycopg.Connection[tuple[object, ...]]", tree: Tree, rounds: Rounds, choose: random.Random
) -> bool:
    """Whether the fault hit."""
    pid = _executor(tree, rounds.killed)
    seconds = choose.uniform(0.01, 0.05)
    before = _ends(tree.record)
    conn.execute(
        "select holdfast.enqueue('sleep', jsonb_build_object('seconds', %s::float))"
        " from generate_series(1, %s)",
        [seconds, TASKS],
    )
    with flight_record(pid, TASKS) as record:
        _wait_for_the_last_end(record, tree.record, before)
        until = time.monotonic() + choose.uniform(0.0, GAP_SECONDS)
        while time.monotonic() < until:
            pass
        entries = stop(pid, record)
        hit = bool(entries) and all(flight.ended for flight in entries)
        os.kill(pid, signal.SIGKILL if hit else signal.SIGCONT)
    if hit:
        rounds.counted += 1
        rounds.killed.add(pid)
        rounds.hit |= {flight.key for flight in entries}
    else:
        rounds.missed += 1
    return hit


def _settle_down(conn: "psycopg.Connection[tuple[object, ...]]") -> None:
    began = time.monotonic()
    while conn.execute("select exists (select from holdfast.tasks where mark is null)").fetchone() == (True,):
        _patiently("the end of all tasks", began)
        time.sleep(0.05)


def _judge(
    conn: "psycopg.Connection[tuple[object, ...]]", tree: Tree, rounds: Rounds
) -> tuple[list[str], Counter[str]]:
    """What is on record wrongly, and as what the claims that were hit are on record."""
    completed = set(conn.execute("select id::text, fence from holdfast.task_history").fetchall())
    attempts: dict[Key, list[object]] = {
        (str(task), int(str(fence))): how
        for task, fence, *how in conn.execute(
            "select task_id::text, fence, ended_as, reason from holdfast.task_attempts"
            " where ended_as <> 'late'"
        ).fetchall()
    }
    broken: list[str] = []
    for what in ("start", "end"):
        for effect in tree.effects(what):
            key = effect.task, effect.fence
            how = ["complete", None] if key in completed else attempts.get(key, ["nothing", None])
            if how[0] not in ("complete", "reclaim") or (what == "end" and how == ["reclaim", None]):
                broken.append(f"{key} reached its {what} and is on record as {how}")
    found = Counter(
        "completed" if key in completed else " ".join(map(str, attempts.get(key, ["nothing"])))
        for key in rounds.hit
    )
    if odd := set(found) - {"completed", "reclaim ended"}:
        broken.append(f"claims that were hit are on record as {odd}")
    counters = conn.execute(
        "select count(*) from holdfast.task_history where crashes > 0 or failures > 0"
    ).fetchone()
    failed = conn.execute("select count(*) from holdfast.tasks").fetchone()
    if counters != (0,) or failed != (0,):
        broken.append(f"{counters} tasks were accused, {failed} have not completed")
    return broken, found


def endings(wanted: int, seed: int) -> int:
    """So many rounds; prints what was seen, and answers the exit status."""
    choose = random.Random(seed)
    rounds = Rounds()
    with ExitStack() as stack:
        url = f"{stack.enter_context(cluster(15)).url}/{DATABASE}"
        asyncio.run(_prepare(url.rpartition("/")[0]))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-endings-")))
        conn = stack.enter_context(psycopg.connect(url, autocommit=True))
        number = 0
        tree = Tree(url, folder)
        while rounds.counted < wanted and rounds.missed < 5 * wanted:
            tree = Tree(url, folder, f"tree-{number}").start("--concurrency", TASKS, "--lease", 10)
            stack.callback(tree.close)
            number += 1
            kills = 0
            while kills < KILLS_PER_TREE and rounds.counted < wanted:
                kills += _round(conn, tree, rounds, choose)
                _settle_down(conn)
            tree.close()
        broken, found = _judge(conn, tree, rounds)
    sys.stdout.write(
        f"seed {seed}: {rounds.counted} of {rounds.counted + rounds.missed} rounds hit {len(rounds.hit)}"
        f" claims between their end and their settle\non record: {dict(found)}\n"
    )
    for line in broken[:10]:
        sys.stdout.write(f"BROKEN {line}\n")
    return 1 if broken or rounds.counted < wanted else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    chosen = parser.parse_args()
    return endings(chosen.rounds, chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
