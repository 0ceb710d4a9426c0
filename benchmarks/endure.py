"""Two million tasks through one worker that replaces its processes: does it stay small?

python -m benchmarks.endure --write docs/benchmarks/endure.json
"""

import argparse
import asyncio
import signal
import statistics
import threading
import time
from pathlib import Path

import psycopg
from tests.cluster import DURABLE, postgres
from tests.tree import Tree

from benchmarks.engines import Ours, connect
from benchmarks.loops import about, spread, write
from benchmarks.worker import ENQUEUE, resident, settled, worker

TASKS = 2_000_000


def endure(url: str, tasks: int) -> dict[str, object]:
    """Many tasks through one tree that replaces its processes: memory, connections, descriptors."""
    with connect(url) as conn:
        Ours.install(conn)
        stop = threading.Event()
        with worker(url, "--processes", 2, "--max-tasks", 50_000, "--concurrency", 20) as tree:
            producing = threading.Thread(target=_keep_fed, args=(url, tasks, stop))
            producing.start()
            samples: list[dict[str, int]] = []
            began = time.monotonic()
            while (done := settled(conn)) < tasks:
                samples.append({"done": done} | _weight(tree) | _connections(conn))
                time.sleep(2)
                assert tree.process.poll() is None, tree.said()[-2_000:]
            seconds = time.monotonic() - began
            producing.join()
            ended = len(tree.lines("executor.ended"))
            late = len(tree.lines("task.late_result_refused"))
            tree.signal(signal.SIGTERM)
            asyncio.run(tree.left(30))
        warm = [sample for sample in samples if sample["done"] > tasks * 0.1]
        third = len(warm) // 3
        left = _connections(conn)["connections"]
    return {
        "tasks": tasks,
        "seconds": round(seconds),
        "per_second": round(tasks / seconds),
        "processes replaced": ended,
        "late results": late,
        "supervisor kB": {
            "first third": _median(warm[:third], "supervisor"),
            "last third": _median(warm[-third:], "supervisor"),
        },
        "one executor kB": {
            "first third": _median(warm[:third], "executor"),
            "last third": _median(warm[-third:], "executor"),
        },
        "connections": spread([sample["connections"] for sample in warm]),
        "supervisor descriptors": {
            "first third": _median(warm[:third], "descriptors"),
            "last third": _median(warm[-third:], "descriptors"),
        },
        "connections after it left": left,
    }


def _keep_fed(url: str, tasks: int, stop: threading.Event) -> None:
    put = 0
    with connect(url) as conn:
        while put < tasks and not stop.is_set():
            if put - settled(conn) < 40_000:
                for _ in range(10):
                    conn.execute(ENQUEUE, {"n": 1_000, "kind": "noop", "hints": True})
                put += 10_000
            else:
                time.sleep(0.2)


def _weight(tree: Tree) -> dict[str, int]:
    return {
        "supervisor": resident(tree.process.pid),
        # By the process: how many there are changes while one is replaced.
        "executor": max((resident(pid) for pid in tree.executors()), default=0),
        "descriptors": len(list(Path(f"/proc/{tree.process.pid}/fd").iterdir())),
    }


def _connections(conn: "psycopg.Connection[tuple[object, ...]]") -> dict[str, int]:
    row = conn.execute(
        "select count(*) from pg_stat_activity where application_name like 'holdfast%'"
    ).fetchone()
    assert row is not None
    return {"connections": int(str(row[0]))}


def _median(samples: list[dict[str, int]], name: str) -> int:
    return int(statistics.median(sample[name] for sample in samples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    with postgres(15, DURABLE) as server:
        found = endure(f"{server}/postgres", chosen.tasks)
    write(chosen.write, {"about": about(), "endure": found})


if __name__ == "__main__":
    main()
