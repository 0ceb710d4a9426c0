"""Sending again: what failed goes through plans like every dead letter, what did not is delivered anew."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import Misused
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.core.state import State
from holdfast.ops.dead import DeadFilter, DeadLetters
from holdfast.ops.plan import How, PlanView
from holdfast.ops.plans import Plans
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.bridges import bridge_async
from holdfast.store.enqueue import Enqueuer
from holdfast.store.operate import Operator
from holdfast.store.pool import Conn
from holdfast.store.sql import load
from holdfast.webhooks.endpoints import Endpoints
from holdfast.webhooks.kinds import DELIVER, PACKAGE, Delivery
from holdfast.webhooks.publish import delivery_task

# Of what was delivered, so many at most are sent again at once.
DELIVERED_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Resent:
    """What is sent again: a plan for what had failed, and new deliveries of what had not."""

    plan: PlanView | None
    delivered: int


class Resend:
    """Sends again in somebody's name."""

    def __init__(self, settings: Settings, handlers: Handlers, listen: Listener = silent, *, by: str) -> None:
        self._settings = settings
        self._sql = load("webhooks.sql", settings.schema_name, PACKAGE)
        self._endpoints = Endpoints(settings, listen, by=by)
        self._dead = DeadLetters(settings, listen, by=by, handlers=handlers)
        self._plans = Plans(settings, listen, by=by, handlers=handlers)
        self._operator = Operator(settings, listen, by=by)
        self._enqueuer = Enqueuer(settings, listen)
        self._audit = AuditWriter(settings, listen)
        self._by = by

    async def one(self, conn: Conn, delivery: str, reason: str) -> str:
        """One delivery; answers the task that sends it."""
        task = await self._operator.show(conn, delivery)
        if task.kind != DELIVER:
            raise Misused(f"task {delivery} is a {task.kind}, no delivery")
        if task.state is State.FAILED:
            await self._dead.retry(conn, [delivery], reason)
            return delivery
        if task.state is not State.COMPLETED or task.payload is None:
            raise Misused(f"delivery {delivery} is {task.state}: what has not ended cannot be sent again")
        async with conn.transaction():
            (sent,) = await self._again(conn, [task.payload], reason)
        return sent

    async def since(
        self, conn: Conn, endpoint: str, since: datetime, reason: str, *, delivered: bool = False
    ) -> Resent:
        """What failed to reach an endpoint from a moment on, and with `delivered` also what did reach it.

        The plan starts at once, unless it is so large that a second person has to approve it.
        """
        async with conn.transaction():
            await self._endpoints.show(conn, endpoint)
            only = DeadFilter(kind=DELIVER, subject=endpoint, since=since)
            plan = await self._plans.freeze(conn, only, reason, How(canary=0))
            if plan.items and not plan.needs_approval:
                plan, _ = await self._plans.start(conn, plan.id)
            payloads: Sequence[str] = ()
            if delivered:
                values = {"endpoint": endpoint, "since": since, "limit": DELIVERED_MAX + 1}
                rows = await (await conn.execute(self._sql["delivered_since"], values)).fetchall()
                if len(rows) > DELIVERED_MAX:
                    raise Misused(f"more than {DELIVERED_MAX} were delivered since then: begin later")
                payloads = [payload for (payload,) in rows]
            sent = await self._again(conn, payloads, reason)
        return Resent(plan if plan.items else None, len(sent))

    async def _again(self, conn: Conn, payloads: Sequence[str], reason: str) -> list[str]:
        """New deliveries of what was delivered before, with an entry in the audit for each."""
        if not payloads:
            return []
        deliveries = [Delivery.model_validate_json(payload) for payload in payloads]
        in_order = {one.id: one.in_order for one in await self._endpoints.page(conn)}
        batch = str(uuid4())
        tasks = [
            delivery_task(self._settings, one, in_order=in_order.get(one.endpoint, False), again=batch)
            for one in deliveries
        ]
        sent = [one.id for one in await self._enqueuer.enqueue(bridge_async(conn), tasks)]
        author = Author(self._by, reason)
        await self._audit.note_tasks(conn, Action.WEBHOOK_RESEND, author, sent, batch=batch)
        return sent
