"""The engine without a worker: enqueue with a row of your own, claim, settle. Runs by itself.

HOLDFAST_DATABASE_URL=postgresql://… python examples/minimal_loop.py
"""

import asyncio
import json
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.decide import Policy, decide
from holdfast.core.outcome import Complete, Outcome, Retry
from holdfast.core.task import Claim, NewTask
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.store.operate import Operator
from holdfast.store.store import Store
from holdfast.worker.executor.claimer import Claimer

QUEUE = "minimal loop"


def send(claim: Claim) -> Outcome:
    """A handler: it fails once, then succeeds. What it returns is a value, not an exception."""
    if claim.failures == 0:
        return Retry("the mail server is busy", after=0)
    return Complete(json.dumps({"sent to": json.loads(claim.payload)["to"]}))


async def main() -> None:
    """Enqueue one task with an order, and work until its queue is empty: what others enqueued is theirs."""
    settings = Settings()
    store, operator = Store(settings), Operator(settings)
    async with await connect(settings.database_url) as conn:
        await migrate_up(conn, settings.schema_name)
        await conn.execute("create temporary table orders (id int, customer int)")

        async with conn.transaction():  # the order and its task commit together, or not at all
            await conn.execute("insert into orders values (7, 3)")
            task = await store.enqueue(conn, NewTask("mail.send", '{"to": 3}', queue=QUEUE, key="order:7"))

        worker = str(uuid4())
        await store.workers.register(conn, worker, "minimal loop", lease_seconds=30)
        claimer = Claimer(store, [QUEUE], worker, kinds=["mail.send"])
        while claims := await claimer.claim(conn, limit=10):
            verdicts = [(claim, decide(claim, send(claim), Policy())) for claim in claims]
            settled = await store.settler.settle(conn, verdicts)
            for claim, verdict in settled.accepted:
                print(f"{claim.kind} fence {claim.fence}: {verdict.move}")
        await store.workers.retire(conn, worker)

        seen = await operator.show(conn, task.id)
        print(f"task is {seen.state} after {seen.counters.attempts} attempts: {seen.result}")


if __name__ == "__main__":
    asyncio.run(main())
