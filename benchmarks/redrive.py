"""A million dead letters: previewed, frozen, redriven while others work; then again while drivers are killed.

python -m benchmarks.redrive --write docs/benchmarks/redrive.json      about 5 minutes
python -m benchmarks.redrive --tasks 100000                            shorter
"""

import argparse
import asyncio
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import DURABLE, postgres
from tests.tree import Tree

from benchmarks.engines import Ours, connect, engine_for, payload_of
from benchmarks.loops import about, write
from benchmarks.worker import worker
from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.connect import connect as connect_async
from holdfast.ops.audit import AuditReader
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.plan_view import PlanView
from holdfast.ops.plans import Plans
from holdfast.store.audit import AuditWriter

KILLS = 10
CHUNK = 250_000
LIVE_BATCH = 10
DEAD = """
insert into holdfast.tasks (
    id, enqueued_at, run_at, priority, kind, queue, payload, subject, trace_id, attempts, failures,
    mark, marked_at, failed_at, dead_reason, failure_class, error_code, error_message, error_stack,
    fingerprint
)
select
    holdfast.uuid7(), now(), now(), 2, 'video.render', 'later', '{"episode": 7, "shot": 3}',
    'episode-' || n %% 1000, 'trace-' || n, 3, 3, 'failed', now() - make_interval(secs => n * 0.01), now(),
    'max_attempts_exceeded', 'transient', 'TASK_EXECUTION_FAILED', 'provider answered 503',
    repeat('stack ', 50), 'f' || n %% 20
from generate_series(%(first)s::integer, %(last)s::integer) n
"""
KILL = """
with gone as (delete from holdfast.ready r where r.queue = 'later' returning r.id)
update holdfast.tasks t
set mark = 'failed', marked_at = now(), failed_at = now(), dead_reason = 'max_attempts_exceeded',
    failure_class = 'transient', error_code = 'TASK_EXECUTION_FAILED',
    error_message = 'provider answered 503', fingerprint = 'f1'
from gone where t.id = gone.id
"""


@contextmanager
def live(url: str, taken: list[float]) -> Iterator[None]:
    """Tasks that come and go beside it; how long each claim takes, in ms."""
    stop = threading.Event()

    def work() -> None:
        with connect(url) as conn:
            engine = engine_for("holdfast", conn, "live", payload_of(220))
            while not stop.is_set():
                engine.enqueue(LIVE_BATCH)
                began = time.monotonic()
                found = engine.claim(LIVE_BATCH)
                taken.append(1_000 * (time.monotonic() - began))
                engine.complete(found)
                time.sleep(0.005)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def p99(taken: list[float]) -> float:
    """Of a hundred, the slowest but one."""
    return round(statistics.quantiles(taken, n=100)[98], 2)


async def redriven(url: str, tree: Tree, kills: int, limit: float) -> dict[str, object]:
    """One plan over everything that is dead, from its preview to the last item."""
    settings = Settings(database_url=url, approval_above=10_000_000)
    plans = Plans(settings, by="ada")
    rng = random.Random(5)
    async with await connect_async(url) as conn:
        began = time.monotonic()
        preview = await plans.preview(conn, DeadFilter())
        previewed = time.monotonic()
        plan = await plans.freeze(conn, DeadFilter(), "the provider is back")
        frozen = time.monotonic()
        await plans.start(conn, plan.id)
        started = time.monotonic()
        killed = 0
        while True:
            plan = await plans.show(conn, plan.id)
            if plan.state == "finished":
                break
            assert time.monotonic() - started < limit, f"{plan.sent} of {plan.items} after {limit:g} s"
            due = plan.items * (killed + 0.5) / max(1, kills)
            if killed < kills and plan.sent >= due and (pids := tree.executors()):
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed += 1
            await asyncio.sleep(0.1)
        done = time.monotonic()
        return {
            "tasks": preview.tasks,
            "preview, s": round(previewed - began, 2),
            "freeze, s": round(frozen - previewed, 2),
            "start with drift, s": round(started - frozen, 2),
            "all sent, s": round(done - started, 2),
            "killed": killed,
        } | await _checked(conn, plan)


async def _checked(conn: Conn, plan: PlanView) -> dict[str, object]:
    """What the tables say of it: nothing twice, nothing missed."""
    cursor = await conn.execute(
        "select (select count(*) from holdfast.ready where queue = 'later'),"
        " (select count(*) from holdfast.audit_log"
        "  where batch_id = %(p)s::uuid and action = 'TASK_RETRY_BATCH_ITEM'),"
        " (select count(distinct task_id) from holdfast.audit_log"
        "  where batch_id = %(p)s::uuid and action = 'TASK_RETRY_BATCH_ITEM'),"
        " (select count(*) from holdfast.audit_log"
        "  where batch_id = %(p)s::uuid and action = 'TASK_RETRY_BATCH_SUMMARY'),"
        " (select min(replay_count) || ' to ' || max(replay_count) from holdfast.tasks"
        "  where queue = 'later')",
        {"p": plan.id},
    )
    row = await cursor.fetchone()
    assert row is not None, "counts always answer"
    back, items, distinct, roots, replays = row
    return {
        "back in the queue": back,
        "entries": items,
        "of different tasks": distinct,
        "roots": roots,
        "replays of a task": replays,
        "skipped": plan.skipped,
    }


async def verified(url: str) -> dict[str, object]:
    """How long it takes to seal and to prove the audit."""
    settings = Settings(database_url=url)
    async with await connect_async(url) as conn:
        began = time.monotonic()
        while await AuditWriter(settings).seal(conn):
            pass
        sealed = time.monotonic()
        found = await AuditReader(settings).verify(conn)
        return {
            "entries": found.entries,
            "wrong": list(found.wrong),
            "seal, s": round(sealed - began, 2),
            "verify, s": round(time.monotonic() - sealed, 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        with connect(url) as conn:
            Ours.install(conn)
            for first in range(1, chosen.tasks + 1, CHUNK):
                last = min(first + CHUNK - 1, chosen.tasks)
                conn.execute(DEAD, {"first": first, "last": last})
            conn.execute("vacuum analyze")
            conn.execute("checkpoint")
            calm: list[float] = []
            with live(url, calm):
                time.sleep(10)
            beside: list[float] = []
            with worker(url, "--processes", 2, app="benchmarks.apps:app") as tree:
                asyncio.run(tree.ready(2))
                with live(url, beside):
                    found["redrive"] = asyncio.run(redriven(url, tree, 0, 600))
                found["a live claim, p99 in ms"] = {"before": p99(calm), "beside": p99(beside)}
                print(found, flush=True)
                conn.execute(KILL)
                conn.execute("vacuum analyze")
                found["redrive, drivers killed"] = asyncio.run(redriven(url, tree, KILLS, 900))
                print(found, flush=True)
        found["audit"] = asyncio.run(verified(url))
    write(chosen.write, found)


if __name__ == "__main__":
    main()
