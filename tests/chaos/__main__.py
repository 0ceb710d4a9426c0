"""Enqueue, break things, wait, check: `python -m tests.chaos --tasks 100000 --seed 7 --write FILE`."""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from tests.chaos.check import Report, check
from tests.chaos.nemesis import CONCURRENCY, Nemesis
from tests.chaos.proxy import Proxy
from tests.cluster import cluster, free_port
from tests.tree import Tree

DATABASE = "chaos"
LEASE = 4.0
TREES = 3
# After the last fault: a lease, the look of maintenance, the longest backoff, and what is left to do.
LIVENESS_SECONDS = 45.0
RESUME_SECONDS = 2.0
# A run in which fewer tasks ended while faults went on says little.
SHARE_MIN = 0.3
# A worker has leases, maintenance, upkeep, take-backs and hints; an executor has claims and settles.
CONNECTIONS_MAX = TREES * (5 + 2 * 2)
LEFT = """
select t.id::text, t.kind, t.attempts, t.failures, t.crashes, t.polls, (t.run_at - now())::text,
    (now() - r.started_at)::text, w.name
from holdfast.tasks t
left join holdfast.running r on r.id = t.id
left join holdfast.workers w on w.id = r.worker
where t.mark is null
order by t.enqueued_at
limit 3
"""
MAX_ATTEMPTS = {"flaky": 1_000}
KINDS = {
    "quick": 880, "pause": 40, "thread": 30, "flaky": 20, "poll": 15, "hopeless": 8, "straddle": 6,
    "segfault": 0.2,
}  # fmt: skip


