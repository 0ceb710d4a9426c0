"""The app that the tests' workers run: `tests.apps:app`. Effects are lines in a file outside the database.

One line is one `write`: `start|end KIND TASK FENCE PID MONOTONIC`. A process killed with -9 can tear none.
"""

import asyncio
import ctypes
import os
import time
from typing import Any

from holdfast import Backoff, Cron, Fail, Holdfast, Retry, Snooze, Task

RECORD = "HOLDFAST_TEST_RECORD"
# With the old version of the app, as during a deploy, some kinds are not there.
OLD = "HOLDFAST_TEST_OLD"
SOON = Backoff(base_seconds=0.05, cap_seconds=0.2)

app = Holdfast()
_file = -1


def effect(what: str, task: "Task[Any]") -> None:
    """Leave a line that no rollback takes away."""
    global _file
    path = os.environ.get(RECORD)
    if path is None:
        return
    if _file < 0:
        _file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    line = f"{what} {task.kind} {task.id} {task.fence} {os.getpid()} {time.monotonic():.6f}\n"
    os.write(_file, line.encode())


@app.task("noop")
async def noop(task: Task[object]) -> None:
    """The cheapest task there is."""


@app.task("keyed")
async def keyed(task: Task[object]) -> None:
    """As cheap, behind the limit of a key."""


@app.task("effect", backoff=SOON)
async def leave_a_line(task: Task[object]) -> str:
    effect("start", task)
    return "done"


@app.task("scheduled", schedule=Cron("0 0 1 * *", name="monthly"))
async def scheduled(task: Task[object]) -> None:
    effect("start", task)


@app.task("sleep", timeout=120, backoff=SOON)
async def sleep(task: Task[dict[str, float]]) -> None:
    effect("start", task)
    await asyncio.sleep(task.payload["seconds"])
    effect("end", task)


@app.task("block", timeout=120, backoff=SOON)
def block(task: Task[dict[str, float]]) -> None:
    effect("start", task)
    time.sleep(task.payload["seconds"])
    effect("end", task)


@app.task("gil", timeout=120)
async def hold_the_gil(task: Task[dict[str, int]]) -> None:
    effect("start", task)
    # PyDLL does not let go of the GIL while the call lasts.
    left = task.payload["seconds"]
    while left:
        left = ctypes.PyDLL(None).sleep(left)
    effect("end", task)


@app.task("stubborn", timeout=1)
async def swallow_cancellation(task: Task[object]) -> None:
    effect("start", task)
    while True:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue


@app.task("polite", timeout=0.5, max_attempts=2, backoff=SOON)
async def run_too_long(task: Task[object]) -> None:
    effect("start", task)
    await asyncio.sleep(60)


@app.task("segfault")
async def die(task: Task[object]) -> None:
    effect("start", task)
    ctypes.string_at(0)


@app.task("exit")
def leave(task: Task[object]) -> None:
    effect("start", task)
    raise SystemExit(3)


@app.task("apart", isolation="process", timeout=2, max_attempts=1)
def run_apart(task: Task[dict[str, float]]) -> int:
    effect("start", task)
    time.sleep(task.payload.get("seconds", 0.0))
    return os.getpid()


@app.task("poll", backoff=SOON)
async def poll(task: Task[dict[str, int]]) -> Snooze | None:
    effect("start", task)
    return Snooze(0.05, progress=50.0) if task.polls < task.payload["times"] else None


@app.task("flaky", max_attempts=20, backoff=SOON)
async def fail_at_first(task: Task[dict[str, int]]) -> Retry | None:
    effect("start", task)
    return Retry("not yet") if task.attempt <= task.payload["times"] else None


@app.task("hopeless")
async def fail_for_good(task: Task[object]) -> Fail:
    effect("start", task)
    return Fail("TASK_ENTITY_NOT_FOUND", "there is no such episode")


if OLD not in os.environ:

    @app.task("new")
    async def only_the_new_version_knows(task: Task[object]) -> None:
        effect("start", task)


SHOT = "insert into public.shots values (%s, %s)"


@app.task("finish")
async def finish(task: Task[dict[str, str]]) -> None:
    effect("start", task)
    async with task.finish({"shot": task.payload["shot"]}) as conn:
        await conn.execute(SHOT, [task.payload["shot"], task.fence])
        if task.payload["shot"] == "bad":
            raise ValueError("no good")
        if task.payload["shot"] == "late":
            await asyncio.sleep(1.0)


def _finish_here(task: Task[dict[str, str]]) -> None:
    effect("start", task)
    with task.finish({"shot": task.payload["shot"]}) as conn:
        conn.execute(SHOT, [task.payload["shot"], task.fence])
        if task.payload["shot"] == "bad":
            raise ValueError("no good")
        if task.payload["shot"] == "late":
            time.sleep(1.0)


@app.task("finish.thread")
def finish_in_a_thread(task: Task[dict[str, str]]) -> None:
    _finish_here(task)


@app.task("finish.apart", isolation="process")
def finish_apart(task: Task[dict[str, str]]) -> None:
    _finish_here(task)
