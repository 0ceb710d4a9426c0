"""The app of `benchmarks.against`; it runs on every release, so it uses only `from holdfast import …`."""

import os
from functools import cache

from holdfast import Holdfast, Limit, Task

# The file to which every handler writes one byte.
MARKS = "AGAINST_MARKS"
KEYS = 50
KEY_LIMIT = Limit(running=4)
KIND_LIMIT = Limit(running=100)

app = Holdfast()


@cache
def _marks() -> int:
    return os.open(os.environ[MARKS], os.O_CREAT | os.O_WRONLY | os.O_APPEND)


@app.task("against.drain")
async def drain(_task: Task[dict[str, object]]) -> None:
    """Does nothing but being counted."""
    os.write(_marks(), b".")


@app.task("against.finish")
async def finish(task: Task[dict[str, object]]) -> None:
    """Updates a row of the user in the transaction that completes the task."""
    async with task.finish() as tx:
        await tx.execute("update against_rows set runs = runs + 1 where id = %s", [task.payload["row"]])
    os.write(_marks(), b".")


@app.task("against.limits", limit=KIND_LIMIT, per=("key", KEY_LIMIT))
async def limits(_task: Task[dict[str, object]]) -> None:
    """Does nothing, behind the limit of its kind and the limit of its key."""
    os.write(_marks(), b".")
