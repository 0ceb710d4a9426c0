"""Bulk kinds for the tests' workers: `tests.bulk_app:app`. Each call leaves a line, and one for each item."""

import asyncio
import ctypes
import time

from pydantic import BaseModel

from holdfast import Bulk, Fail, Holdfast, Snooze, Task
from tests.apps import SOON, effect

app = Holdfast()


class Item(BaseModel):
    """What to do with one item."""

    do: str = "nothing"


class Poisoned(Exception):
    """What a poison item makes of its call."""


def _work(bulk: Bulk[Item]) -> list[object]:
    effect("call", bulk[0])
    for task in bulk:
        effect("start", task)
        if task.payload.do == "poison":
            raise Poisoned(task.id)
        if task.payload.do == "segfault":
            ctypes.string_at(0)
    return [_answer(task) for task in bulk]


def _answer(task: Task[Item]) -> object:
    match task.payload.do:
        case "snooze":
            return Snooze(60)
        case "refuse":
            return Fail("REFUSED", "not this one")
        case "raise":
            return Poisoned("this one alone")
        case "value":
            return {"seen": task.id}
        case _:
            return None


@app.bulk_task("bulk", permanent=(Poisoned,), backoff=SOON)
async def bulk(bulk: Bulk[Item]) -> list[object]:
    return _work(bulk)


@app.bulk_task("bulk.large", size=10_000, linger=1, permanent=(Poisoned,), backoff=SOON)
async def large(bulk: Bulk[Item]) -> list[object]:
    return _work(bulk)


@app.bulk_task("bulk.plain", permanent=(Poisoned,), backoff=SOON)
def plain(bulk: Bulk[Item]) -> list[object]:
    return _work(bulk)


@app.bulk_task("bulk.slow", timeout=1, max_attempts=1)
async def slow(bulk: Bulk[Item]) -> None:
    effect("call", bulk[0])
    await asyncio.sleep(60 if any(task.payload.do == "hang" for task in bulk) else 0.01)


@app.bulk_task("bulk.stuck", timeout=1, max_attempts=1)
def stuck(bulk: Bulk[Item]) -> None:
    effect("call", bulk[0])
    time.sleep(60 if any(task.payload.do == "hang" for task in bulk) else 0.01)


@app.bulk_task("bulk.waits", timeout=60)
async def waits(bulk: Bulk[Item]) -> list[object]:
    """Until each of its items was told to stop, or ten seconds are over."""
    effect("call", bulk[0])
    for _ in range(200):
        await asyncio.sleep(0.05)
        if any(task.stopping for task in bulk):
            break
    return [Poisoned(task.stopping) if task.stopping else None for task in bulk]


class Panic(BaseException):
    """What an extension module raises that has lost its mind."""


@app.bulk_task("bulk.upset", max_attempts=1)
async def upset(bulk: Bulk[Item]) -> None:
    for task in bulk:
        if task.payload.do == "cancel":
            raise asyncio.CancelledError
        if task.payload.do == "panic":
            raise Panic


@app.bulk_task("bulk.miscounts", max_attempts=1)
async def miscounts(bulk: Bulk[Item]) -> list[object]:
    effect("call", bulk[0])
    return [None]


@app.bulk_task("bulk.finishes", backoff=SOON)
async def finishes(bulk: Bulk[Item]) -> None:
    """Rows of its own and all of its tasks in one commit; with `slowly` there is time before it."""
    effect("call", bulk[0])
    async with bulk.finish([{"row": task.id} for task in bulk]) as tx:
        for task in bulk:
            await tx.execute("insert into effects (id) values (%s)", [task.id])
        if any(task.payload.do == "slowly" for task in bulk):
            await asyncio.sleep(1)
