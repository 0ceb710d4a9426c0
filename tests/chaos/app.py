"""What runs under chaos: quick tasks, some that straddle the lease, some that fail, some that kill."""

import asyncio
import ctypes
import random
import time

from holdfast import Backoff, Holdfast, Retry, Snooze, Task
from tests.apps import effect

SOON = Backoff(base_seconds=0.05, cap_seconds=0.5)
app = Holdfast()


@app.task("quick", backoff=SOON)
async def quick(task: Task[object]) -> int:
    effect("start", task)
    effect("end", task)
    return task.fence


@app.task("pause", backoff=SOON)
async def pause(task: Task[object]) -> None:
    effect("start", task)
    await asyncio.sleep(random.uniform(0.0, 0.1))
    effect("end", task)


@app.task("straddle", backoff=SOON)
async def straddle(task: Task[dict[str, float]]) -> None:
    effect("start", task)
    await asyncio.sleep(task.payload["seconds"])
    effect("end", task)


@app.task("thread", backoff=SOON)
def thread(task: Task[object]) -> None:
    effect("start", task)
    time.sleep(random.uniform(0.0, 0.02))
    effect("end", task)


@app.task("flaky", max_attempts=1_000, backoff=SOON)
async def flaky(task: Task[object]) -> Retry | None:
    effect("start", task)
    effect("end", task)
    return Retry("bad luck") if random.random() < 0.3 else None


@app.task("hopeless", max_attempts=3, backoff=SOON)
async def hopeless(task: Task[object]) -> Retry:
    effect("start", task)
    effect("end", task)
    return Retry("never")


@app.task("poll", backoff=SOON)
async def poll(task: Task[object]) -> Snooze | None:
    effect("start", task)
    effect("end", task)
    return Snooze(0.05) if task.polls < 3 else None


@app.task("segfault", backoff=SOON)
async def segfault(task: Task[object]) -> None:
    effect("start", task)
    ctypes.string_at(0)
