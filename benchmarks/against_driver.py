"""One run of `benchmarks.against` on one side, in a process of its own; prints its figures as JSON.

It also runs on older and newer releases than its own. So it uses only the public Python API and the
commands, imports nothing else of Holdfast, and names none of its tables.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

import holdfast
from benchmarks.against_app import KEYS, MARKS, app, drain, finish, limits
from benchmarks.cpu import cpu_seconds
from holdfast import Kind

KINDS: dict[str, Kind[dict[str, object]]] = {"drain": drain, "finish": finish, "limits": limits}
# How many tasks a backlog has for each second that a run should last on a usual machine.
TASKS_PER_SECOND = {"drain": 15_000, "finish": 500, "limits": 6_000}
# A run that takes so many times as long is cut off, and measured up to there.
PATIENCE = 2
START_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.005
FILL = 1_000
GROUP = 100
WARM_CALLS = 10
NOTE = "x" * 150


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured for how long, and where."""

    what: str
    seconds: float
    postmaster: int
    url: str
    marks: Path

    @property
    def log(self) -> Path:
        """What the worker writes."""
        return self.marks.with_name("log")

    def called(self) -> int:
        """How many calls of handlers there were so far: each writes one byte."""
        return self.marks.stat().st_size if self.marks.exists() else 0


@dataclass(frozen=True, slots=True)
class Mark:
    """The clock, the tasks so far, and the CPU time of server and client so far."""

    at: float
    tasks: int
    server: float
    client: float

    def until(self, last: "Mark") -> dict[str, float]:
        """What happened from here to a later mark."""
        return {
            "tasks": last.tasks - self.tasks,
            "seconds": round(last.at - self.at, 3),
            "server CPU, s": round(last.server - self.server, 3),
            "client CPU, s": round(last.client - self.client, 3),
        }


def migrate() -> None:
    """Install the schema with this release's own command."""
    command = [sys.executable, "-m", "holdfast", "migrate"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"holdfast migrate ended with {done.returncode}: {done.stderr[-2_000:]}")


async def fill(run: Run, tasks: int) -> None:
    """Enqueue the backlog of a run, and leave the database analyzed and with nothing to write back."""
    kind = KINDS[run.what]
    with psycopg.connect(run.url, autocommit=True) as conn:
        if run.what == "finish":
            conn.execute("create table against_rows (id integer primary key, runs integer not null)")
            conn.execute("insert into against_rows select n, 0 from generate_series(0, %s) as n", [tasks])
        async with app:
            for start in range(0, tasks, FILL):
                numbers = range(start, min(start + FILL, tasks))
                await kind.enqueue_many([payload(number) for number in numbers])
        conn.execute("vacuum analyze")
        conn.execute("checkpoint")


def payload(number: int) -> dict[str, object]:
    """About 200 bytes of JSON."""
    return {"row": number, "key": f"key {number % KEYS}", "note": NOTE}


@contextmanager
def worker(run: Run) -> Iterator["subprocess.Popen[bytes]"]:
    """One worker with two processes; at the end it must finish what it has and leave without an error."""
    command = [sys.executable, "-m", "holdfast", "worker", "benchmarks.against_app:app"]
    options = ["--processes", "2", "--concurrency", "100"]
    with run.log.open("wb") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=STOP_SECONDS)
    finally:
        process.kill()
        process.wait()
    if status != 0:
        raise RuntimeError(f"the worker ended with {status}: {run.log.read_text()[-2_000:]}")


async def backlog(run: Run) -> dict[str, dict[str, float]]:
    """Let a worker empty a backlog; measured from the first call of a handler to the last one."""
    tasks = max(FILL, int(TASKS_PER_SECOND[run.what] * run.seconds))
    await fill(run, tasks)
    with worker(run) as process:
        _wait(run, process, 1, START_SECONDS)
        first = _mark(run, process)
        _wait(run, process, tasks, PATIENCE * run.seconds)
        last = _mark(run, process)
    if last.tasks >= tasks and run.called() != tasks:
        raise RuntimeError(f"handlers were called {run.called()} times for {tasks} tasks")
    return {run.what: first.until(last)}


def _mark(run: Run, process: "subprocess.Popen[bytes]") -> Mark:
    return Mark(time.monotonic(), run.called(), cpu_seconds([run.postmaster]), cpu_seconds([process.pid]))


def _wait(run: Run, process: "subprocess.Popen[bytes]", calls: int, seconds: float) -> None:
    """Wait for so many calls of handlers, or for so long; without any call it is an error."""
    until = time.monotonic() + seconds
    while run.called() < calls:
        late = time.monotonic() > until
        if process.poll() is not None or (late and run.called() == 0):
            raise RuntimeError(f"the worker does not work: {run.log.read_text()[-2_000:]}")
        if late:
            return
        time.sleep(POLL_SECONDS)


async def enqueue(run: Run) -> dict[str, dict[str, float]]:
    """Enqueue in groups for half of the time, then one by one, each in a transaction of its own."""

    async def group() -> int:
        return len(await drain.enqueue_many([payload(number) for number in range(GROUP)]))

    async def one() -> int:
        await drain.enqueue(payload(1))
        return 1

    async with app:
        return {
            f"enqueue, groups of {GROUP}": await _repeat(run, group),
            "enqueue, one by one": await _repeat(run, one),
        }


async def _repeat(run: Run, put: Callable[[], Awaitable[int]]) -> dict[str, float]:
    # The first calls open the connection and prepare the statement.
    for _ in range(WARM_CALLS):
        await put()
    tasks, server = 0, cpu_seconds([run.postmaster])
    first = Mark(time.monotonic(), tasks, server, time.process_time())
    while time.monotonic() - first.at < run.seconds / 2:
        tasks += await put()
    at, client = time.monotonic(), time.process_time()
    return first.until(Mark(at, tasks, cpu_seconds([run.postmaster]), client))


def main() -> None:
    # The worker is started in the same place with the same environment, so it imports the same sources.
    if not Path(holdfast.__file__).is_relative_to(os.environ["PYTHONPATH"]):
        raise ImportError(f"{holdfast.__file__} is not in {os.environ['PYTHONPATH']}")
    what, seconds, postmaster = sys.argv[1:]
    run = Run(
        what, float(seconds), int(postmaster), os.environ["HOLDFAST_DATABASE_URL"], Path(os.environ[MARKS])
    )
    migrate()
    print(json.dumps(asyncio.run(enqueue(run) if what == "enqueue" else backlog(run))))


if __name__ == "__main__":
    main()
