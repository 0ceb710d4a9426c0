"""How an executor enters: its row, with a lease and what it serves; its supervisor renews from then on."""

import asyncio
from collections.abc import Sequence

import psycopg

from holdfast.core.events import StatementFailed
from holdfast.runtime.link import Backoff, Link, LinkLost
from holdfast.runtime.plan import Plan
from holdfast.store.tasks import TaskStore


async def register(link: Link, store: TaskStore, worker: str, plan: Plan, kinds: Sequence[str]) -> None:
    """Make the worker known, however long the database takes to be there."""
    backoff = Backoff()
    while True:
        try:
            await link.use(
                lambda conn: store.register(
                    conn, worker, plan.name, plan.lease_seconds, queues=plan.queues, kinds=kinds
                )
            )
        except LinkLost:
            await asyncio.sleep(backoff.next())
        except psycopg.errors.UniqueViolation:
            # The answer to the first try was lost, not the row.
            return
        except psycopg.Error as error:
            store.listen(StatementFailed("register", str(error).strip()))
            await asyncio.sleep(backoff.next() * 10)
        else:
            return
