"""A whole worker: how fast it drains, how soon it starts, what it costs when idle, whether it stays small.

python -m benchmarks.worker --write docs/benchmarks/worker.json           rates, about 3 minutes
"""

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import LiteralString

import psycopg
from tests.cluster import DURABLE, QUICK, cluster, postgres
from tests.tree import Tree, until

from benchmarks.engines import Ours, connect
from benchmarks.loops import about, pairs, spread, write

DRAIN_TASKS = 200_000
# One death costs about 1.5 s, once: the executor that comes up, and the suspects that run alone.
BLAME_TASKS = 1_000_000
BULK_TASKS = {"noop": 100_000, "row": 20_000}
LATENCY_TASKS = 100
# One round of upkeep comes every minute.
IDLE_SECONDS = 60.0
ENQUEUE = """
select from holdfast.enqueue_many(
    ids => array(select holdfast.uuid7() from generate_series(1, %(n)s)),
    kinds => array[%(kind)s],
    payloads => array_fill('{}'::jsonb, array[%(n)s]),
    queues => array['default'],
    hints => %(hints)s
)
"""


@contextmanager
def worker(url: str, *options: object, app: str = "tests.apps:app") -> Iterator[Tree]:
    """One worker that logs to a file."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        tree = Tree(url, Path(folder), "bench", app).start(*options)
        try:
            yield tree
        finally:
            tree.close()


def enqueue(url: str, kind: str, tasks: int, *, hints: bool = True) -> None:
    """Put tasks there, a thousand at a time."""
    with connect(url) as conn:
        for _ in range(max(1, tasks // 1_000)):
            conn.execute(ENQUEUE, {"n": min(tasks, 1_000), "kind": kind, "hints": hints})


def settled(conn: "psycopg.Connection[tuple[object, ...]]", schema: LiteralString = "holdfast") -> int:
    """How many tasks have ended so far."""
    row = conn.execute(
        f"select (select coalesce(sum(tasks), 0) from {schema}.settled_deltas)"
        f" + (select coalesce(sum(tasks), 0) from {schema}.settled_minutes)"
    ).fetchone()
    assert row is not None
    return int(str(row[0]))


def drain(url: str, *options: object) -> float:
    """Tasks per second of one worker on a backlog of no-ops, from 10 % to 90 % of it."""
    with connect(url) as conn:
        Ours.install(conn)
        enqueue(url, "noop", DRAIN_TASKS)
        conn.execute("vacuum analyze")
        with worker(url, *options) as tree:
            marks: list[tuple[float, int]] = []
            while not marks or marks[-1][1] < DRAIN_TASKS:
                marks.append((time.monotonic(), settled(conn)))
                time.sleep(0.1)
                assert tree.process.poll() is None, tree.said()[-2_000:]
    middle = [mark for mark in marks if DRAIN_TASKS * 0.1 <= mark[1] <= DRAIN_TASKS * 0.9]
    (t0, n0), (t1, n1) = middle[0], middle[-1]
    return (n1 - n0) / (t1 - t0)


def bulk(url: str, kind: str) -> float:
    """Tasks per second of one worker on a backlog of single tasks, or of the same work in bulk."""
    tasks = BULK_TASKS[kind.split(".")[1]]
    with connect(url) as conn:
        Ours.install(conn)
        conn.execute("drop table if exists bench_rows; create table bench_rows (id uuid primary key)")
        enqueue(url, kind, tasks)
        conn.execute("vacuum analyze")
        with worker(url, "--concurrency", 20, "--processes", 2, app="benchmarks.apps:app"):
            while (first := settled(conn)) < tasks * 0.1:
                time.sleep(0.02)
            began = time.monotonic()
            while (last := settled(conn)) < tasks * 0.9:
                time.sleep(0.02)
    return (last - first) / (time.monotonic() - began)


def blame(url: str, guilty: int) -> float:
    """Tasks per second of the others, from the first to the last, with so many that kill their process."""
    with connect(url) as conn:
        Ours.install(conn)
        enqueue(url, "noop", 1_000)
        for _ in range(guilty):
            conn.execute(ENQUEUE, {"n": 1, "kind": "segfault", "hints": False})
        enqueue(url, "noop", BLAME_TASKS)
        conn.execute("vacuum analyze")
        with worker(url, "--concurrency", 200, "--processes", 2) as tree:
            asyncio.run(until(lambda: tree.executors(), what="it to be up"))
            while settled(conn) == 0:
                time.sleep(0.01)
            began = time.monotonic()
            while settled(conn) < BLAME_TASKS + 1_000 + guilty:
                time.sleep(0.05)
                assert tree.process.poll() is None, tree.said()[-2_000:]
            took = time.monotonic() - began
            poisoned = len(tree.lines("task.failed"))
        assert poisoned == guilty, f"{poisoned} of {guilty} were found"
    return BLAME_TASKS / took


def latency(url: str, *, hints: bool, sleep: float) -> dict[str, float]:
    """From the commit of an enqueue to the first line of its handler, while the worker is idle, in ms."""
    taken: list[float] = []
    with connect(url) as conn:
        Ours.install(conn)
        with worker(url, "--sleep", sleep) as tree:
            enqueue(url, "effect", 1)
            asyncio.run(until(lambda: tree.effects(), what="it to be up"))
            for number in range(LATENCY_TASKS):
                time.sleep(random.uniform(0.2, 0.7))
                conn.execute(ENQUEUE, {"n": 1, "kind": "effect", "hints": hints})
                began = time.monotonic()
                asyncio.run(until(partial(_started, tree, number + 2), what="its start"))
                taken.append(1_000 * (tree.effects()[-1].at - began))
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": round(cuts[49], 2), "p99": round(cuts[98], 2), "max": round(max(taken), 2)}


def _started(tree: Tree, tasks: int) -> bool:
    return len(tree.effects()) >= tasks


def idle() -> dict[str, float]:
    """Statements per second of one worker with nothing to do, as the server's own log counts them."""
    with cluster(15, QUICK | {"log_statement": "all"}) as running:
        url = f"{running.url}/postgres"
        with connect(url) as conn:
            Ours.install(conn)
        log = running.folder / "log"
        with worker(url) as tree:
            asyncio.run(until(lambda: tree.executors(), what="it to be up"))
            time.sleep(5)
            before = statements(log)
            time.sleep(IDLE_SECONDS)
            after = statements(log)
    return {"statements per second": round((after - before) / IDLE_SECONDS, 2)}


