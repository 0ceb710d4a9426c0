"""An app with secrets in payloads, results and schedules: `tests.secret_app:app`."""

from collections.abc import Sequence

from pydantic import BaseModel

from holdfast import Cron, Holdfast, Task
from holdfast.core.handler import Candidate, Guarded

app = Holdfast(webhooks=True)
# What a client of a provider may put into its errors.
SENT = "Authorization: Bearer planted-header-0001, X-Api-Key: planted-header-0002, password=planted-message"


class Payment(BaseModel):
    """What is paid with."""

    card: str
    decline: bool = False


async def allow(letters: Sequence[Candidate]) -> list[Guarded]:
    """Let every dead letter go."""
    return [Guarded() for _ in letters]


@app.task(
    "pay",
    queue="money",
    secrets=("card",),
    guard=allow,
    max_attempts=1,
    schedule=Cron("0 0 1 1 *", name="yearly", payload={"card": "planted-schedule"}),
)
async def pay(task: Task[Payment]) -> dict[str, object]:
    payment = task.payload
    if payment.decline:
        raise ValueError(f"declined {payment!r}: {SENT}")
    return {"paid": {"card": payment.card}}


@app.task("echo")
async def echo(task: Task[object]) -> object:
    return task.payload
