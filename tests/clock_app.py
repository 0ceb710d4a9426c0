"""An app whose schedules fire every minute, and whose other tasks depend on a clock in some way."""

from typing import Any

from holdfast import Backoff, Cron, Holdfast, Limit, Retry, Snooze, Task
from tests.apps import effect

POLICIES = ("all", "one", "skip")
SCHEDULES = 50

app = Holdfast()


@app.task(
    "tick",
    schedule=[
        Cron("* * * * *", name=f"{POLICIES[n % 3]}-{n}", zone="Asia/Kolkata", missed=POLICIES[n % 3])
        for n in range(SCHEDULES)
    ],
)
async def tick(task: Task[object]) -> None:
    effect("start", task)


@app.task("probe")
async def probe(task: Task[object]) -> None:
    effect("start", task)


@app.task("limited", per=("of", Limit(rate="50/s", burst=10)))
async def limited(task: Task[dict[str, int]]) -> None:
    effect("start", task)


@app.task("again", backoff=Backoff(base_seconds=0.5, cap_seconds=0.5), max_attempts=100)
async def again(task: Task[object]) -> Retry:
    effect("start", task)
    return Retry("once more", 0.5)


@app.task("polled")
async def polled(task: Task[Any]) -> Snooze:
    effect("start", task)
    return Snooze(0.5)
