"""The whole series, side by side in one run: PostgreSQL itself, Holdfast, and the peers that install here.

python -m benchmarks.suite --write docs/benchmarks/suite.json    about 30 minutes, after benchmarks.systems
python -m benchmarks.suite --quick                               under a minute: PostgreSQL and Holdfast

A round drives each system once for twenty seconds, on a database of its own (a copy of one that it filled
itself in the first round) and with the same tasks (220 B, a handler that writes one byte to a file); the
ratios are those of one round, so that what the machine does to one it does to the others. The largest rate
of the minimal client in a round is PostgreSQL itself. What a system does at its defaults no floor depends
on: it runs for ten seconds, and in the first round only.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
from psycopg import sql
from tests.cluster import DURABLE, postgres

from benchmarks.engines import Frozen, Ours, connect, payload_of
from benchmarks.loops import about, drain, fill, spread, write
from benchmarks.systems import HOLDFAST, PEERS, REDIS, SYSTEMS, System

SECONDS = 20.0
SECONDS_AT_DEFAULTS = 10.0
WARM_SECONDS = 2.0
START_SECONDS = 60.0
FLOOR = 0.5
QUICK_SECONDS = 4.0
QUICK_TASKS = 200_000
BARE = {"frozen, 100": ("frozen", 100), "ours, 100": ("holdfast", 100), "ours, 500": ("holdfast", 500)}
BARE_TASKS = 600_000


def prepare(server: str, name: str, put: Callable[[], None]) -> None:
    """Make a database with its tasks: a copy of the one that was filled when it was first asked for.

    The copy goes through memory and the log, so that its pages stand in both as they do after a fill. What it
    is made of was never connected to: no autovacuum comes to it, its statistics stay as they were.
    """
    kept = sql.Identifier(name)
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute("drop database if exists bench with (force)")
        if admin.execute("select from pg_database where datname = %s", [name]).fetchone() is None:
            admin.execute("create database bench")
            put()
            admin.execute(sql.SQL("create database {} template bench").format(kept))
            admin.execute("drop database bench with (force)")
        admin.execute(sql.SQL("create database bench template {}").format(kept))


def bare(server: str, name: str, tasks: int = BARE_TASKS, payload_bytes: int = 220) -> float:
    """Tasks per second of the minimal client, claim and settle only."""
    url = f"{server}/bench"
    engine, batch = BARE[name]

    def put() -> None:
        with connect(url) as conn:
            (Frozen if engine == "frozen" else Ours).install(conn)
        fill(url, engine, tasks, payload_bytes)

    prepare(server, f"bare_{engine}_{tasks}_{payload_bytes}", put)
    return drain(url, engine, payload_bytes, batch, SECONDS)


def whole(server: str, system: System, seconds: float = SECONDS, payload_bytes: int = 220) -> float:
    """Handlers called per second by one system, from two seconds after the first on."""
    url = f"{server}/bench"
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        marks = Path(folder) / "marks"
        environment = os.environ | {
            "BENCH_URL": url,
            "BENCH_TUNED": str(int(system.tuned)),
            "BENCH_MARKS": str(marks),
            "BENCH_PAYLOAD": payload_of(payload_bytes),
            "BENCH_REDIS": REDIS,
            "BENCH_NODE": str(system.home),
        }
        start = partial(_start, system, environment, Path(folder) / "log")

        def put() -> None:
            if start("fill", system.tasks).wait() != 0:
                raise RuntimeError(f"{system.title} could not be filled: {_said(folder)}")

        if system.in_database:
            prepare(server, f"{system.name}_{system.tasks}_{payload_bytes}", put)
            if system.analyzed:
                with connect(url) as conn:
                    conn.execute("vacuum analyze")
        else:
            put()
        working = start("work")
        try:
            return _rate(working, marks, seconds, system.tasks, folder)
        finally:
            os.killpg(working.pid, signal.SIGKILL)
            working.wait()


def _start(
    system: System, environment: dict[str, str], log: Path, *words: object
) -> "subprocess.Popen[bytes]":
    with log.open("ab") as out:
        return subprocess.Popen(
            system.command(*words), cwd=PEERS, env=environment, stdout=out, stderr=out, start_new_session=True
        )


def _rate(working: "subprocess.Popen[bytes]", marks: Path, seconds: float, tasks: int, folder: str) -> float:
    began = time.monotonic()
    while _count(marks) == 0:
        if working.poll() is not None or time.monotonic() - began > START_SECONDS:
            raise RuntimeError(f"it did not start: {_said(folder)}")
        time.sleep(0.02)
    time.sleep(WARM_SECONDS)
    first, began = _count(marks), time.monotonic()
    while (last := _count(marks)) < tasks * 0.95 and time.monotonic() - began < seconds:
        time.sleep(0.02)
    took = time.monotonic() - began
    if last <= first or took < 1.0:
        raise RuntimeError(f"{last - first} tasks in {took:.1f} s say nothing: give it more tasks")
    return (last - first) / took


def _count(marks: Path) -> int:
    return marks.stat().st_size if marks.exists() else 0


def _said(folder: str) -> str:
    return (Path(folder) / "log").read_text()[-2_000:]


def rounds(server: str, systems: list[System], count: int) -> dict[str, list[float]]:
    """Every system once per round, in the order of the rounds."""
    found: dict[str, list[float]] = {}
    for number in range(count):
        runs: dict[str, Callable[[], float]] = {f"bare: {name}": partial(bare, server, name) for name in BARE}
        for system in systems:
            if system.tuned or number == 0:
                seconds = SECONDS if system.tuned else SECONDS_AT_DEFAULTS
                runs[system.title] = partial(whole, server, system, seconds)
        for title, run in runs.items():
            found.setdefault(title, []).append(run())
            print(f"round {number + 1}: {title}: {found[title][-1]:.0f}/s", flush=True)
    return found


def ratios(found: dict[str, list[float]]) -> dict[str, object]:
    """Holdfast at its best against each of the others, round by round."""
    ours = found["holdfast, tuned"]
    best = [
        max(of)
        for of in zip(*(rates for name, rates in found.items() if name.startswith("bare")), strict=True)
    ]
    others = {"PostgreSQL itself": best} | {
        name: rates for name, rates in found.items() if not name.startswith(("bare", "holdfast"))
    }
    return {
        f"holdfast, tuned / {name}": spread([a / b for a, b in zip(ours[: len(rates)], rates, strict=True)])
        for name, rates in others.items()
    }


def quick(server: str) -> int:
    """PostgreSQL itself and Holdfast, two pairs; fails below the floor."""
    found = []
    for _ in range(2):
        best = bare(server, "ours, 100", 100_000)
        ours = whole(server, replace(HOLDFAST[1], tasks=QUICK_TASKS), QUICK_SECONDS)
        print(f"PostgreSQL itself {best:.0f}/s, Holdfast {ours:.0f}/s", flush=True)
        found.append(ours / best)
    ratio = spread(found)
    reach = f"{ratio['lowest']:.2f}–{ratio['highest']:.2f}"
    print(f"Holdfast / PostgreSQL itself {ratio['median']:.2f} ({reach}), floor {FLOOR}")
    return int(ratio["median"] < FLOOR)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="PostgreSQL itself and Holdfast only")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", metavar="NAME", help="of the peers")
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    with postgres(15, DURABLE) as server:
        if chosen.quick:
            return quick(server)
        wanted = [one for one in SYSTEMS if chosen.only is None or one.name in chosen.only]
        systems = [*HOLDFAST, *(one for one in wanted if one.there)]
        found = rounds(server, systems, chosen.rounds)
    report: dict[str, object] = {
        "about": about() | {"rounds": chosen.rounds, "seconds": SECONDS},
        "rates": {name: spread(rates) for name, rates in found.items()},
        "ratios": ratios(found),
        "keeps": {one.title: one.keeps for one in systems},
        "log lines": {one.title: one.log_lines for one in systems},
        "not there": [one.title for one in wanted if not one.there],
    }
    write(chosen.write, report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
