"""Procrastinate: a hundred at once; tuned: twenty at once, finished jobs deleted, uvloop."""

import asyncio

import procrastinate

from marks import CHUNK, PAYLOAD, TUNED, URL, chosen, mark

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.task(name="noop")
async def noop(payload: str) -> None:
    """Nothing."""
    mark()


async def fill(tasks: int) -> None:
    """Install its tables and put tasks there."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for _ in range(tasks // CHUNK):
            await noop.batch_defer_async(*[{"payload": PAYLOAD}] * CHUNK)


async def work() -> None:
    """Run tasks for ever."""
    async with app.open_async():
        if TUNED:
            await app.run_worker_async(concurrency=20, delete_jobs="always")
        else:
            await app.run_worker_async(concurrency=100)


if TUNED:
    import uvloop

    uvloop.run(chosen(fill, work))
else:
    asyncio.run(chosen(fill, work))
