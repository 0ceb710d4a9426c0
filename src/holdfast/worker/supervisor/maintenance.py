"""Runs the installation's maintenance while this supervisor holds the maintenance lease.

It is a row with an end, like a worker's lease. A supervisor that did not get it knows when it ends
and asks again then, so that a dead holder is followed within moments.
"""

import asyncio
import math
import random
import time
from collections.abc import Callable, Mapping
from uuid import uuid4

import psycopg

from holdfast.core.decide import Policy
from holdfast.core.events import Listener, StatementFailed
from holdfast.db.connect import Conn
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.audit import AuditWriter
from holdfast.store.due import look
from holdfast.store.followups import Followups
from holdfast.store.operate import Operator
from holdfast.store.plan_tasks import PlanTasks
from holdfast.store.schedules import Schedules
from holdfast.store.store import Store
from holdfast.store.unserved_kinds import UnservedKinds
from holdfast.store.upkeep import Upkeep
from holdfast.store.workers import RECLAIM_LIMIT
from holdfast.worker.options import WorkerOptions
from holdfast.worker.supervisor.clock_watch import ClockWatch

# A holder that leaves tells nobody, so the others ask now and then.
ASK_SECONDS_MAX = 5.0
LOOK_SECONDS = 5.0
# A tick comes by itself; one that comes because the clock was put forward is noticed by then.
CLOCK_SECONDS = 1.0
# A next tick that is not the right one is corrected by then.
CORRECT_SECONDS = 60.0
UNSERVED_SECONDS = 2.0
UPKEEP_SECONDS = 60.0
# Days and retention are looked at in every so many rounds.
UPKEEP_WHOLE_EVERY = 10
UPKEEP_SECONDS_MAX = 3_600.0
TURN_SECONDS_MAX = 60.0
# A look that takes a second is taken every twenty: beside an old snapshot it may read millions of dead rows.
SHARE = 20.0
CUT_OFF_SECONDS = 0.2
FAILED_SECONDS = 5.0
EXPIRE_LIMIT = 1_000
RELIST_SECONDS = 5.0
# Where one go did not do it all.
AGAIN_SECONDS = 0.05
# What has become due, or has come for the first time for a while, is noticed by then.
WAKE_SECONDS = 5.0
RELEASE_SECONDS = 0.25
WHEN_ASKED = math.inf


