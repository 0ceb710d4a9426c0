"""Locks the tables of a worker at work, one after the other: `python -m tests.locks --only tasks,ready`.

Prints a line for each, and fails if one misses what is promised: at most three more backends for each
executor, resumed within two seconds, one log line that names the cause. A lock that nobody met fails, too.
"""

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg

from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from tests.cluster import pgbouncer, postgres
from tests.locks.scene import Scene, Seen
from tests.tree import Tree

MAIN = ("tasks", "ready", "blocked", "running", "buckets", "permits", "task_attempts")
EXECUTORS = 4
BEFORE_SECONDS = 15.0
OTHERS = (
    "select c.relname from pg_class c where c.relnamespace = 'holdfast'::regnamespace"
    " and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> all (%s) order by 1"
)


async def run(url: str, direct: str, folder: Path, only: list[str], seconds: float, others: float) -> int:
    """Each lock in turn, on one worker; answers how many missed."""
    async with await connect(direct) as conn:
        await migrate_up(conn, "holdfast")
        rest = [name for (name,) in await (await conn.execute(OTHERS, [list(MAIN)])).fetchall()]
    wanted = [(table, seconds) for table in MAIN] + [(table, others) for table in rest]
    tree = Tree(url, folder, "locked", "tests.locks.app:app").start("--processes", EXECUTORS)
    missed = 0
    try:
        await tree.ready(EXECUTORS)
        # The monitor asks past any pooler.
        async with await connect(direct, application="monitor of the test") as conn:
            scene = Scene(conn, direct, tree, EXECUTORS)
            async with scene.at_work():
                for table, held in wanted:
                    if only and table not in only:
                        continue
                    before = BEFORE_SECONDS if table in MAIN else 3.0
                    seen = await scene.lock(table, held, before)
                    misses = seen.misses() + _not_hit(seen)
                    missed += bool(misses)
                    _say(seen, misses)
            sys.stdout.write(f"{await scene.ended()}\n")
        assert "Traceback" not in tree.said(), tree.said()
    finally:
        tree.close()
    return missed


def _not_hit(seen: Seen) -> list[str]:
    """A lock that nobody met shows nothing; of the others some are seldom used."""
    if seen.table not in MAIN:
        return []
    named = any(line["event"] == "database.locked" for line in seen.lines)
    found = [] if seen.waited >= EXECUTORS else [f"only {seen.waited} backends waited"]
    return found + ([] if named else ["no line names the cause"])


def _say(seen: Seen, misses: list[str]) -> None:
    told = [str(line["event"]) for line in seen.lines if str(line["event"]).startswith("database.")]
    sys.stdout.write(
        f"{seen.table:18} {seen.seconds:5.0f} s  backends {seen.before:3} before, {seen.during:3} at most, "
        f"{seen.waited:2} waited, {seen.after:3} with the backlog  "
        f"resumed after {seen.resumed_seconds:5.2f} s  {told}"
        f"{'  MISSED: ' + '; '.join(misses) if misses else ''}\n"
    )
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="tables, with commas")
    parser.add_argument("--seconds", type=float, default=90.0, help="for the tables of every task")
    parser.add_argument("--others", type=float, default=5.0, help="for the rest")
    parser.add_argument("--pooled", action="store_true", help="through PgBouncer in transaction mode")
    chosen = parser.parse_args()
    only = [table for table in chosen.only.split(",") if table]
    with ExitStack() as stack:
        server = stack.enter_context(postgres(15))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-locks-")))
        with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
            admin.execute("create database locks")
        url = stack.enter_context(pgbouncer(server)) if chosen.pooled else server
        missed = asyncio.run(
            run(f"{url}/locks", f"{server}/locks", folder, only, chosen.seconds, chosen.others)
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
