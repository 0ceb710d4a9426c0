"""Drives a plan as a task: redrives the next items and records their outcomes.

Each step is one transaction that says how far the plan has come, so a driver may die at any point, and two
of them do no more than one. Between looks it snoozes, which holds no worker up.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg.types.json import Jsonb

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handler, Handlers, Task
from holdfast.core.outcome import Snooze
from holdfast.core.task import RESERVED_QUEUE
from holdfast.db.connect import OWN_PATH, Conn, connect
from holdfast.db.statements import load, load_all
from holdfast.ops.plan_guards import PlanGuards
from holdfast.ops.plans import Plans
from holdfast.store.audit import Author
from holdfast.store.plan_tasks import PLAN_KIND

SEND = 4_000
FOLLOW = 5_000
# Fewer that have ended say little of the rest.
JUDGED_MIN = 20
# A driver gives its slot back after so long, and takes up where it was.
SLICE_SECONDS = 20.0
LOOK_SECONDS = 0.5
LOOK_SECONDS_MAX = 5.0
RAMP_SECONDS = 0.2
ATTEMPTS = 1_000
BY = "holdfast"
CODE = "holdfast:plan"


@dataclass(frozen=True, slots=True)
class _Step:
    """How far a plan has come."""

    action: str
    state: str
    items: int
    canary: int
    rate: float | None
    stop_ratio: float
    next_place: int
    sent: int
    ended: int
    failed: int
    followed: bool
    # How many more the ramp has room for by now; None before it began.
    allowed: int | None
    canary_skipped: int
    canary_ended: int
    canary_failed: int

    @property
    def canary_sent(self) -> bool:
        return self.next_place > self.canary

    @property
    def canary_done(self) -> bool:
        return self.canary_sent and self.canary_ended + self.canary_skipped >= self.canary


class PlanDriver:
    """Brings plans forward, a step at a time."""

    def __init__(self, settings: Settings, handlers: Handlers, listen: Listener = silent) -> None:
        self._sql = load("ops/plans.sql", settings.schema_name)
        self._tasks = load_all(["store/line.sql", "store/plan_items.sql"], settings.schema_name)
        self._plans = Plans(settings, listen, by=BY)
        self._guards = PlanGuards(settings, handlers)

    async def drive(self, conn: Conn, plan_id: str, seconds: float = SLICE_SECONDS) -> float | None:
        """Go on for a while; answers when to look again, or nothing once there is no more to do."""
        until = time.monotonic() + seconds
        place, look_at = 0, 0.0
        while True:
            step = await self._step(conn, plan_id)
            if step is None or step.followed:
                return None
            sent = await self._send(conn, plan_id, step) if step.state == "running" else 0
            looked = ended = 0
            # While there is more to send, looks at what was sent come as often as when there is not.
            if step.action == "redrive" and (not sent or time.monotonic() >= look_at):
                looked, place, ended = await self._follow(conn, plan_id, place)
                look_at = time.monotonic() + LOOK_SECONDS
            if await self._followed(conn, plan_id):
                return None
            if time.monotonic() > until:
                return RAMP_SECONDS
            if not sent and not ended and looked < FOLLOW:
                return await self._pause(conn, plan_id)

    async def send_all(self, conn: Conn, plan_id: str) -> None:
        """Send what may go at once, in the caller's transaction; a worker follows what becomes of it."""
        while (step := await self._step(conn, plan_id)) is not None and step.state == "running":
            if not await self._send(conn, plan_id, step):
                return

    async def _pause(self, conn: Conn, plan_id: str) -> float | None:
        step = await self._step(conn, plan_id)
        if step is None or step.followed:
            return None
        if step.state == "running" and step.rate is not None and step.canary_done:
            return RAMP_SECONDS
        # A look at many costs more than one at few.
        return min(LOOK_SECONDS_MAX, LOOK_SECONDS + (step.sent - step.ended) / 100_000)

    async def _step(self, conn: Conn, plan_id: str) -> _Step | None:
        row = await (await conn.execute(self._sql["step"], {"plan": plan_id})).fetchone()
        return None if row is None else _Step(*row)

    async def _send(self, conn: Conn, plan_id: str, step: _Step) -> int:
        """Send as many as may go now; answers how many were dealt with."""
        stop = _stop(step)
        author = Author(BY, stop or "", CODE)
        if stop is not None:
            await self._plans.end(conn, plan_id, "stopped", stop, ["running"], author)
            return 1
        if step.next_place > step.items:
            await self._plans.end(conn, plan_id, "finished", "everything was sent", ["running"], author)
            return 1
        if step.canary_done and step.allowed is None:
            await conn.execute(self._sql["ramp"], {"plan": plan_id})
            return 1
        count = _allowed(step)
        if count == 0:
            return 0
        asked = await self._guards.ask_next(conn, plan_id, step.next_place, count)
        return await self.send(conn, plan_id, step.action, step.next_place, count, asked.vetoes)

    async def send(
        self, conn: Conn, plan_id: str, action: str, place: int, count: int, vetoes: dict[str, str]
    ) -> int:
        """The next items, in one transaction with their entries in the audit."""
        values = {"plan": plan_id, "place": place, "count": count, "vetoes": Jsonb(vetoes)}
        statement = self._tasks["redrive_items" if action == "redrive" else "forget_items"]
        try:
            async with conn.transaction():
                row = await (await conn.execute(statement, values)).fetchone()
                assert row is not None, "counts always answer"
                sent, skipped, lanes = row
                if lanes:
                    await conn.execute(self._tasks["enlist"], {"names": lanes})
        except psycopg.errors.SerializationFailure:
            # Somebody else wrote to one of these tasks at this moment: the next look tries again.
            return 0
        dealt_with: int = sent + skipped
        return dealt_with

    async def _follow(self, conn: Conn, plan_id: str, place: int) -> tuple[int, int, int]:
        """Look at a stretch of what was sent; answers how many, where to go on, and how many had ended."""
        values = {"plan": plan_id, "place": place, "count": FOLLOW}
        row = await (await conn.execute(self._sql["follow"], values)).fetchone()
        assert row is not None, "counts always answer"
        looked, up_to, ended = row
        # At the end it begins again with the first that is open.
        return looked, up_to if looked == FOLLOW else 0, ended

    async def _followed(self, conn: Conn, plan_id: str) -> bool:
        return await (await conn.execute(self._sql["followed"], {"plan": plan_id})).fetchone() is not None