class Maintenance:
    """Reclaim, unserved kinds, schedules, follow-ups, expiry, plans, the audit, counts, retention, days.

    One look tells which of these there is cause for; `clock` is monotonic seconds.
    """

    def __init__(
        self,
        options: WorkerOptions,
        store: Store,
        policies: Mapping[str, Policy],
        listen: Listener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._store = store
        self._policies = policies
        self._listen = listen
        self._clock = clock
        self._holder = str(uuid4())
        self._holding = False
        self._renew_at = 0.0
        self._link = Link(
            options.url,
            f"holdfast {options.name} maintenance",
            listen,
            deadline_seconds=options.statement_seconds,
        )
        self._unserved = UnservedKinds(store.settings, listen)
        self._operator = Operator(store.settings, listen, by="maintenance")
        self._upkeep = Upkeep(store.settings, listen)
        self._slow_link = Link(
            options.url, f"holdfast {options.name} upkeep", listen, deadline_seconds=UPKEEP_SECONDS_MAX
        )
        self._relisted = ""
        self._schedules = Schedules(store.settings, listen)
        self._followups = Followups(store.settings, listen)
        self._drivers = PlanTasks(store.settings, listen)
        self._audit = AuditWriter(store.settings, listen)
        # A little shorter than the workers' own: what a dead tree held is taken back as soon as it may be.
        self._lease = max(1.0, options.lease_seconds * 0.8)
        self._clock_watch = ClockWatch(
            store.settings, self._schedules, self._unserved, listen, options.lease_seconds
        )
        self._chores = (
            ("clock", self._tick),
            ("correct", self._correct),
            ("wake", self._wake),
            ("release", self._release),
            ("look", self._look),
            ("unserved", self._tend_unserved),
            ("relist", self._relist),
            ("expire", self._expire),
        )
        self._due = {chore: 0.0 for chore, _ in self._chores}
        # Whether anybody holds anything, as it was seen last, and when to see again.
        self._held = False
        self._ask_held_at = 0.0
        # Chores for which the last look saw a cause.
        self._called_for: frozenset[str] = frozenset()

    async def run(self) -> None:
        """For ever; an unreachable database is waited for."""
        delay = ReconnectDelay()
        while True:
            try:
                pause = await self._link.use(self.turn, deadline_seconds=TURN_SECONDS_MAX)
                delay.reset()
            except LinkLost:
                self._renew_at = 0.0
                pause = delay.next()
            except psycopg.Error as error:
                self._renew_at = 0.0
                self._listen(StatementFailed("maintenance", str(error).strip()))
                pause = delay.next() * 10
            if not self._holding:
                # A connection of its own is only worth it for the one who does the work.
                await self._link.close()
            await asyncio.sleep(pause)

    async def keep_up(self) -> None:
        """Days, retention and counts, beside the others: they may wait for somebody who reads for an hour."""
        rounds = 0
        while True:
            if not self._holding:
                await asyncio.sleep(1.0)
                continue
            work = self._upkeep.often if rounds % UPKEEP_WHOLE_EVERY else self._upkeep.run
            try:
                await self._slow_link.use(work)
                rounds += 1
            except LinkLost:
                pass
            except psycopg.Error as error:
                self._listen(StatementFailed("upkeep", str(error).strip()))
            await self._slow_link.close()
            await asyncio.sleep(UPKEEP_SECONDS)

    async def leave(self) -> None:
        """Let someone else do it from now on."""
        if self._holding:
            await self._link.use(lambda conn: self._store.workers.leave_maintenance(conn, self._holder))

    async def turn(self, conn: Conn) -> float:
        """Do what is due, if these chores are ours; answers in how many seconds to come again."""
        if self._clock() >= self._renew_at:
            held_before = self._holding
            # Before it is known that a lease has ended: perhaps the clock was put forward.
            await self._clock_watch.look(conn)
            self._holding, ends_in = await self._store.workers.take_maintenance(
                conn, self._holder, self._lease
            )
            if not self._holding:
                self._clock_watch.on_maintenance_lost()
                # What whoever does the chores could not fire.
                await self._schedules.fire(conn, failed=True)
                return min(ends_in, ASK_SECONDS_MAX) + random.uniform(0.05, 0.3)
            if not held_before:
                await self._clock_watch.on_maintenance_gained(conn)
                self._due["correct"] = 0.0
            self._renew_at = self._clock() + self._lease / 3
        next_look = self._renew_at
        blocked: psycopg.errors.LockNotAvailable | None = None
        for chore, work in self._chores:
            if self._due[chore] <= self._clock():
                # Set first: a chore that is cut off comes back soon.
                self._due[chore] = self._clock() + CUT_OFF_SECONDS
                try:
                    self._due[chore] = self._clock() + await work(conn)
                except psycopg.errors.LockNotAvailable as error:
                    # The other chores go on; what holds this one up is told by the link.
                    blocked = error
                except psycopg.Error as error:
                    if conn.closed:
                        raise
                    # The other chores go on; this one comes back a little later.
                    self._listen(StatementFailed(f"maintenance: {chore}", str(error).strip()))
                    self._due[chore] = self._clock() + FAILED_SECONDS
            next_look = min(next_look, self._due[chore])
        if blocked is not None:
            raise blocked
        return max(0.05, next_look - self._clock())

    async def _tick(self, conn: Conn) -> float:
        """Fire the ticks that have come, by the database's clock; answers when to read it again."""
        pulse = await self._clock_watch.pulse(conn)
        if await self._clock_watch.correct_after_step(conn):
            return AGAIN_SECONDS
        tick = pulse.next_tick_seconds
        if tick is not None and tick <= 0:
            await self._schedules.fire(conn)
        return CLOCK_SECONDS if tick is None else max(CUT_OFF_SECONDS, min(CLOCK_SECONDS, tick))

    async def _correct(self, conn: Conn) -> float:
        await self._schedules.correct(conn)
        return CORRECT_SECONDS

    async def _wake(self, conn: Conn) -> float:
        """Look what there is to do and do the least of it; answers when to look again."""
        began = self._clock()
        asked = began >= self._ask_held_at
        pending = await look(conn, self._store.settings, held=asked)
        if asked:
            self._held = bool(pending.held)
            self._ask_held_at = self._clock() + SHARE * (self._clock() - began)
        lease_ends = pending.lease_ends_seconds
        lost = lease_ends is not None and lease_ends <= 0
        causes = {
            "release": pending.followups,
            "look": self._held or lost,
            "unserved": pending.blocked,
            "relist": pending.blocked,
            "expire": pending.over,
        }
        self._called_for = frozenset(chore for chore, cause in causes.items() if cause)
        for chore in self._called_for:
            # Those that are at it already keep their pace; a lost worker is not waited for.
            if self._due[chore] == WHEN_ASKED or (lost and chore == "look"):
                self._due[chore] = 0.0
        if pending.unsealed:
            await self._audit.seal(conn)
        for plan_id in pending.undriven:
            await self._drivers.begin(conn, plan_id)
        # A lease is over a moment after its end.
        lost_in = WAKE_SECONDS if lease_ends is None else lease_ends + 0.05
        return max(CUT_OFF_SECONDS, min(WAKE_SECONDS, lost_in))

    def _again(self, chore: str, seconds: float) -> float:
        """Come back at this pace as long as there is a cause, and then when asked."""
        return seconds if chore in self._called_for else WHEN_ASKED

    async def _release(self, conn: Conn) -> float:
        return RELEASE_SECONDS if await self._followups.release(conn) else WHEN_ASKED

    async def _look(self, conn: Conn) -> float:
        """Take back what lost workers hold, and what is long past its deadline."""
        # Whoever seems to be silent may only have been left behind by the clock.
        await self._clock_watch.look(conn)
        await self._clock_watch.correct_after_step(conn)
        began = self._clock()
        while True:
            forward = self._clock_watch.forward
            taken = await self._store.workers.reclaim(
                conn, self._policy, limit=RECLAIM_LIMIT, forward=forward
            )
            if len(taken.accepted) < RECLAIM_LIMIT:
                # It reads whatever was held since the oldest snapshot; a lost worker is not waited for.
                return self._again("look", max(LOOK_SECONDS, SHARE * (self._clock() - began)))

    def _policy(self, kind: str) -> Policy:
        return self._policies.get(kind) or Policy(self._options.max_attempts)

    async def _tend_unserved(self, conn: Conn) -> float:
        await self._unserved.tend(conn, self._options.unroutable_seconds)
        return self._again("unserved", UNSERVED_SECONDS)

    async def _relist(self, conn: Conn) -> float:
        _, after = await self._store.permits.relist(conn, self._relisted)
        self._relisted = after or ""
        return AGAIN_SECONDS if after else self._again("relist", RELIST_SECONDS)

    async def _expire(self, conn: Conn) -> float:
        expired = await self._operator.expire(conn, EXPIRE_LIMIT)
        await self._operator.end_due_pauses(conn)
        return AGAIN_SECONDS if len(expired) >= EXPIRE_LIMIT else WHEN_ASKED
