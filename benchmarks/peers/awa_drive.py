"""Awa: a queue of a hundred at once; tuned: five hundred, more connections, a short poll."""

import asyncio
from dataclasses import dataclass

import awa

from marks import CHUNK, PAYLOAD, TUNED, URL, chosen, mark


@dataclass
class Noop:
    """Nothing."""

    payload: str


async def fill(tasks: int) -> None:
    """Install its tables and put tasks there."""
    async with awa.AsyncClient(URL) as client:
        await client.migrate()
        for _ in range(tasks // CHUNK):
            await client.insert_many_copy([Noop(PAYLOAD)] * CHUNK)


async def work() -> None:
    """Run tasks for ever."""
    client = awa.AsyncClient(URL, max_connections=20 if TUNED else 10)

    @client.task(Noop)
    async def noop(job: "awa.Job") -> None:
        mark()

    await client.start([("default", 500 if TUNED else 100)], poll_interval_ms=50 if TUNED else 200)
    await asyncio.Event().wait()


asyncio.run(chosen(fill, work))
