"""Registers an executor's row with its lease, queues and kinds."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psycopg

from holdfast.core.events import StatementFailed
from holdfast.core.handler import Handlers
from holdfast.db.connect import Conn, not_allowed
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.kinds import Declarations
from holdfast.store.limits import CODE, Limits
from holdfast.store.schedules import Schedules
from holdfast.store.store import Store
from holdfast.worker.options import WorkerOptions


async def register(
    link: Link, store: Store, worker: str, options: WorkerOptions, handlers: Handlers
) -> float:
    """Make its kinds, their limits and schedules known, then the worker, however long the database is away.

    Answers from when on its lease counts, in monotonic seconds.
    """
    declared = [limit for handler in handlers.values() for limit in handler.limits()]
    limits = Limits(store.settings, store.listen, by=CODE)
    schedules = Schedules(store.settings, store.listen, by=CODE)
    kinds = Declarations(store.settings)

    async def enter(conn: Conn) -> None:
        # An earlier try may have committed although its answer was lost.
        with suppress(psycopg.errors.UniqueViolation):
            await store.workers.register(
                conn,
                worker,
                options.name,
                options.lease_seconds,
                queues=options.queues,
                kinds=sorted(handlers),
            )

    async def until_done(what: str, work: Callable[[Conn], Awaitable[None]]) -> None:
        async def with_rights(conn: Conn) -> None:
            try:
                await work(conn)
            except psycopg.errors.InsufficientPrivilege as error:
                # No wait grants a right: the process ends.
                raise not_allowed(conn, options.url, error) from error

        delay = ReconnectDelay()
        while True:
            try:
                return await link.use(with_rights)
            except LinkLost:
                await asyncio.sleep(delay.next())
            except psycopg.Error as error:
                store.listen(StatementFailed(what, str(error).strip()))
                await asyncio.sleep(delay.next() * 10)

    # Kinds first: they say which fields are secret, which applies as soon as a task fails.
    await until_done("declare kinds", lambda conn: kinds.declare(conn, handlers.values()))
    await until_done("declare limits", lambda conn: limits.declare(conn, declared))
    await until_done("declare schedules", lambda conn: schedules.declare(conn, handlers.values()))
    began = time.monotonic()
    await until_done("register", enter)
    return began
