"""The app of the benchmarks' workers: the same work as single tasks and in bulk."""

import asyncio
import os
import time
from functools import cache

from holdfast import Bulk, Holdfast, Task

# Where handlers say when they started.
STARTS = "HOLDFAST_BENCH_STARTS"
# The folder where a process that is timed says how many seconds counting took so far.
TOOK = "HOLDFAST_BENCH_TOOK"

app = Holdfast()


@app.task("single.noop")
async def single_noop(task: Task[object]) -> None:
    """Nothing, one by one."""


@app.task("burden")
async def burden(task: Task[object]) -> None:
    """One of ten million."""


@app.bulk_task("bulk.noop")
async def bulk_noop(bulk: Bulk[object]) -> None:
    """Nothing, by the hundred."""


@app.task("single.row")
async def single_row(task: Task[object]) -> None:
    """A row in the same commit as the end of the task."""
    async with task.finish() as tx:
        await tx.execute("insert into bench_rows (id) values (%s)", [task.id])


@app.bulk_task("bulk.row")
async def bulk_row(bulk: Bulk[object]) -> None:
    """The same rows, and the end of all tasks, in one commit."""
    async with bulk.finish() as tx:
        ids = [task.id for task in bulk]
        await tx.execute("insert into bench_rows (id) select * from unnest(%s::uuid[])", [ids])


@app.task("single.sync")
def single_sync(task: Task[object]) -> None:
    """Nothing, in a thread."""


@app.task("steady")
async def steady(task: Task[dict[str, float]]) -> None:
    """A line with the moment of its start, then so many seconds of waiting for somebody else."""
    os.write(_starts(), f"{task.id} {time.monotonic():.6f}\n".encode())
    await asyncio.sleep(task.payload["seconds"])


@cache
def _starts() -> int:
    return os.open(os.environ[STARTS], os.O_CREAT | os.O_WRONLY | os.O_APPEND)


# Delivers events, and does nothing else.
hooks = Holdfast(webhooks=True)