@dataclass(slots=True)
class Producer:
    """Enqueues at a pace; what was acknowledged is kept outside the database."""

    url: str
    tasks: int
    seconds: float
    choose: random.Random
    acknowledged: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Enqueue in groups; an answer that was lost is asked for again under the same keys."""
        began = time.monotonic()
        groups = list(self._groups())
        for number, group in enumerate(groups):
            due = began + self.seconds * number / len(groups)
            time.sleep(max(0.0, due - time.monotonic()))
            while not self._enqueue(number, group):
                time.sleep(0.05)

    def _groups(self) -> Iterator[list[str]]:
        left = self.tasks
        while left:
            size = min(left, self.choose.choice([1, 10, 100, 200]))
            left -= size
            yield self.choose.choices(list(KINDS), list(KINDS.values()), k=size)

    def _enqueue(self, number: int, kinds: list[str]) -> bool:
        keys = [f"{number}:{place}" for place in range(len(kinds))]
        payloads = [json.dumps({"seconds": LEASE * 1.5}) if kind == "straddle" else "{}" for kind in kinds]
        try:
            with psycopg.connect(self.url, autocommit=True) as conn:
                ids = [str(id_) for (id_,) in conn.execute(
                    "select holdfast.uuid7() from generate_series(1, %s)", [len(kinds)]
                ).fetchall()]  # fmt: skip
                known: dict[str, str] = dict(
                    conn.execute(
                        "select given::text, existing::text from holdfast.enqueue_many(ids => %s::uuid[],"
                        " kinds => %s::text[], payloads => %s::jsonb[], keys => %s::text[])",
                        [ids, kinds, payloads, keys],
                    ).fetchall()
                )
        except psycopg.OperationalError:
            return False
        self.acknowledged |= {known.get(id_, id_): kind for id_, kind in zip(ids, kinds, strict=True)}
        return True


async def _prepare(url: str) -> None:
    async with await connect(f"{url}/postgres") as conn:
        await conn.execute(f"create database {DATABASE}")
    async with await connect(f"{url}/{DATABASE}") as conn:
        await migrate_up(conn, "holdfast")


def chaos(tasks: int, seed: int, seconds: float) -> tuple[Report, dict[str, object]]:  # noqa: PLR0915 (one story)
    """One run: faults for so many seconds, then quiet until everything has ended."""
    choose = random.Random(seed)
    with ExitStack() as stack:
        running = stack.enter_context(cluster(15))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-chaos-")))
        asyncio.run(_prepare(running.url))
        upstream = int(str(psycopg.conninfo.conninfo_to_dict(running.url)["port"]))
        proxy = Proxy(free_port(), upstream, seed)
        proxy.start()
        stack.callback(proxy.stop)
        through = f"postgresql://postgres@127.0.0.1:{proxy.port}/{DATABASE}"
        options: list[object] = [
            "--lease",
            LEASE,
            "--concurrency",
            CONCURRENCY,
            "--processes",
            2,
            "--grace",
            5,
        ]
        trees = [Tree(through, folder, f"tree-{n}", "tests.chaos.app:app") for n in range(TREES)]
        for tree in trees:
            tree.start(*options)
            stack.callback(tree.close)
        nemesis = Nemesis(running, DATABASE, proxy, trees, options, LEASE, seed)
        direct = f"{running.url}/{DATABASE}"
        producer = Producer(direct, tasks, seconds * 0.8, choose)
        producing = threading.Thread(target=producer.run)
        began = time.monotonic()
        producing.start()
        while time.monotonic() - began < seconds or producing.is_alive():
            time.sleep(nemesis.chance.uniform(0.05, 0.6))
            nemesis.round()
        producing.join()
        quiet = time.monotonic()
        under_faults = _ended(direct)
        last = _settle_down(direct, nemesis, quiet)
        ended = time.monotonic()
        report = check(direct, producer.acknowledged, trees[0].record, MAX_ATTEMPTS)
        report.expect(
            ended - quiet < LIVENESS_SECONDS, f"not all had ended {ended - quiet:.0f} s after the last fault"
        )
        share = under_faults / len(producer.acknowledged)
        report.expect(share >= SHARE_MIN, f"only {share:.0%} of the tasks ended while faults went on")
        backends = _backends(direct)
        report.expect(
            len(backends) <= CONNECTIONS_MAX, f"{len(backends)} connections are left on the server", backends
        )
        late = [seconds for seconds in nemesis.resumed if seconds > RESUME_SECONDS]
        report.expect(not late, f"work resumed more than {RESUME_SECONDS} s after the database", late)
        said = "".join(tree.said() for tree in trees)
        report.expect("Traceback" not in said, "a process of ours printed a traceback", [_around(said)])
        about: dict[str, object] = {
            "seed": seed,
            "tasks": tasks,
            "seconds under faults": round(quiet - began, 1),
            "seconds until all had ended": round(ended - quiet, 1),
            "ended under faults": f"{under_faults} of {len(producer.acknowledged)}, {share:.0%}",
            "connections left": len(backends),
            "the last of them": last,
            "faults": dict(nemesis.done),
            "hit by kills": dict(nemesis.hit),
            "answers cut": proxy.cuts,
            "resumed after restart": nemesis.resumed,
        }
    return report, about


def _ended(url: str) -> int:
    """How many tasks have completed or failed."""
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "select (select count(*) from holdfast.task_history)"
            " + (select count(*) from holdfast.tasks where mark is not null)"
        ).fetchone()
    assert row is not None, "a count always answers"
    return int(row[0])


def _backends(url: str) -> list[tuple[object, ...]]:
    """The connections of workers that the server knows, the oldest first."""
    with psycopg.connect(url) as conn:
        return conn.execute(
            "select application_name, state, wait_event_type, backend_start::text from pg_stat_activity"
            " where application_name like 'holdfast%' order by backend_start"
        ).fetchall()


def _around(said: str) -> str:
    spoken = "\n".join(line for line in said.splitlines() if not line.startswith("{"))
    at = spoken.find("Traceback")
    return spoken[at : at + 3_000] if at >= 0 else ""


def _settle_down(url: str, nemesis: Nemesis, quiet: float) -> list[tuple[object, ...]]:
    """Wait until everything has ended; what was there last, the longest first."""
    nemesis.mend()
    last: list[tuple[object, ...]] = []
    with psycopg.connect(url, autocommit=True) as conn:
        while time.monotonic() - quiet < LIVENESS_SECONDS:
            left = conn.execute(LEFT).fetchall()
            if not left:
                break
            last = left
            nemesis.mend()
            time.sleep(0.1)
    return last


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=120.0, help="of faults")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    sys.stdout.write(f"seed {chosen.seed}\n")
    sys.stdout.flush()
    report, about = chaos(chosen.tasks, chosen.seed, chosen.seconds)
    text = json.dumps(about | report.counts | {"broken": report.broken}, indent=2)
    sys.stdout.write(text + "\n")
    if chosen.write:
        Path(chosen.write).write_text(text + "\n")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
