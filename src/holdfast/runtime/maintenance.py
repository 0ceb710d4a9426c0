"""The chores of the whole installation, done by whichever supervisor holds the maintenance lease.

It is a row with an end, like a worker's lease. A supervisor that did not get it knows when it ends
and asks again then, so that a dead holder is followed within moments.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from uuid import uuid4

import psycopg

from holdfast.core.decide import Policy
from holdfast.core.events import Listener, StatementFailed
from holdfast.runtime.link import Backoff, Link, LinkLost
from holdfast.runtime.options import WorkerOptions
from holdfast.store.audit import AuditWriter
from holdfast.store.drivers import Drivers
from holdfast.store.followups import Followups
from holdfast.store.gates import Gates
from holdfast.store.operate import Operator
from holdfast.store.pending import look
from holdfast.store.pool import Conn
from holdfast.store.schedules import Schedules
from holdfast.store.tasks import RECLAIM_LIMIT, TaskStore
from holdfast.store.upkeep import Upkeep

# A holder that leaves tells nobody, so the others ask now and then.
ASK_SECONDS_MAX = 5.0
LOOK_SECONDS = 5.0
GATES_SECONDS = 2.0
UPKEEP_SECONDS = 60.0
UPKEEP_SECONDS_MAX = 3_600.0
CUT_OFF_SECONDS = 0.2
FAILED_SECONDS = 5.0
EXPIRE_SECONDS = 5.0
STIR_SECONDS = 5.0
STIR_AGAIN_SECONDS = 0.05
# The first schedule, follow-up or act of an operator for a while is noticed by then.
WAKE_SECONDS = 5.0
RELEASE_SECONDS = 0.25


class Maintenance:
    """Reclaim, gates, schedules, follow-ups, expiry, plans, the audit, counts, retention, days."""

    def __init__(
        self, options: WorkerOptions, store: TaskStore, policies: Mapping[str, Policy], listen: Listener
    ) -> None:
        self._options = options
        self._store = store
        self._policies = policies
        self._listen = listen
        self._holder = str(uuid4())
        self._holding = False
        self._renew_at = 0.0
        self._link = Link(options.url, f"holdfast {options.name} maintenance", listen)
        self._gates = Gates(store.settings, listen)
        self._operator = Operator(store.settings, listen, by="maintenance")
        self._upkeep = Upkeep(store.settings, listen)
        self._slow_link = Link(options.url, f"holdfast {options.name} upkeep", listen)
        self._stirred = ""
        self._schedules = Schedules(store.settings, listen)
        self._followups = Followups(store.settings, listen)
        self._drivers = Drivers(store.settings, listen)
        self._audit = AuditWriter(store.settings, listen)
        self._due = dict.fromkeys(("look", "gates", "wake", "stir", "expire"), 0.0)
        # A little shorter than the workers' own: what a dead tree held is taken back as soon as it may be.
        self._lease = max(1.0, options.lease_seconds * 0.8)

    async def run(self) -> None:
        """For ever; an unreachable database is waited for."""
        backoff = Backoff()
        while True:
            try:
                pause = await self._link.use(self._turn, deadline_seconds=60.0)
                backoff.reset()
            except LinkLost:
                self._renew_at = 0.0
                pause = backoff.next()
            except psycopg.Error as error:
                self._renew_at = 0.0
                self._listen(StatementFailed("maintenance", str(error).strip()))
                pause = backoff.next() * 10
            if not self._holding:
                # A connection of its own is only worth it for the one who does the work.
                await self._link.close()
            await asyncio.sleep(pause)

    async def keep_up(self) -> None:
        """Days, retention and counts, beside the others: they may wait for somebody who reads for an hour."""
        while True:
            if not self._holding:
                await asyncio.sleep(1.0)
                continue
            try:
                await self._slow_link.use(self._upkeep.run, deadline_seconds=UPKEEP_SECONDS_MAX)
            except LinkLost:
                pass
            except psycopg.Error as error:
                self._listen(StatementFailed("upkeep", str(error).strip()))
            await self._slow_link.close()
            await asyncio.sleep(UPKEEP_SECONDS)

    async def leave(self) -> None:
        """Let someone else do it from now on."""
        if self._holding:
            await self._link.use(lambda conn: self._store.leave_maintenance(conn, self._holder))

    async def _turn(self, conn: Conn) -> float:
        if time.monotonic() >= self._renew_at:
            held_before = self._holding
            self._holding, ends_in = await self._store.take_maintenance(conn, self._holder, self._lease)
            if not self._holding:
                return min(ends_in, ASK_SECONDS_MAX) + random.uniform(0.05, 0.3)
            if not held_before:
                await self._gates.restart(conn)
            self._renew_at = time.monotonic() + self._lease / 3
        next_look = self._renew_at
        for chore, work in (
            ("look", self._look),
            ("gates", self._tend_gates),
            ("wake", self._wake),
            ("stir", self._stir),
            ("expire", self._expire),
        ):
            if self._due[chore] <= time.monotonic():
                # Set first: a chore that is cut off comes back soon.
                self._due[chore] = time.monotonic() + CUT_OFF_SECONDS
                try:
                    self._due[chore] = time.monotonic() + await work(conn)
                except psycopg.Error as error:
                    if conn.closed:
                        raise
                    # The other chores go on; this one comes back a little later.
                    self._listen(StatementFailed(f"maintenance: {chore}", str(error).strip()))
                    self._due[chore] = time.monotonic() + FAILED_SECONDS
            next_look = min(next_look, self._due[chore])
        return max(0.05, next_look - time.monotonic())

    async def _look(self, conn: Conn) -> float:
        """Take back what lost workers hold; answers when the next lease may end."""
        while True:
            taken = await self._store.reclaim(conn, self._policy, limit=RECLAIM_LIMIT)
            if len(taken.settled.accepted) < RECLAIM_LIMIT:
                return min((taken.ends_in_seconds or LOOK_SECONDS) + 0.05, LOOK_SECONDS)

    def _policy(self, kind: str) -> Policy:
        return self._policies.get(kind) or Policy(self._options.max_attempts)

    async def _tend_gates(self, conn: Conn) -> float:
        await self._gates.tend(conn, self._options.unroutable_seconds)
        return GATES_SECONDS

    async def _wake(self, conn: Conn) -> float:
        """Do what one look shows to be due: ticks, follow-ups, seals, plans; answers when to look again."""
        soonest, waiting, unsealed, undriven = await look(conn, self._store.settings)
        if soonest is not None and soonest <= 0:
            await self._schedules.fire(conn)
        if waiting:
            await self._followups.release(conn)
        if unsealed:
            await self._audit.seal(conn)
        for plan_id in undriven:
            await self._drivers.begin(conn, plan_id)
        often = RELEASE_SECONDS if waiting else WAKE_SECONDS
        return often if soonest is None else min(max(soonest, CUT_OFF_SECONDS), often)

    async def _stir(self, conn: Conn) -> float:
        _, after = await self._store.leasing.stir(conn, self._stirred)
        self._stirred = after or ""
        return STIR_AGAIN_SECONDS if after else STIR_SECONDS

    async def _expire(self, conn: Conn) -> float:
        await self._operator.expire(conn)
        await self._operator.reopen(conn)
        return EXPIRE_SECONDS
