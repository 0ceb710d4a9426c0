"""Decides the order of claims on one connection: overlooked rows, blocked tasks, ready tasks."""

import time
from collections.abc import Callable, Sequence

from holdfast.core.events import KindsUnknown
from holdfast.core.task import TIMEOUT_SECONDS, Claim
from holdfast.db.connect import Conn
from holdfast.store.claim import Claimed, ClaimRequest, Range, all_ranges
from holdfast.store.permits import BlockedRequest
from holdfast.store.store import Store
from holdfast.worker.executor.floor import Floor, Sweep
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.executor.turns import Turns

# How often to claim blocked tasks, unless a claim has just moved some there.
WAITING_SECONDS = 0.1
READY_SECONDS = 0.02
# What stepped aside while others started at once can wait so long.
ASIDE_SECONDS = 0.05
# An idle claimer looks from the beginning as long as that costs next to nothing.
WHOLE_SECONDS_MAX = 0.005
WHOLE_AGAIN_SECONDS = 30.0
PLANNED_LOOKS = 10
# One slow look may be the machine's doing; it is the table's when they all are.
SLOW_LOOKS = 3
# A kind that is not known here is reported so often at most.
UNKNOWN_SECONDS = 5.0


class Claimer:
    """Claims for one worker; `clock` is monotonic seconds. A new connection wants a new claimer."""

    def __init__(  # noqa: PLR0913 (what a claim depends on)
        self,
        store: Store,
        queues: Sequence[str],
        worker: str,
        *,
        kinds: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
        timeout: float = TIMEOUT_SECONDS,
        permits: HeldPermits | None = None,
        generation: int = 0,
    ) -> None:
        self.floor = Floor(queues)
        self.permits = HeldPermits() if permits is None else permits
        self._generation = generation
        self._turns = Turns(queues, kinds, clock)
        self._store = store
        self._queues = list(queues)
        self._worker = worker
        self._kinds = kinds
        self._clock = clock
        self._timeout = timeout
        self._sweep = Sweep(self.floor)
        self._waiting_due_at = 0.0
        self._ready_due_at = 0.0
        self._ready_gave = False
        # Whether the last look moved tasks aside: then there may be more of them, and others behind.
        self.moving = False
        self._idle = False
        self._whole_from = 0.0
        self._looks = 0
        self._slow_looks = 0
        self._reported_at: dict[str, float] = {}

    async def claim(self, conn: Conn, limit: int, free: int | None = None) -> list[Claim]:
        """Up to so many tasks, the oldest overlooked ones first.

        At most `free` blocked tasks are claimed, because each starts at once. Ready tasks may be claimed
        ahead of their start, with their permits: a few hundredths of a second of work.
        """
        claims = await self._look(conn, limit, free)
        self._idle = not claims
        return claims

    async def _look(self, conn: Conn, limit: int, free: int | None) -> list[Claim]:
        claims: list[Claim] = []
        hungry = self.permits.hungry()
        whole = self._idle and self._clock() >= self._whole_from
        # The overlooked and those behind buckets come first, but never take all: whatever is urgent in
        # ready must not wait until a backlog elsewhere is empty.
        if not whole and self._sweep.due(self._clock()):
            claims += await self._swept(conn, max(1, limit // 2))
        room = (limit if free is None else min(free, limit)) - len(claims)
        freed: dict[str, int] = {}
        if room > 0 and (hungry or (not whole and self._clock() >= self._waiting_due_at)):
            half = max(1, (limit - len(claims)) // 2)
            claims += await self._waiting(conn, min(room, half) if self._ready_gave else room)
            # Where it took all, ready was not looked at: next time it is.
            self._ready_gave |= len(claims) >= limit
        elif freed := self.permits.take_surplus():
            await self._store.permits.free_permits(conn, self._worker, self._generation, freed)
        # Where only permits want something, ready need not be asked again and again.
        if len(claims) < limit and not ((hungry or freed) and self._clock() < self._ready_due_at):
            rest = self._everything if whole else self._ready
            claimed = await rest(conn, limit - len(claims))
            claims += claimed.claims
            room -= len(claimed.claims)
            if claimed.due and not hungry and room > 0:
                claims += await self._waiting(conn, room)
        return claims

    async def _claimed(
        self, conn: Conn, ranges: Sequence[Range], limit: int, *, at_once: int, line: bool = False
    ) -> Claimed:
        request = ClaimRequest(ranges, self._kinds, at_once, self._generation, line)
        claimed = await self._store.claims.claim(conn, self._worker, limit, request, self._timeout)
        if claimed.unknown:
            self._report_unknown(claimed.unknown)
        return claimed

    def _report_unknown(self, kinds: Sequence[str]) -> None:
        """Tasks of these kinds are left to workers that know them."""
        now = self._clock()
        due = [
            kind for kind in kinds if now >= self._reported_at.get(kind, -UNKNOWN_SECONDS) + UNKNOWN_SECONDS
        ]
        if due:
            self._reported_at |= dict.fromkeys(due, now)
            self._store.listen(KindsUnknown(self._worker, due))

    async def _ready(self, conn: Conn, limit: int) -> Claimed:
        ranges = self.floor.ranges()
        claimed = await self._claimed(conn, ranges, limit, at_once=limit)
        self.floor.learn(
            claimed.seen,
            [(claim.queue, claim.priority, claim.run_at) for claim in claimed.claims],
            full=len(claimed.claims) + claimed.blocked >= limit,
            unread=claimed.paused,
        )
        await self._step_over(conn, claimed, self.floor.ranges(), limit)
        return claimed

    async def _step_over(self, conn: Conn, claimed: Claimed, ranges: Sequence[Range], limit: int) -> None:
        """Where a claim met nothing but tasks behind buckets, move many more of them aside at once."""
        if limited := [claim for claim in claimed.claims if claim.limits]:
            self.permits.leased_at_once(limited)
        self._ready_gave = bool(claimed.claims)
        self.moving = claimed.blocked > 0
        if claimed.blocked:
            aside = ASIDE_SECONDS if claimed.claims else 0.0
            self._waiting_due_at = min(self._waiting_due_at, self._clock() + aside)
        if not claimed.blocked and not claimed.claims:
            self._ready_due_at = self._clock() + READY_SECONDS
        if claimed.blocked >= limit:
            await self._store.claims.block_heads(conn, ranges, self._kinds)

    async def _everything(self, conn: Conn, limit: int) -> Claimed:
        """Claim from the beginning and check the line: when idle, one statement replaces three."""
        began = self._clock()
        ranges = all_ranges(self._queues)
        claimed = await self._claimed(conn, ranges, limit, at_once=limit, line=True)
        await self._step_over(conn, claimed, ranges, limit)
        self._looks += 1
        took = self._clock() - began
        # The first looks of a connection are planned anew each time, which says nothing about the table.
        slow = took > WHOLE_SECONDS_MAX * (1 if self._looks > PLANNED_LOOKS else 10)
        self._slow_looks = self._slow_looks + 1 if slow else 0
        if self._slow_looks >= SLOW_LOOKS:
            # Too many dead entries at the head: the floor and the sweep do better for a while.
            self._whole_from = self._clock() + WHOLE_AGAIN_SECONDS
        return claimed

    async def _waiting(self, conn: Conn, limit: int) -> Sequence[Claim]:
        permits = self.permits
        freed, ahead, floors = permits.take_surplus(), permits.wanted(), permits.floors()
        line = self._turns.ranges(permits.sated())
        request = BlockedRequest(line, self._queues, self._kinds, ahead, floors, freed, self._generation)
        found = await self._store.permits.claim_blocked(conn, self._worker, limit, request, self._timeout)
        self._turns.learn(found.met)
        permits.leased(found.held, found.workers, found.more, list(floors), found.claims)
        claims = found.claims
        if not claims:
            self._waiting_due_at = self._clock() + WAITING_SECONDS
        return claims

    async def _swept(self, conn: Conn, limit: int) -> Sequence[Claim]:
        """One slice of the walk below the floors, where late commits and rolled-back claims lie."""
        began = self._clock()
        if not self._sweep.walking:
            won = await self._store.claims.take_sweep(conn, self._queues, self._sweep.walk_seconds)
            self._sweep.begin(won, began)
            if not won:
                return []
        ranges = self._sweep.slice()
        claims: Sequence[Claim] = []
        if ranges:
            claimed = await self._claimed(conn, ranges, limit, at_once=0)
            claims = claimed.claims
            if len(claims) + claimed.blocked >= limit:
                # There may be more in this slice: it is looked at again.
                return claims
        self._sweep.learn(self._clock() - began, self._clock())
        return claims
