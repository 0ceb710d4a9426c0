"""The app that is attacked: `tests.hostile.app:app`. Each handler does the worst with what it is given."""

import os
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from holdfast import Bulk, Cancel, Candidate, Fail, Guarded, Holdfast, Retry, Task
from tests.hostile.texts import payload, text

app = Holdfast(webhooks=True)
KINDS = (
    "hostile.plain",
    "hostile.typed",
    "hostile.list",
    "hostile.lines",
    "hostile.many",
    "hostile.upgraded",
)
OUTSIDE = "hostile.outside"


class Note(BaseModel):
    """A payload with a shape."""

    card: str
    n: int = 0
    deep: Any = None


class Line(BaseModel):
    """One of many."""

    sku: str
    n: int


async def guard(candidates: Sequence[Candidate]) -> list[Guarded]:
    """Refuses in the words of its payload."""
    return [Guarded(veto=str(candidate.payload)) for candidate in candidates]


@app.task("hostile.plain", secrets=("card",), max_attempts=1, guard=guard)
async def plain(task: Task[Any]) -> None:
    raise ValueError(f"declined {task.payload}")


@app.task("hostile.typed", secrets=("card",), max_attempts=1)
async def typed(task: Task[Note]) -> None:
    raise ValueError(f"declined {task.payload}")


@app.task("hostile.list", secrets=("card",), max_attempts=1)
async def listed(task: Task[list[int]]) -> None:
    raise ValueError(f"declined {task.payload}")


@app.task("hostile.lines", secrets=("card",), max_attempts=1)
async def lines(task: Task[list[Line]]) -> None:
    raise ValueError(f"declined {task.payload}")


@app.bulk_task("hostile.many", secrets=("card",), max_attempts=1)
async def many(bulk: Bulk[Any]) -> list[Exception]:
    return [ValueError(f"declined {task.payload}") for task in bulk]


@app.task("hostile.upgraded", secrets=("card",), max_attempts=1, version=2, upgrades={1: dict})
def upgraded(task: Task[Any]) -> object:
    return task.payload


def dies(values: dict[str, Any]) -> dict[str, Any]:
    """An upgrade that takes its process along, as a fault in a library in C does."""
    os._exit(9)


@app.task("hostile.dies", version=2, upgrades={1: dies})
async def never(task: Task[Any]) -> None:
    """Its payload cannot be read and survived."""


@app.task("hostile.well")
async def well(task: Task[Any]) -> str:
    return "done"


@app.task("hostile.ends", max_attempts=1)
async def ends(task: Task[dict[str, int]]) -> object:
    """Ends in the way, and with the text, that the number in its payload says."""
    number = task.payload["number"]
    match number % 8:
        case 0:
            return Fail(text(number), text(number + 1))
        case 1:
            return Cancel(text(number))
        case 2:
            return Retry(text(number), 0.0, text(number + 1)[:50])
        case 3:
            return text(number)
        case 4:
            return {text(number): text(number + 1)}
        case 5:
            nested: list[object] = []
            for _ in range(number % 5_000):
                nested = [nested]
            return nested
        case 6:
            raise ValueError(payload(number))
        case _:
            raise RuntimeError(text(number)) from ValueError(text(number + 1))
