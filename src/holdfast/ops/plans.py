"""Creates, approves, starts and ends plans that redrive or forget many dead letters.

    frozen ── start ──▶ running ──▶ finished        everything was sent
                        │  ▲  │
                  pause ▼  │  └──▶ stopped          the canary, or the ramp, failed as before
                       paused ───▶ aborted          an operator said so (also from frozen)

A plan holds the tasks that were dead when it was made. Whoever starts it enqueues a task in the same commit,
and a worker drives it (`ops.driver`). What was sent is followed to its end even after a stop.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import PlanNotFound, PlanRefused
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.core.operator_events import PlanChanged
from holdfast.core.task import is_id
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.dead_letters import DeadFilter, DeadLetters
from holdfast.ops.plan_guards import PlanGuards
from holdfast.ops.plan_view import How, PlanView, Preview
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.plan_tasks import PlanTasks

SAMPLE = 10
SUMMARIES = {"redrive": Action.RETRY_BATCH_SUMMARY, "forget": Action.FORGET_BATCH_SUMMARY}


class Plans:
    """The plans of one installation; `handlers` are the app's, where it is known."""

    def __init__(
        self, settings: Settings, listen: Listener = silent, *, by: str, handlers: Handlers | None = None
    ) -> None:
        self._settings = settings
        self._sql = load("ops/plans.sql", settings.schema_name)
        self._audit = AuditWriter(settings, listen)
        self._drivers = PlanTasks(settings, listen)
        self._dead = DeadLetters(settings, listen, by=by)
        self._guards = PlanGuards(settings, handlers or {})
        self._listen = listen
        self._by = by

    async def preview(
        self, conn: Conn, only: DeadFilter, action: str = "redrive", most: int | None = None
    ) -> Preview:
        """How many, of which sorts, a sample, what guards forbid and what it costs; with `most`, of some."""
        sorts = await self._dead.sorts(conn, only, most)
        tasks = sum(sort.tasks for sort in sorts)
        asked = None
        if action == "redrive":
            ask = self._guards.ask_all if most is None else self._guards.ask_some
            asked = await ask(conn, only)
        vetoes = {} if asked is None else asked.vetoes
        return Preview(
            tasks - len(vetoes),
            sorts,
            await self._dead.page(conn, only, limit=SAMPLE),
            Counter(vetoes.values()),
            None if asked is None or not asked.kinds else asked.money_effect,
            tasks - len(vetoes) > self._approval_above(action),
            self._guards.unknown(sort.kind for sort in sorts) if action == "redrive" else [],
            exact=(most is None or tasks < most) and (asked is None or asked.are_all),
        )

    def _approval_above(self, action: str) -> int:
        """With more items than this a second person is needed; to forget always."""
        return -1 if action == "forget" else self._settings.approval_above

    async def freeze(
        self, conn: Conn, only: DeadFilter, reason: str, how: How | None = None, action: str = "redrive"
    ) -> PlanView:
        """Make a plan of what the filter finds now; nothing happens to the tasks."""
        how = how or How()
        asked = await self._guards.ask_all(conn, only) if action == "redrive" else None
        plan_id = str(uuid4())
        values = only.values() | {
            "plan": plan_id,
            "action": action,
            "by": self._by,
            "because": reason,
            "filter": json.dumps(only.said()),
            "vetoes": json.dumps({} if asked is None else asked.vetoes),
            "money": None if asked is None or not asked.kinds else asked.money_effect,
            "limit": how.limit,
            "canary": how.canary,
            "rate": how.rate,
            "stop_ratio": how.stop_ratio,
            "expires_seconds": how.expires_seconds,
            "approval_above": self._approval_above(action),
        }
        async with conn.transaction():
            await conn.execute(self._sql["freeze"], values)
            plan = await self.show(conn, plan_id)
            details = {"action": action, "items": plan.items, "setHash": plan.set_hash, "filter": plan.filter}
            await self._note(conn, Action.PLAN_CREATE, plan_id, reason, details)
        return plan

    async def approve(self, conn: Conn, plan_id: str, reason: str = "") -> PlanView:
        """Say as a second person that a plan may start."""
        async with conn.transaction():
            if not await self._one(conn, "approve", plan_id):
                plan = await self.show(conn, plan_id)
                me = await self._audit.identity(conn)
                raise PlanRefused(plan_id, plan.shown_state, plan.why_not_approved(self._by, me))
            await self._note(conn, Action.PLAN_APPROVE, plan_id, reason)
        return await self.show(conn, plan_id)

    async def start(self, conn: Conn, plan_id: str) -> tuple[PlanView, dict[str, int]]:
        """Let it begin; answers how the set has drifted since it was frozen. Only one who asks starts it."""
        async with conn.transaction():
            if not await self._one(conn, "start", plan_id):
                plan = await self.show(conn, plan_id)
                raise PlanRefused(plan_id, plan.shown_state, plan.why_not_started())
            await self._drivers.begin(conn, plan_id)
            drift = await self.drift(conn, plan_id)
            plan = await self.show(conn, plan_id)
            details = {"items": plan.items, "drift": drift}
            await self._note(conn, Action.PLAN_START, plan_id, plan.reason, details)
        self._listen(PlanChanged(plan_id, "running", self._by, plan.reason))
        return plan, drift

    async def pause(self, conn: Conn, plan_id: str, reason: str) -> None:
        """Send nothing more until it is resumed."""
        await self._switch(conn, "pause_plan", Action.PLAN_PAUSE, plan_id, reason, "paused")

    async def resume(self, conn: Conn, plan_id: str, reason: str = "") -> None:
        """Go on where it was paused."""
        await self._switch(conn, "resume_plan", Action.PLAN_RESUME, plan_id, reason, "running")

    async def abort(self, conn: Conn, plan_id: str, reason: str) -> None:
        """End it for good; what was sent stays sent, and is followed."""
        states = ("frozen", "running", "paused")
        async with conn.transaction():
            if not await self.end(conn, plan_id, "aborted", reason, states, Author(self._by, reason)):
                plan = await self.show(conn, plan_id)
                raise PlanRefused(plan_id, plan.shown_state, "only one that has not ended can be aborted")

    async def end(
        self, conn: Conn, plan_id: str, state: str, why: str, states: Sequence[str], author: Author
    ) -> bool:
        """End a plan, with the summary of what it did; whether it was in one of these states."""
        values = {"plan": plan_id, "state": state, "why": why, "states": list(states)}
        async with conn.transaction():
            row = await (await conn.execute(self._sql["end_plan"], values)).fetchone()
            if row is None:
                return False
            action, items, sent, skipped, starter, reason = row
            if state != "finished":
                ended = Action.PLAN_ABORT if state == "aborted" else Action.PLAN_STOP
                await self._audit.note(conn, ended, author, batch=plan_id, details={"why": why})
            details = {
                "state": state,
                "items": items,
                "done": sent,
                "skipped": skipped,
                "left": items - sent - skipped,
            }
            summing = Author(starter, reason, author.code)
            await self._audit.note(conn, SUMMARIES[action], summing, batch=plan_id, details=details)
        self._listen(PlanChanged(plan_id, state, author.by, why))
        return True

    async def latest(self, conn: Conn, limit: int = 20) -> list[PlanView]:
        """The latest plans."""
        return await self._views(conn, None, limit)

    async def show(self, conn: Conn, plan_id: str) -> PlanView:
        """One plan."""
        if not is_id(plan_id):
            raise PlanNotFound(plan_id)
        found = await self._views(conn, plan_id, 1)
        if not found:
            raise PlanNotFound(plan_id)
        return found[0]

    async def drift(self, conn: Conn, plan_id: str) -> dict[str, int]:
        """What has become of the items since the plan was frozen, apart from those that are as they were."""
        rows = await (await conn.execute(self._sql["drift"], {"plan": plan_id})).fetchall()
        return {what: count for what, count in rows if what != "as it was"}

    async def skips(self, conn: Conn, plan_id: str) -> dict[str, int]:
        """Why items were left alone, and how many."""
        return dict(await (await conn.execute(self._sql["skips_of_plan"], {"plan": plan_id})).fetchall())

    async def _views(self, conn: Conn, plan_id: str | None, limit: int) -> list[PlanView]:
        cursor = await conn.execute(self._sql["plans"], {"id": plan_id, "limit": limit})
        names = [column.name for column in cursor.description or ()]
        wanted = {field.name for field in fields(PlanView)}
        found = []
        for row in await cursor.fetchall():
            values = {name: value for name, value in zip(names, row, strict=True) if name in wanted}
            found.append(PlanView(**values | {"id": str(values["id"])}))
        return found

    async def _switch(
        self, conn: Conn, statement: str, action: Action, plan_id: str, reason: str, state: str
    ) -> None:
        async with conn.transaction():
            if not await self._one(conn, statement, plan_id):
                plan = await self.show(conn, plan_id)
                raise PlanRefused(plan_id, plan.shown_state, f"it cannot be {state} now")
            await self._note(conn, action, plan_id, reason)
        self._listen(PlanChanged(plan_id, state, self._by, reason))

    async def _one(self, conn: Conn, statement: str, plan_id: str) -> bool:
        if not is_id(plan_id):
            raise PlanNotFound(plan_id)
        cursor = await conn.execute(self._sql[statement], {"plan": plan_id, "by": self._by})
        return await cursor.fetchone() is not None

    async def _note(
        self,
        conn: Conn,
        action: Action,
        plan_id: str,
        reason: str,
        details: Mapping[str, object] | None = None,
    ) -> None:
        await self._audit.note(conn, action, Author(self._by, reason), batch=plan_id, details=details)
