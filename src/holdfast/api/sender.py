"""Enqueues tasks in the caller's transaction or in one of the app's own."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import psycopg

from holdfast.api.connections import AppConnections
from holdfast.api.handles import TaskHandle
from holdfast.core.task import Enqueued, NewTask
from holdfast.db.bridges import bridge_async, bridge_sync
from holdfast.db.connect import Conn
from holdfast.store.enqueue import Enqueuer
from holdfast.store.operate import Operator


class Sender:
    """The enqueuer, and the app's own connections."""

    def __init__(self, enqueuer: Enqueuer, desk: AppConnections, operator: Operator) -> None:
        self.desk = desk
        self.operator = operator
        self._enqueuer = enqueuer

    async def enqueue(self, tasks: Sequence[NewTask], conn: object | None) -> list[TaskHandle]:
        """In the caller's transaction, or in one of its own."""
        if conn is not None:
            return self._handles(await self._enqueuer.enqueue(bridge_async(conn), tasks))
        return self._handles(await self.desk.use(lambda own: self._enqueue(own, tasks)))

    def enqueue_sync(self, tasks: Sequence[NewTask], conn: object | None) -> list[TaskHandle]:
        """The same, where calls block."""
        if conn is not None:
            return self._handles(self._enqueuer.enqueue_sync(bridge_sync(conn), tasks))
        return self._handles(self.desk.use_sync(lambda own: self._enqueue_sync(own, tasks)))

    async def _enqueue(self, own: Conn, tasks: Sequence[NewTask]) -> list[Enqueued]:
        # All of them or none, though those that come after others take a statement each.
        async with own.transaction() if any(task.after for task in tasks) else nullcontext():
            return await self._enqueuer.enqueue(bridge_async(own), tasks)

    def _enqueue_sync(self, own: "psycopg.Connection[Any]", tasks: Sequence[NewTask]) -> list[Enqueued]:
        with own.transaction() if any(task.after for task in tasks) else nullcontext():
            return self._enqueuer.enqueue_sync(bridge_sync(own), tasks)

    def _handles(self, enqueued: Iterable[Enqueued]) -> list[TaskHandle]:
        return [TaskHandle(one.id, one.created, self.desk, self.operator) for one in enqueued]
