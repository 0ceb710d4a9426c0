"""PgQueuer: one worker; tuned: batches of 100, a pool, uvloop."""

import asyncio

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from marks import CHUNK, PAYLOAD, TUNED, URL, chosen, mark


async def fill(tasks: int) -> None:
    """Install its tables and put tasks there."""
    conn = await asyncpg.connect(URL)
    queries = Queries(AsyncpgDriver(conn))
    await queries.install()
    payload = PAYLOAD.encode()
    for _ in range(tasks // CHUNK):
        await queries.enqueue(["noop"] * CHUNK, [payload] * CHUNK, [0] * CHUNK)
    await conn.close()


async def work() -> None:
    """Run tasks for ever."""
    if TUNED:
        engine = PgQueuer.from_asyncpg_pool(await asyncpg.create_pool(URL, min_size=4, max_size=8))
    else:
        engine = PgQueuer.from_asyncpg_connection(await asyncpg.connect(URL))

    @engine.entrypoint("noop")
    async def noop(job: Job) -> None:
        mark()

    await engine.run(batch_size=100 if TUNED else 10)


if TUNED:
    import uvloop

    uvloop.run(chosen(fill, work))
else:
    asyncio.run(chosen(fill, work))
