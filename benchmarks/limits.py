"""Limits at size: 100,000 keys, a million tasks behind a full limit or a paused kind, an old snapshot.

python -m benchmarks.limits --write docs/benchmarks/limits.json
"""

import argparse
import time

import psycopg
from tests.cluster import DURABLE, postgres

from benchmarks.engines import Ours, connect
from benchmarks.loops import about, pairs, write
from benchmarks.snapshots import OPTIONS, beside_a_worker
from benchmarks.worker import ENQUEUE, settled, worker

KEYS = 100_000
TASKS = 200_000
MILLION = 1_000_000
ENQUEUE_KEYED = """
select from holdfast.enqueue_many(
    ids => array(select holdfast.uuid7() from generate_series(1, %(n)s)),
    kinds => array['keyed'],
    payloads => array_fill('{}'::jsonb, array[%(n)s]),
    queues => array['default'],
    bucket_names => array(
        select 'keyed/tenant=' || (random() * %(keys)s)::integer from generate_series(1, %(n)s)
    ),
    hints => false
)
"""
SHUT = {
    "a full limit": "insert into holdfast.buckets (name, kind, capacity) values ('kind:stuck', 'stuck', 0)",
    "a paused kind": "insert into holdfast.buckets (name, kind, paused_at)"
    " values ('kind:stuck', 'stuck', now())",
    "full keys": "insert into holdfast.buckets (name, capacity) values ('keyed/tenant=*', 0)",
}
LIMIT = "insert into holdfast.buckets (name, capacity, set_by) values ('keyed/tenant=*', 2, 'bench')"


def rate(url: str, kind: str) -> float:
    """Tasks per second of one worker with two processes on a backlog, from 10 to 90 % of it."""
    with connect(url) as conn:
        Ours.install(conn)
        conn.execute(LIMIT)
        for _ in range(TASKS // 1_000):
            if kind == "keyed":
                conn.execute(ENQUEUE_KEYED, {"n": 1_000, "keys": KEYS})
            else:
                conn.execute(ENQUEUE, {"n": 1_000, "kind": "noop", "hints": False})
        conn.execute("vacuum analyze")
        with worker(url, *OPTIONS):
            return between(conn, TASKS)


def between(conn: "psycopg.Connection[tuple[object, ...]]", total: int) -> float:
    """Tasks per second from 10 to 90 % of a backlog."""
    marks = [(time.monotonic(), 0)]
    while marks[-1][1] < total * 0.95:
        assert time.monotonic() - marks[0][0] < 300, f"{marks[-1][1]} of {total} after 300 s"
        time.sleep(0.05)
        marks.append((time.monotonic(), settled(conn)))
    first = next(mark for mark in marks if mark[1] >= total * 0.1)
    last = next(mark for mark in marks if mark[1] >= total * 0.9)
    return (last[1] - first[1]) / (last[0] - first[0])


def behind(url: str, how: str) -> float:
    """Tasks per second of others, with a million behind something or with nothing there."""
    with connect(url) as conn:
        Ours.install(conn)
        if how != "nothing":
            conn.execute(SHUT[how])
            enqueue = ENQUEUE_KEYED if how == "full keys" else ENQUEUE
            for _ in range(MILLION // 10_000):
                conn.execute(enqueue, {"n": 10_000, "kind": "stuck", "hints": False, "keys": KEYS})
            with worker(url, *OPTIONS):
                _step_aside(conn)
        for _ in range(TASKS // 1_000):
            conn.execute(ENQUEUE, {"n": 1_000, "kind": "noop", "hints": False})
        conn.execute("vacuum analyze")
        with worker(url, *OPTIONS):
            return between(conn, TASKS)


def _step_aside(conn: "psycopg.Connection[tuple[object, ...]]") -> float:
    """Wait until a worker has moved everything out of the way; how long that took."""
    began = time.monotonic()
    while conn.execute("select exists (select from holdfast.ready)").fetchone() != (False,):
        assert time.monotonic() - began < 600
        time.sleep(0.2)
    return time.monotonic() - began


def opened(url: str) -> dict[str, object]:
    """A million behind a limit of none: how long setting it takes, and until the first one starts."""
    with connect(url) as conn:
        Ours.install(conn)
        conn.execute(
            "insert into holdfast.buckets (name, kind, capacity, set_by)"
            " values ('kind:noop', 'noop', 0, 'bench')"
        )
        for _ in range(MILLION // 10_000):
            conn.execute(ENQUEUE, {"n": 10_000, "kind": "noop", "hints": False})
        with worker(url, *OPTIONS):
            found: dict[str, object] = {"a million stepped aside in, s": round(_step_aside(conn), 1)}
            for name, change in {
                "limit set": "update holdfast.buckets set capacity = 20",
                "paused": "update holdfast.buckets set capacity = null, paused_at = now()",
                "resumed": "update holdfast.buckets set paused_at = null, resumed_at = now()",
            }.items():
                before = settled(conn)
                began = time.monotonic()
                conn.execute(change)
                wrote = time.monotonic() - began
                if name == "paused":
                    time.sleep(2)
                    continue
                while settled(conn) == before:
                    time.sleep(0.01)
                found[name] = {
                    "answered in, ms": round(wrote * 1000, 1),
                    "first end after, s": round(time.monotonic() - began, 2),
                }
        return found


def snapshot(url: str, held: float) -> dict[str, object]:
    """The rate of a worker whose tasks all have a limited key, beside an old snapshot."""
    with connect(url) as conn:
        Ours.install(conn)
        conn.execute(LIMIT)
    return beside_a_worker(url, held, ENQUEUE_KEYED, {"keys": KEYS})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=["keys", "behind", "opened", "snapshot"], action="append")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--held", type=float, default=300.0)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    only = chosen.only or ["keys", "behind", "opened", "snapshot"]
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server:
        with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
            admin.execute("create database bench")
        url = f"{server}/bench"
        if "keys" in only:
            measured = pairs(chosen.pairs, ("noop", "keyed"), lambda kind: rate(url, kind))
            found["100,000 keys limited to 2 / no limit, tasks per second"] = measured
            print(measured, flush=True)
        if "behind" in only:
            for how in SHUT:
                measured = pairs(chosen.pairs, ("nothing", how), lambda how: behind(url, how))
                found[f"others beside a million behind {how} / nothing"] = measured
                print(how, measured, flush=True)
        if "opened" in only:
            found["a million let go"] = opened(url)
            print(found["a million let go"], flush=True)
        if "snapshot" in only:
            found["100,000 keys under an old snapshot"] = snapshot(url, chosen.held)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
