"""A flood of one tenant's tasks beside another tenant's few: `python -m tests.floods`.

One worker with four executors runs a handler that does nothing, under a limit for each tenant. While the
tasks of tenant A arrive, tenant B enqueues five a second into the same queue. Printed is how long those took
from their commit to their start. The run fails if the 99th percentile is above a second.
"""

import argparse
import asyncio
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import psycopg
from uuid_utils import uuid7

from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from tests.cluster import DURABLE, postgres
from tests.tree import Tree

DATABASE = "floods"
GROUP = 1_000
LEFT_OVER = ("ready", "blocked", "running", "tasks", "line", "permits", "workers")
P99_SECONDS_MAX = 1.0
EVERY_SECONDS = 0.2
# So long before and after the flood is watched, too.
BEFORE_SECONDS, AFTER_SECONDS = 2.0, 10.0
PATIENCE_SECONDS = 60.0
FLOOD = """
select from holdfast.enqueue_many(
    ids => array(select holdfast.uuid7() from generate_series(1, %(n)s)),
    kinds => array['render'],
    payloads => array_fill('{"tenant": "A"}'::jsonb, array[%(n)s]),
    bucket_names => array_fill('render/tenant=A'::text, array[%(n)s])
)
"""
ONE = """
select holdfast.enqueue(
    'render', '{"tenant": "B", "watched": true}', bucket => 'render/tenant=B', id => %s::uuid
)
"""


def produce(url: str, groups: int) -> None:
    """Groups of a thousand, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as conn:
        for _ in range(groups):
            conn.execute(FLOOD, {"n": GROUP})


def produce_at_once(url: str, groups: int) -> None:
    """The same in one transaction."""
    with psycopg.connect(url) as conn:
        for _ in range(groups):
            conn.execute(FLOOD, {"n": GROUP})


def produce_one_by_one(url: str, groups: int) -> None:
    """The same in one transaction, as a trigger for each row would do it."""
    with psycopg.connect(url) as conn:
        conn.execute(
            "select count(holdfast.enqueue('render', '{\"tenant\": \"A\"}', bucket => 'render/tenant=A'))"
            " from generate_series(1, %s)",
            [groups * GROUP],
        )


FLOODS: dict[str, tuple[Callable[[str, int], None], int, int]] = {
    "two producers, groups of 1,000": (produce, 2, 500),
    "one transaction of 100,000": (produce_at_once, 1, 100),
    "one transaction of 100,000, one by one": (produce_one_by_one, 1, 100),
}


def watch(conn: "psycopg.Connection[tuple[object, ...]]", over: Callable[[], bool]) -> dict[str, float]:
    """Enqueue one task of tenant B every fifth of a second; when each was committed."""
    committed: dict[str, float] = {}
    due = time.monotonic()
    while not over():
        task = str(uuid7())
        conn.execute(ONE, [task])
        committed[task] = time.monotonic()
        due += EVERY_SECONDS
        time.sleep(max(0.0, due - time.monotonic()))
    return committed


def waits(tree: Tree, committed: dict[str, float]) -> list[float]:
    """How long each took from its commit to its start, sorted."""
    began = time.monotonic()
    while True:
        started = {effect.task: effect.at for effect in tree.effects() if effect.task in committed}
        if len(started) == len(committed):
            return sorted(max(0.0, at - committed[task]) for task, at in started.items())
        if time.monotonic() - began > PATIENCE_SECONDS:
            return sorted(started.get(task, float("inf")) - at for task, at in committed.items())
        time.sleep(0.1)


def flood(url: str, folder: Path, name: str) -> dict[str, object]:
    """One flood; what was seen."""
    produced, producers, groups = FLOODS[name]
    with ExitStack() as stack:
        conn = stack.enter_context(psycopg.connect(url, autocommit=True))
        conn.execute(f"truncate {', '.join(f'holdfast.{table}' for table in LEFT_OVER)}")
        tree = Tree(url, folder, "flood", "tests.flood_app:app").start("--processes", 4)
        stack.callback(tree.close)
        _wait_for_executors(conn, tree)
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=produced, args=(url, groups)) for _ in range(producers)]
        quiet = watch(conn, _after(BEFORE_SECONDS))
        began = time.monotonic()
        for process in processes:
            process.start()
        during = watch(conn, lambda: not any(process.is_alive() for process in processes))
        took = time.monotonic() - began
        after = watch(conn, _after(AFTER_SECONDS))
        # A transaction is seen when it has committed.
        counted = during | after if produced is produce else after
        return {
            "tasks": producers * groups * GROUP,
            "arrived in, s": round(took, 1),
            "before": _told(waits(tree, quiet)),
            "watched": _told(waits(tree, counted)),
            "of tenant A completed by then": _completed(conn) - len(quiet) - len(during) - len(after),
        }


def _after(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() >= end


def _wait_for_executors(conn: "psycopg.Connection[tuple[object, ...]]", tree: Tree) -> None:
    began = time.monotonic()
    while conn.execute("select count(*) from holdfast.workers where lost_at is null").fetchone() != (4,):
        assert time.monotonic() - began < PATIENCE_SECONDS, tree.said()
        time.sleep(0.1)


def _completed(conn: "psycopg.Connection[tuple[object, ...]]") -> int:
    row = conn.execute("select count(*) from holdfast.task_history").fetchone()
    assert row is not None, "a count always answers"
    return int(str(row[0]))


def _told(seconds: Sequence[float]) -> dict[str, float]:
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    told = {
        name: round(seconds[min(len(seconds) - 1, int(len(seconds) * share))], 3)
        for name, share in at.items()
    }
    return {"tasks": len(seconds)} | told


async def _prepare(url: str) -> None:
    async with await connect(f"{url}/postgres") as conn:
        await conn.execute(f"create database {DATABASE}")
    async with await connect(f"{url}/{DATABASE}") as conn:
        await migrate_up(conn, "holdfast")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=FLOODS, action="append")
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, dict[str, object]] = {}
    with ExitStack() as stack:
        url = stack.enter_context(postgres(15, DURABLE))
        asyncio.run(_prepare(url))
        for name in chosen.only or FLOODS:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-floods-")))
            found[name] = flood(f"{url}/{DATABASE}", folder, name)
            sys.stdout.write(f"{name}: {json.dumps(found[name])}\n")
            sys.stdout.flush()
    if chosen.write:
        Path(chosen.write).write_text(json.dumps(found, indent=2) + "\n")
    late = [name for name, about in found.items() if about["watched"]["p99"] > P99_SECONDS_MAX]  # type: ignore[index]
    if late:
        sys.stdout.write(f"above {P99_SECONDS_MAX:g} s: {', '.join(late)}\n")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
