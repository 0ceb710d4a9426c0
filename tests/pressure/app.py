"""What runs under limits: tasks that take a few milliseconds and leave a line at both ends."""

import asyncio
import random
from typing import Any

from holdfast import Backoff, Holdfast, Limit, Retry, Task
from tests.apps import effect

SOON = Backoff(base_seconds=0.02, cap_seconds=0.1)
app = Holdfast()


async def _work(task: Task[dict[str, Any]]) -> None:
    effect("start", task)
    await asyncio.sleep(task.payload.get("seconds", 0.0))
    effect("end", task)


for kind in ("one", "seven", "fifty", "rated"):
    app.task(kind, backoff=SOON)(_work)
fair = app.task("fair", backoff=SOON, per=("tenant", Limit()))(_work)


@app.task("laned", backoff=SOON, max_attempts=1_000)
async def laned(task: Task[dict[str, float]]) -> Retry | None:
    effect("start", task)
    if random.random() < 0.05:
        return Retry("bad luck")
    effect("end", task)
    return None