def statements(log: Path) -> int:
    """How many the server has logged."""
    text = log.read_text()
    return text.count("LOG:  statement: ") + text.count("LOG:  execute ")


def resident(pid: int) -> int:
    """The memory of a process, in kB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")), 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["drain", "latency", "idle", "blame", "bulk"])
    parser.add_argument("--runs", type=int, default=5, help="of draining")
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        if chosen.only in (None, "drain"):
            for processes in (1, 2):
                rates = [drain(url, "--processes", processes) for _ in range(chosen.runs)]
                found[f"drain, tasks per second, {processes} process(es)"] = spread(rates)
                print(found, flush=True)
        if chosen.only in (None, "latency"):
            found["idle enqueue to start, ms, with hints"] = latency(url, hints=True, sleep=1.0)
            found["idle enqueue to start, ms, without hints, sleep 1 s"] = latency(
                url, hints=False, sleep=1.0
            )
            print(found, flush=True)
        if chosen.only in (None, "idle"):
            found["one idle worker"] = idle()
        if chosen.only in (None, "blame"):
            name = f"one that kills its process / none, among {BLAME_TASKS:,}"
            found[name] = pairs(3, ("0", "1"), lambda guilty: blame(url, int(guilty)))
        if chosen.only in (None, "bulk"):
            for work in BULK_TASKS:
                kinds = f"single.{work}", f"bulk.{work}"
                found[f"{work}: in bulk / one by one"] = pairs(5, kinds, lambda kind: bulk(url, kind))
                print(found[f"{work}: in bulk / one by one"], flush=True)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
