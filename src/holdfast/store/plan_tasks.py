"""Ensures that each active plan has a task that drives it."""

import json

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.task import RESERVED_QUEUE, NewTask
from holdfast.db.bridges import bridge_async
from holdfast.db.connect import Conn
from holdfast.store.enqueue import Enqueuer

PLAN_KIND = "holdfast.plan"


class PlanTasks:
    """The tasks that drive plans: made when one starts, and again if its task died too often."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._enqueuer = Enqueuer(settings, listen)

    async def begin(self, conn: Conn, plan_id: str) -> None:
        """Have a worker drive this plan."""
        task = NewTask(
            PLAN_KIND, json.dumps({"plan": plan_id}), queue=RESERVED_QUEUE, priority=0, subject=plan_id
        )
        await self._enqueuer.enqueue(bridge_async(conn), [task])
