"""Resends deliveries: failed ones through plans, successful ones as new deliveries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from pydantic import ValidationError

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import Misused
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.core.state import State
from holdfast.db.bridges import bridge_async
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.dead_letters import DeadFilter, DeadLetters
from holdfast.ops.plan_view import How, PlanView
from holdfast.ops.plans import Plans
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.enqueue import Enqueuer
from holdfast.store.operate import Operator
from holdfast.webhooks.endpoints import Endpoints
from holdfast.webhooks.payloads import DELIVER, Delivery
from holdfast.webhooks.publish import delivery_task


@dataclass(frozen=True, slots=True)
class Resent:
    """What is sent again: a plan for what had failed, and new deliveries of what had not."""

    plan: PlanView | None
    delivered: int
    # Delivered too, and their bodies were too large to be kept.
    not_kept: int


class Resend:
    """Sends again in somebody's name."""

    def __init__(self, settings: Settings, handlers: Handlers, listen: Listener = silent, *, by: str) -> None:
        self._settings = settings
        self._sql = load("webhooks/webhooks.sql", settings.schema_name)
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
            retried = await self._dead.retry(conn, [delivery], reason)
            if retried.refused:
                raise Misused(f"delivery {delivery} was not sent again: {retried.refused[delivery]}")
            return delivery
        if task.state is not State.COMPLETED:
            raise Misused(f"delivery {delivery} is {task.state}: what has not ended cannot be sent again")
        if task.payload is None:
            raise Misused(f"the body of delivery {delivery} was not kept: publish the event again")
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
            if (await self._endpoints.show(conn, endpoint)).disabled_at is not None:
                raise Misused(f"endpoint {endpoint} is disabled: enable it first")
            only = DeadFilter(kind=DELIVER, subject=endpoint, since=since)
            plan = await self._plans.freeze(conn, only, reason, How(canary=0))
            if plan.items and not plan.needs_approval:
                plan, _ = await self._plans.start(conn, plan.id)
            payloads = await self._delivered_since(conn, endpoint, since) if delivered else []
            sent = await self._again(conn, [one for one in payloads if one is not None], reason)
        return Resent(plan if plan.items else None, len(sent), len(payloads) - len(sent))

    async def _delivered_since(self, conn: Conn, endpoint: str, since: datetime) -> list[str | None]:
        """Payloads, no more than one person may send again; None where one was not kept."""
        most = self._settings.approval_above
        values = {"endpoint": endpoint, "since": since, "limit": most + 1}
        rows = await (await conn.execute(self._sql["delivered_since"], values)).fetchall()
        if len(rows) > most:
            raise Misused(f"more than {most} were delivered since then: begin later")
        return [payload for (payload,) in rows]

    async def _again(self, conn: Conn, payloads: Sequence[str], reason: str) -> list[str]:
        """New deliveries of what was delivered before, with an entry in the audit for each."""
        if not payloads:
            return []
        try:
            deliveries = [Delivery.model_validate_json(payload) for payload in payloads]
        except ValidationError as error:
            raise Misused("a delivery whose payload cannot be read cannot be sent again") from error
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
