"""Checks once a second whether an operator asked to cancel running tasks."""

import psycopg

from holdfast.db.link import Link, LinkLost
from holdfast.store.store import Store
from holdfast.worker.executor.runs import Runs

EVERY_SECONDS = 1.0


class Cancels:
    """The cancel requests of one executor."""

    def __init__(self, worker: str, store: Store, link: Link, runs: Runs) -> None:
        self._worker = worker
        self._store = store
        self._link = link
        self._runs = runs
        self._next_at = 0.0
        self._asking = False

    def due(self, now: float) -> bool:
        """Whether it is time to ask; short tasks are over before an answer would come."""
        return now >= self._next_at and not self._asking and self._runs.oldest_seconds() > EVERY_SECONDS / 2

    async def ask(self, now: float) -> None:
        """Ask the database, and stop what is to be stopped."""
        self._asking = True
        self._next_at = now + EVERY_SECONDS
        try:
            asked = await self._link.use(lambda conn: self._store.workers.cancel_requests(conn, self._worker))
        except (LinkLost, psycopg.Error):
            return
        finally:
            self._asking = False
        for task_id, fence, reason in asked:
            self._runs.cancel(task_id, fence, reason)
