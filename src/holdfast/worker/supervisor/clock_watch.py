"""Detects that the database's clock was set, and applies the corrections of store/clock_steps."""

import time
from dataclasses import replace
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.events import ClockStepped, Listener
from holdfast.core.step import Step, StepWatch
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn
from holdfast.store.clock_steps import STILL_DUE_LIMIT, ClockSteps
from holdfast.store.schedules import Pulse, Schedules
from holdfast.store.unserved_kinds import UnservedKinds

# A transaction that was open during a step back keeps writing times from before the step until it ends.
FOLLOW_SECONDS = 30.0
# With millions of scheduled tasks a correction takes seconds, so it may use 1/20 of the time.
SHARE = 20.0


class ClockWatch:
    """One for each supervisor. All watch the clock; the one that performs maintenance corrects."""

    def __init__(
        self,
        settings: Settings,
        schedules: Schedules,
        unserved: UnservedKinds,
        listen: Listener,
        lease_seconds: float,
    ) -> None:
        self._steps = ClockSteps(settings)
        self._schedules = schedules
        self._unserved = unserved
        self._listen = listen
        self._lease = lease_seconds
        self._watch = StepWatch()
        # The last step forward: tasks that started before it have not run for as long as it seems.
        self.forward: Step | None = None
        self._step: Step | None = None
        self._new = False
        self._follow_until = 0.0
        self._rest_until = 0.0

    async def look(self, conn: Conn) -> None:
        """Read the clock and detect a step. No table is read, because it may be locked."""
        asked_at = time.monotonic()
        self._learn(await read_clock(conn), asked_at)

    async def pulse(self, conn: Conn) -> Pulse:
        """Read the clock and the time of the next tick of a schedule, in one statement."""
        asked_at = time.monotonic()
        pulse = await self._schedules.pulse(conn)
        self._learn(pulse.now, asked_at)
        return pulse

    def _learn(self, now: datetime, asked_at: float) -> None:
        step = self._watch.learn(now, asked_at, time.monotonic())
        if step is not None:
            if self._step is not None:
                # The corrections of the step before may not be complete.
                step = replace(step, before=max(step.before, self._step.before))
            self._step = step
            self._new = True
            self.forward = step if step.seconds > 0 else None
            self._follow_until = time.monotonic() + FOLLOW_SECONDS

    def on_maintenance_lost(self) -> None:
        """Another supervisor performs maintenance now."""
        self._step = None
        self._new = False

    async def on_maintenance_gained(self, conn: Conn) -> None:
        """Apply the corrections once: steps before this moment were not seen here."""
        await self._steps.adjust_leases(conn, self._lease)
        await self._steps.bring_back(conn)
        await self._unserved.restart(conn)

    async def correct_after_step(self, conn: Conn) -> bool:
        """Apply the corrections; return whether there is more to do at once."""
        step, began = self._step, time.monotonic()
        if step is None or (not self._new and began < self._rest_until):
            return False
        moved = 0
        if self._new:
            await self._steps.adjust_leases(conn, self._lease, max(0.0, step.seconds))
        if step.seconds < 0:
            await self._steps.bring_back(conn)
            moved = await self._steps.keep_due(conn, step)
        elif self._new:
            await self._steps.begin_ramps(conn)
        if self._new:
            await self._unserved.restart(conn)
            await self._schedules.correct(conn)
            self._listen(ClockStepped(round(step.seconds, 1)))
            self._new = False
        if moved >= STILL_DUE_LIMIT:
            return True
        now = time.monotonic()
        self._rest_until = now + SHARE * (now - began)
        if step.seconds > 0 or now >= self._follow_until:
            self._step = None
        return False
