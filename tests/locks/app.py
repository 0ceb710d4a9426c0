"""What runs while a table is locked: every kind uses other tables, so that each lock meets statements."""

import asyncio

from holdfast import Backoff, Holdfast, Limit, Retry, Task
from tests.apps import effect

SOON = Backoff(base_seconds=0.05, cap_seconds=0.2)
KINDS = ("plain", "capped", "keyed", "flaky", "finishing")
app = Holdfast()


@app.task("plain")
async def plain(task: Task[object]) -> None:
    effect("start", task)


@app.task("capped", limit=Limit(running=4))
async def capped(task: Task[object]) -> None:
    effect("start", task)
    await asyncio.sleep(0.01)


@app.task("keyed", per=("group", Limit(running=2)))
async def keyed(task: Task[dict[str, int]]) -> None:
    effect("start", task)
    await asyncio.sleep(0.01)


@app.task("flaky", backoff=SOON)
async def flaky(task: Task[object]) -> Retry | None:
    effect("start", task)
    return Retry("not yet") if task.attempt == 1 else None


@app.task("finishing")
async def finishing(task: Task[object]) -> None:
    effect("start", task)
    async with task.finish() as conn:
        await conn.execute("select 1")
