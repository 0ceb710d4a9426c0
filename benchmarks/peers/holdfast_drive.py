"""Holdfast: one worker with its log lines in a file; tuned: two processes."""

import asyncio
import os
import sys

from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.core.task import NewTask
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.store.store import Store
from marks import CHUNK, PAYLOAD, TUNED, URL, chosen, mark

FILLERS = 2
app = Holdfast()


@app.task("noop")
async def noop(task: Task[dict[str, object]]) -> None:
    """Nothing."""
    mark()


async def fill(tasks: int) -> None:
    """Install its tables and put tasks there."""
    async with await connect(URL) as conn:
        await migrate_up(conn, "holdfast")
    await asyncio.gather(*[_put(tasks // FILLERS) for _ in range(FILLERS)])


async def _put(tasks: int) -> None:
    store = Store(Settings(database_url=URL))
    async with await connect(URL) as conn:
        for _ in range(tasks // CHUNK):
            await store.enqueue_many(conn, [NewTask("noop", PAYLOAD)] * CHUNK)


async def work() -> None:
    """Become its worker."""
    options = ["--processes", "2", "--concurrency", "100"] if TUNED else []
    os.environ["HOLDFAST_DATABASE_URL"] = URL
    os.execv(sys.executable, [sys.executable, "-m", "holdfast", "worker", "holdfast_drive:app", *options])


if __name__ == "__main__":
    asyncio.run(chosen(fill, work))
