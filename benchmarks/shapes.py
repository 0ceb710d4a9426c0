"""Other shapes of work than a drain: threads, processes, offered load, enqueuing, idle fleets.

python -m benchmarks.shapes --write docs/benchmarks/shapes.json      about 18 minutes
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb
from tests.cluster import DURABLE, QUICK, cluster, postgres
from tests.tree import Tree, until
from uuid_utils import uuid7

from benchmarks.apps import STARTS
from benchmarks.engines import Ours, connect, payload_of
from benchmarks.limits import between
from benchmarks.loops import about, compared, in_turn, pairs, spread, write
from benchmarks.suite import bare, whole
from benchmarks.systems import HOLDFAST
from benchmarks.worker import enqueue, resident, statements, worker

APP = "benchmarks.apps:app"
TASKS = 100_000
STEADY_SECONDS = 10.0
WARM_SECONDS = 3.0
DRAINS = {
    "coroutines": ("single.noop", 2),
    "threads": ("single.sync", 2),
    "eight processes": ("single.noop", 8),
}
LOADS = {0.001: (500, 2_000, 8_000), 0.02: (200, 1_000, 4_000)}
FLEET = 100
STARTED_TOGETHER = 4
TURNS_WITHOUT_A_FLOOR = 3
ENQUEUE_SECONDS = 5.0
HEAVY_BYTES = 8_192
HEAVY_TASKS = 200_000
# The same rows as an enqueue makes, without keys, limits, hints or defaults.
INSERT = """
with facts as (
    insert into holdfast.tasks (id, enqueued_at, run_at, priority, version, kind, queue, payload, trace_id)
    select u.id, now(), now(), 2, 1, 'noop', 'default', u.payload, 'trace-000001'
    from unnest(%(ids)b::uuid[], %(payloads)b::jsonb[]) as u (id, payload)
    returning id, run_at
)
insert into holdfast.ready (run_at, id, priority, queue, kind)
select f.run_at, f.id, 2, 'default', 'noop' from facts f
"""
STEADY = """
select from holdfast.enqueue_many(ids => %(ids)s::uuid[], kinds => array['steady'], payloads => %(payloads)s)
"""
MANY = """
select from holdfast.enqueue_many(
    ids => %(ids)b::uuid[], kinds => array['noop'], payloads => %(payloads)b::jsonb[],
    trace_ids => array_fill('trace-000001'::text, array[cardinality(%(ids)b::uuid[])])
)
"""


def drained(url: str, kind: str, processes: int) -> float:
    """Tasks per second of one worker on a backlog of one kind."""
    with connect(url) as conn:
        Ours.install(conn)
        enqueue(url, kind, TASKS)
        conn.execute("vacuum analyze")
        with worker(url, "--processes", processes, app=APP):
            return between(conn, TASKS)


def steady(url: str, seconds: float, offered: int) -> dict[str, float]:
    """From the commit of an enqueue to the start of its handler, in ms, at so many tasks a second."""
    with tempfile.TemporaryDirectory(prefix="holdfast-steady-") as folder, connect(url) as conn:
        Ours.install(conn)
        starts = Path(folder) / "starts"
        os.environ[STARTS] = str(starts)
        with worker(url, "--processes", 2, "--concurrency", 100, app=APP) as tree:
            asyncio.run(until(lambda: len(tree.executors()) == 2, what="it to be up"))
            # What is offered while it comes up, or learns how long a task takes, says nothing of the load.
            warm = len(_offer(conn, seconds, offered, WARM_SECONDS))
            put = _offer(conn, seconds, offered, STEADY_SECONDS)
            done = asyncio.run(until(lambda: _lines(starts) >= warm + len(put), 120, "the rest"))
        began = dict(line.split() for line in starts.read_text().splitlines())
    taken = [1_000 * (float(began[task]) - at) for task, at in put.items()]
    cuts = statistics.quantiles(taken, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1), "left over, s": round(done, 1)}


def _offer(
    conn: "psycopg.Connection[tuple[object, ...]]", seconds: float, offered: int, lasting: float
) -> dict[str, float]:
    put: dict[str, float] = {}
    began = time.monotonic()
    while (now := time.monotonic() - began) < lasting:
        due = int(now * offered) - len(put)
        if due > 0:
            ids = [str(uuid7()) for _ in range(due)]
            conn.execute(STEADY, {"ids": ids, "payloads": [Jsonb({"seconds": seconds})] * due})
            put |= dict.fromkeys(ids, time.monotonic())
        time.sleep(0.002)
    return put


def heavy(server: str, which: str) -> float:
    """Tasks of 8 kB per second: the minimal client's, or a whole worker's."""
    if which == "bare":
        return bare(server, "ours, 100", HEAVY_TASKS, HEAVY_BYTES)
    return whole(server, replace(HOLDFAST[1], tasks=HEAVY_TASKS), payload_bytes=HEAVY_BYTES)


def _lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def enqueued(url: str, how: str) -> float:
    """Tasks per second of one connection that enqueues."""
    payload = payload_of(220)
    with connect(url) as conn:
        Ours.install(conn)
        conn.execute("drop table if exists orders; create table orders (id uuid primary key)")
        put: Callable[[], int] = {
            "one by one": lambda: _one(conn, payload),
            "with a row of one's own": lambda: _with_a_row(conn, payload),
            "a thousand at once": lambda: _many(conn, MANY, payload),
            "bare insert of the same rows": lambda: _many(conn, INSERT, payload),
        }[how]
        done, began = 0, time.monotonic()
        while time.monotonic() - began < ENQUEUE_SECONDS:
            done += put()
        return done / (time.monotonic() - began)


def _one(conn: "psycopg.Connection[tuple[object, ...]]", payload: str) -> int:
    conn.execute(MANY, {"ids": [str(uuid7())], "payloads": [payload]}, prepare=True)
    return 1


def _with_a_row(conn: "psycopg.Connection[tuple[object, ...]]", payload: str) -> int:
    with conn.transaction():
        conn.execute("insert into orders values (%s)", [str(uuid7())], prepare=True)
        return _one(conn, payload)


def _many(conn: "psycopg.Connection[tuple[object, ...]]", statement: str, payload: str) -> int:
    conn.execute(
        statement, {"ids": [str(uuid7()) for _ in range(1_000)], "payloads": [payload] * 1_000}, prepare=True
    )
    return 1_000


def fleet(workers: int) -> dict[str, object]:
    """So many idle workers: their statements per second, their connections, their memory."""
    with ExitStack() as stack:
        running = stack.enter_context(
            cluster(15, QUICK | {"log_statement": "all", "max_connections": str(5 * workers + 20)})
        )
        url = f"{running.url}/postgres"
        conn = stack.enter_context(connect(url))
        Ours.install(conn)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-fleet-")))
        trees = [Tree(url, folder, f"idle-{number}", APP) for number in range(workers)]
        for together in range(0, workers, STARTED_TOGETHER):
            starting = trees[together : together + STARTED_TOGETHER]
            for tree in starting:
                stack.callback(tree.start().close)
            for tree in starting:
                asyncio.run(tree.ready())
        time.sleep(10)
        before = statements(running.folder / "log")
        time.sleep(20)
        after = statements(running.folder / "log")
        row = conn.execute(
            "select count(*) from pg_stat_activity where application_name like 'holdfast%'"
        ).fetchone()
        assert row is not None
        sizes = [sum(resident(pid) for pid in (tree.process.pid, *tree.executors())) for tree in trees]
        return {
            "workers": workers,
            "statements per second, all": round((after - before) / 20, 1),
            "connections": row[0],
            "resident kB of one": spread(sizes),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    scenes = ["drain", "steady", "enqueue", "heavy", "fleet"]
    parser.add_argument("--only", choices=scenes, action="append")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=FLEET)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    only = chosen.only or scenes
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        if "drain" in only:
            rates = in_turn(TURNS_WITHOUT_A_FLOOR, tuple(DRAINS), lambda name: drained(url, *DRAINS[name]))
            found["plain functions in threads / coroutines"] = compared(rates, "coroutines", "threads")
            found["eight processes / two"] = compared(rates, "coroutines", "eight processes")
        if "steady" in only:
            found["steady"] = {
                f"{seconds:g} s": {str(load): steady(url, seconds, load) for load in loads}
                for seconds, loads in LOADS.items()
            }
        if "enqueue" in only:
            bare = "bare insert of the same rows"
            found["enqueue a thousand at once / bare insert"] = pairs(
                chosen.pairs, (bare, "a thousand at once"), lambda how: enqueued(url, how)
            )
            for how in ("one by one", "with a row of one's own"):
                found[f"enqueue {how}, per second"] = round(enqueued(url, how))
        if "heavy" in only:
            found["drain, 8 kB, holdfast / bare"] = pairs(
                chosen.pairs, ("bare", "holdfast"), lambda which: heavy(server, which)
            )
    if "fleet" in only:
        found["idle"] = fleet(chosen.workers)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