def _stop(step: _Step) -> str | None:
    """Why nothing more is sent, if that is so."""
    if step.action != "redrive":
        return None
    if step.canary and step.canary_done and step.allowed is None and step.canary_ended:
        ratio = step.canary_failed / step.canary_ended
        if ratio > step.stop_ratio:
            return f"{step.canary_failed} of the {step.canary_ended} of the canary failed"
    if step.allowed is not None and (step.canary or step.rate) and step.ended >= JUDGED_MIN:
        ratio = step.failed / step.ended
        if ratio > step.stop_ratio:
            return f"{step.failed} of {step.ended} failed, more than {step.stop_ratio:.0%}"
    return None


def _allowed(step: _Step) -> int:
    """How many may be sent now."""
    left = step.items - step.next_place + 1
    if not step.canary_sent:
        return min(SEND, step.canary - step.next_place + 1)
    if not step.canary_done or step.allowed is None:
        return 0
    return min(SEND, left) if step.rate is None else max(0, min(SEND, left, step.allowed))


def plan_handler(settings: Settings, handlers: Callable[[], Handlers], listen: Listener) -> Handler:
    """The handler of the kind that drives plans, which every worker has."""

    async def drive(task: Task[dict[str, str]]) -> Snooze | None:
        driver = PlanDriver(settings, handlers(), listen)
        async with await connect(settings.database_url, application="holdfast plan", path=OWN_PATH) as conn:
            again = await driver.drive(conn, task.payload["plan"])
        return None if again is None else Snooze(again)

    return Handler(PLAN_KIND, drive, awaits=True, queue=RESERVED_QUEUE, max_attempts=ATTEMPTS)
