"""oban-py: a queue of a hundred at once; tuned: five hundred, uvloop."""

import asyncio

import psycopg
from oban import Oban, worker
from oban.schema import install_sql

from marks import CHUNK, PAYLOAD, TUNED, URL, chosen, mark


@worker(queue="default")
class Noop:
    """Nothing."""

    async def process(self, job: object) -> None:
        """Run one."""
        mark()


async def fill(tasks: int) -> None:
    """Install its tables and put tasks there."""
    async with await psycopg.AsyncConnection.connect(URL, autocommit=True) as conn:
        await conn.execute(install_sql())
    pool = await Oban.create_pool(URL)
    engine = Oban(pool=pool)
    for _ in range(tasks // CHUNK):
        await engine.enqueue_many([Noop.new({"payload": PAYLOAD}) for _ in range(CHUNK)])
    await pool.close()


async def work() -> None:
    """Run tasks for ever."""
    pool = await Oban.create_pool(URL, max_size=10)
    async with Oban(pool=pool, queues={"default": 500 if TUNED else 100}):
        await asyncio.Event().wait()


if TUNED:
    import uvloop

    uvloop.run(chosen(fill, work))
else:
    asyncio.run(chosen(fill, work))
