"""How an executor enters: its row, with a lease and what it serves; its supervisor renews from then on."""

import asyncio

import psycopg

from holdfast.core.events import StatementFailed
from holdfast.core.handler import Handlers
from holdfast.runtime.link import Backoff, Link, LinkLost
from holdfast.runtime.plan import Plan
from holdfast.store.limits import CODE, Limits
from holdfast.store.schedules import Schedules
from holdfast.store.tasks import TaskStore


async def register(link: Link, store: TaskStore, worker: str, plan: Plan, handlers: Handlers) -> None:
    """Make the worker, its kinds' limits and schedules known, however long the database takes to be there."""
    declared = [limit for handler in handlers.values() for limit in handler.limits()]
    limits = Limits(store.settings, store.listen, by=CODE)
    schedules = Schedules(store.settings, store.listen, by=CODE)
    backoff = Backoff()
    while True:
        try:
            await link.use(
                lambda conn: store.register(
                    conn, worker, plan.name, plan.lease_seconds, queues=plan.queues, kinds=sorted(handlers)
                )
            )
            break
        except LinkLost:
            await asyncio.sleep(backoff.next())
        except psycopg.errors.UniqueViolation:
            # The answer to the first try was lost, not the row.
            break
        except psycopg.Error as error:
            store.listen(StatementFailed("register", str(error).strip()))
            await asyncio.sleep(backoff.next() * 10)
    while True:
        try:
            await link.use(lambda conn: limits.declare(conn, declared))
            return await link.use(lambda conn: schedules.declare(conn, handlers.values()))
        except LinkLost:
            await asyncio.sleep(backoff.next())
