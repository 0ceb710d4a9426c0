"""Does it stay fast? The closed loop beside an old snapshot, large tables and slow transactions.

    python -m benchmarks.decay --write docs/benchmarks/decay.json            everything, about 35 minutes
    python -m benchmarks.decay --only snapshot --held 60                     one of them, shorter

Large tables are measured against empty ones in turn (ABAB): two installations of Holdfast stand in one
cluster, in two schemas, one empty and one with everything that could stand about at the same time.
"""

import argparse
import os
import time
from dataclasses import dataclass
from typing import LiteralString

from psycopg import Connection
from psycopg.rows import TupleRow
from tests.cluster import DURABLE, postgres

from benchmarks.engines import Ours, connect
from benchmarks.late import measure_late_commits
from benchmarks.loops import Loop, about, pairs, run, write
from benchmarks.snapshots import beside_a_worker, beside_the_loop
from benchmarks.worker import ENQUEUE, settled, worker

LOAD = """
with made as (
    select holdfast.uuid7() as id, {run_at} as run_at from generate_series({first}, {last})
), facts as (
    insert into holdfast.tasks (id, enqueued_at, run_at, priority, kind, queue, payload, trace_id {columns})
    select id, now(), run_at, 2, '{kind}', 'default', '{{"episode": 7, "shot": 3}}', 'trace-000001' {values}
    from made
)
{place}
"""
CHUNK = 250_000
EMPTY = "empty"
FILL = """
select from {schema}.enqueue_many(
    ids => array(select {schema}.uuid7() from generate_series(1, 1000)),
    kinds => array['burden'],
    payloads => array_fill('{{"episode": 7, "shot": 3}}'::jsonb, array[1000]),
    hints => false
)
"""


@dataclass(frozen=True, slots=True)
class Burden:
    """Rows that stand about while the loop runs."""

    rows: int
    place: str
    run_at: str = "clock_timestamp()"
    kind: str = "burden"
    columns: str = ""
    values: str = ""

    def load(self, conn: Connection[TupleRow]) -> None:
        """Put the rows there."""
        for first in range(1, self.rows + 1, CHUNK):
            last = min(first + CHUNK - 1, self.rows)
            conn.execute(
                LOAD.format(
                    run_at=self.run_at,
                    first=first,
                    last=last,
                    kind=self.kind,
                    columns=self.columns,
                    values=self.values,
                    place=self.place,
                )
            )


READY = """
insert into holdfast.ready (run_at, id, priority, queue, kind)
select run_at, id, 2, 'default', '{}' from made
"""
HISTORY = """
insert into holdfast.task_history (id, finished_at, enqueued_at, started_at, fence, worker, attempts, polls,
    failures, crashes, priority, version, kind, queue, payload, trace_id)
select holdfast.uuid7(), now(), now(), now(), 1, gen_random_uuid(), 1, 0, 0, 0, 2, 1, 'burden', 'default',
    '{{"episode": 7, "shot": 3}}', 'trace-000001' from generate_series(1, {rows})
"""


def burdens() -> dict[str, Burden]:
    """What stands about, by name; history is filled apart."""
    worker = "'00000000-0000-7000-8000-000000000001'"
    return {
        "1 M failed": Burden(
            1_000_000,
            "select 1",
            columns=", mark, marked_at, dead_reason, failure_class, error_code",
            values=", 'failed', now(), 'non_retryable', 'transient', 'TASK_EXECUTION_FAILED'",
        ),
        "1 M scheduled for tomorrow": Burden(
            1_000_000, READY.format("burden"), run_at="now() + interval '1 day'"
        ),
        "50,000 running": Burden(
            50_000,
            "insert into holdfast.running (id, fence, started_at, deadline_at, worker)"
            f" select id, 1, now(), now() + interval '1 day', {worker} from made",
        ),
        "1 M behind a paused kind": Burden(
            1_000_000,
            "insert into holdfast.blocked (position, id, priority, bucket, queue, kind)"
            " select extract(epoch from run_at)::bigint, id, 2, 'paused@default', 'default', 'paused'"
            " from made",
            kind="paused",
        ),
        "10 M queued": Burden(10_000_000, READY.format("burden")),
    }


def measure_burdens(url: str, seconds: float, count: int) -> dict[str, object]:
    """Everything at once in one schema, nothing in the other, in turn."""
    with connect(url) as conn:
        conn.execute("set enable_seqscan = on")
        Ours.install(conn, EMPTY)
        Ours.install(conn)
        conn.execute(
            "insert into holdfast.workers values"
            " ('00000000-0000-7000-8000-000000000001', 'burden', now(), now() + interval '1 day')"
        )
        conn.execute(
            "insert into holdfast.buckets (name, kind, paused_at) values ('kind:paused', 'paused', now())"
        )
        for name, burden in burdens().items():
            burden.load(conn)
            print(f"loaded: {name}", flush=True)
        for _ in range(40):
            conn.execute(HISTORY.format(rows=CHUNK))
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")
        sizes = conn.execute(
            "select (select reltuples::bigint from pg_class where oid = 'holdfast.tasks'::regclass),"
            " pg_size_pretty(pg_database_size(current_database()))"
        ).fetchone()
    print("loaded: history, vacuumed", sizes, flush=True)

    def measure(schema: str) -> float:
        return run(Loop(url, schema, seconds)).rate

    found = pairs(count, (EMPTY, "holdfast"), measure)
    print(found, flush=True)
    whole = pairs(count, (EMPTY, "holdfast"), lambda schema: _worker_rate(url, schema, seconds))
    facts: dict[str, object] = {"burdens": [*burdens(), "10 M history"], "tasks and size": sizes}
    return facts | found | {"a whole worker": whole}


def _worker_rate(url: str, schema: str, seconds: float) -> float:
    """Tasks per second of a whole worker on what is queued in one of the schemas."""
    known: LiteralString = EMPTY if schema == EMPTY else "holdfast"
    with connect(url) as conn:
        if schema == EMPTY:
            for _ in range(400):
                conn.execute(FILL.format(schema=known))
        os.environ["HOLDFAST_SCHEMA"] = schema
        with worker(url, "--processes", 2, "--concurrency", 100, app="benchmarks.apps:app"):
            start = settled(conn, known)
            while settled(conn, known) < start + 5_000:
                time.sleep(0.05)
            first, began = settled(conn, known), time.monotonic()
            time.sleep(seconds)
            return (settled(conn, known) - first) / (time.monotonic() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["snapshot", "worker", "burdens", "late"])
    parser.add_argument("--held", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=15.0, help="of each run of a pair")
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        with connect(url) as conn:
            Ours.install(conn)
        if chosen.only in (None, "late"):
            found["late commits"] = measure_late_commits(url)
            print(found["late commits"], flush=True)
        if chosen.only in (None, "snapshot"):
            found["old snapshot"] = beside_the_loop(url, chosen.held)
            print(found["old snapshot"], flush=True)
        if chosen.only in (None, "worker"):
            with connect(url) as conn:
                Ours.install(conn)
            values = {"kind": "noop", "hints": False}
            found["old snapshot, a whole worker"] = beside_a_worker(url, chosen.held, ENQUEUE, values)
            print(found["old snapshot, a whole worker"], flush=True)
        if chosen.only in (None, "burdens"):
            found["burdens"] = measure_burdens(url, chosen.seconds, chosen.pairs)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
