"""Renews the leases of all executors of one worker in one statement."""

import asyncio
import time
from collections.abc import Callable, Collection

import psycopg

from holdfast.core.events import StatementFailed
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.store import Store
from holdfast.worker.channel import Order
from holdfast.worker.options import WorkerOptions
from holdfast.worker.supervisor.executor_process import ExecutorProcess

RECONCILE_EVERY = 10


class Leases:
    """Renews; `lost` is told of each executor whose lease the database does not know any more."""

    def __init__(
        self,
        options: WorkerOptions,
        store: Store,
        children: Collection[ExecutorProcess],
        lost: Callable[[ExecutorProcess], None],
    ) -> None:
        self._options = options
        self._store = store
        self._children = children
        self._lost = lost
        # A connection to itself: nothing may make it wait.
        # An answer that comes after the lease has ended is worth nothing.
        seconds = max(1.0, options.lease_seconds / 3)
        self._link = Link(
            options.url, f"holdfast {options.name} leases", store.listen, deadline_seconds=seconds
        )

    async def run(self) -> None:
        """Renew at a third of the lease, and sooner after a failure."""
        rounds = 0
        delay = ReconnectDelay()
        while True:
            pause = self._options.renew_seconds
            try:
                await self._renew()
                delay.reset()
                rounds += 1
            except LinkLost:
                pause = min(pause, delay.next())
            except psycopg.Error as error:
                self._store.listen(StatementFailed("renew", str(error).strip()))
                pause = min(pause, delay.next())
            if rounds and rounds % RECONCILE_EVERY == 0:
                for child in self._children:
                    child.order(Order.RECONCILE)
            await asyncio.sleep(pause)

    async def renew_now(self) -> None:
        """Out of turn, after this process was stopped for a while."""
        try:
            await self._renew()
        except (LinkLost, psycopg.Error):
            # The usual round tries again, and the end of the lease stops the handlers.
            return

    async def _renew(self) -> None:
        children = [child for child in self._children if child.ready]
        if not children:
            return
        sent_at = time.monotonic()
        workers = [child.worker for child in children]
        renewed = await self._link.use(
            lambda conn: self._store.workers.renew(conn, workers, self._options.lease_seconds)
        )
        for child in children:
            if child.worker in renewed:
                child.lease_until = sent_at + self._options.lease_seconds
            else:
                self._lost(child)
