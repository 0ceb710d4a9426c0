"""Workers in other languages: they enter, claim, beat and report in calls of one transaction each.

They have what a worker of ours has: a lease, fences, limits, the same rules for every outcome. Nothing of it
is in memory here, so that any process may take the next call, and one that dies takes nothing along.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.core.decide import Policy, expire
from holdfast.core.errors import Misused
from holdfast.core.events import KindsUnknown
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Outcome, Release, Released
from holdfast.core.state import Move
from holdfast.core.task import RESERVED_QUEUE, TIMEOUT_SECONDS, Claim
from holdfast.runtime.verdicts import Verdicts
from holdfast.store.floor import BEGINNING, END, Floor, Range
from holdfast.store.gates import Gates
from holdfast.store.leasing import AtOnce
from holdfast.store.outside import EPOCH, Lease, OutsideStore
from holdfast.store.pool import Conn
from holdfast.store.settle import Settlement
from holdfast.store.tasks import TaskStore
from holdfast.store.turns import Turns

# A claim as a worker knows it: the task and the fence.
Held: TypeAlias = tuple[str, int]
_TRIED = (Move.RETRY, Move.FAIL, Move.SNOOZE)


@dataclass(frozen=True, slots=True)
class Beat:
    """An answer to a heartbeat: until when the lease holds, and what is to stop."""

    lease: Lease
    cancels: Sequence[tuple[str, int, str]]


class OutsideWorkers:
    """What can be done in the name of a token's workers."""

    def __init__(self, store: TaskStore, handlers: Handlers, token: str) -> None:
        self._store = store
        self._rows = OutsideStore(store)
        self._verdicts = Verdicts(handlers)
        self._token = token

    async def enter(
        self, conn: Conn, name: str, queues: Sequence[str], kinds: Sequence[str], lease_seconds: float
    ) -> Lease:
        """A new worker, which serves these queues and knows these kinds."""
        if RESERVED_QUEUE in queues:
            raise Misused(f"the queue {RESERVED_QUEUE} is for Holdfast's own tasks")
        return await self._rows.enter(conn, self._token, name, queues, kinds, lease_seconds)

    async def beat(self, conn: Conn, worker: str) -> Beat:
        """Prolong its lease, and say what it was asked to stop."""
        lease = await self._rows.renew(conn, self._token, worker)
        return Beat(lease, await self._store.cancel_requests(conn, worker))

    async def claim(
        self, conn: Conn, worker: str, limit: int, holding: Collection[Held]
    ) -> tuple[Lease, list[Claim]]:
        """Up to so many tasks, which start now; what it holds and did not name goes back unspent."""
        lease = await self._rows.renew(conn, self._token, worker)
        await self._release_but(conn, worker, holding)
        claims = await self._look(conn, lease, limit)
        able = [claim for claim in claims if not claim.expired and claim.kind in lease.kinds]
        if len(able) < len(claims):
            await self._put_back(conn, lease, [claim for claim in claims if claim not in able])
        await self._rows.keep_slots(conn, worker)
        return lease, able

    async def report(self, conn: Conn, worker: str, held: Held, outcome: Outcome) -> Move | None:
        """End a claim under its fence; answers how it ended, now or before, or nothing if it is late."""
        await self._rows.lock(conn, self._token, worker)
        claim = await self._rows.holds(conn, worker, *held)
        if claim is None:
            return await self._ended_before(conn, worker, held, outcome)
        settled = await self._store.settle(conn, [(claim, self._verdicts.of(claim, outcome))])
        await self._rows.keep_slots(conn, worker, [claim])
        # A result that cannot be kept ends otherwise than was asked for.
        ((_, verdict),) = settled.accepted
        return verdict.move

    async def _ended_before(self, conn: Conn, worker: str, held: Held, outcome: Outcome) -> Move | None:
        """The answer to a report may have been lost, and not the report."""
        told = await self._rows.told(conn, worker, *held)
        verdict = self._verdicts.of(told, outcome)
        # Whether attempts were left then is not known now.
        moves = _TRIED if verdict.move in _TRIED else (verdict.move,)
        ended_as = await self._rows.ended_as(conn, worker, *held, moves)
        if ended_as is None:
            await self._store.refuse(conn, [(told, verdict)])
        return ended_as

    async def leave(self, conn: Conn, worker: str) -> int:
        """Gone on purpose: what it held goes back unspent; how many that were."""
        await self._rows.lock(conn, self._token, worker)
        released = await self._release_but(conn, worker, (), Release.DRAINED)
        await self._store.retire(conn, worker)
        return released

    async def _look(self, conn: Conn, lease: Lease, limit: int) -> list[Claim]:
        """From behind buckets and from ready, neither before the other."""
        turns, worker = Turns(lease.queues, lease.kinds), lease.worker

        async def waiting(room: int) -> list[Claim]:
            return await self._store.leasing.claim_waiting(
                conn, turns, worker, room, kinds=lease.kinds, epoch=EPOCH
            )

        claims = await waiting((limit + 1) // 2)
        ranges = [Range(r.queue, r.priority, BEGINNING, END) for r in Floor(lease.queues).ranges()]
        if (room := limit - len(claims)) > 0:
            at_once = AtOnce(room, lease.kinds, EPOCH)
            found = await self._store.claim_ranges(conn, ranges, worker, room, TIMEOUT_SECONDS, at_once)
            claims += found.claims
            if found.parked >= room:
                await self._store.shunt(conn, ranges)
        if (room := limit - len(claims)) > 0:
            claims += await waiting(room)
        return claims

    async def _put_back(self, conn: Conn, lease: Lease, claims: Sequence[Claim]) -> None:
        """Expired ones end; those of kinds that it does not know step aside for whoever does."""
        strange = sorted({claim.kind for claim in claims} - set(lease.kinds))
        gates = Gates(self._store.settings, self._store.listen, by=lease.worker)
        for kind in strange:
            await gates.gate(conn, kind)
        if strange:
            self._store.listen(KindsUnknown(lease.worker, strange))
        await self._store.settle(conn, [self._back(claim, strange) for claim in claims])

    def _back(self, claim: Claim, strange: Collection[str]) -> Settlement:
        if claim.kind in strange:
            return claim, self._verdicts.of(claim, Released(Release.NO_HANDLER))
        return claim, expire(claim)

    async def _release_but(
        self,
        conn: Conn,
        worker: str,
        holding: Collection[Held],
        why: Release = Release.UNKNOWN_CLAIM,
    ) -> int:
        known = set(holding)

        def fate(claim: Claim) -> Outcome | None:
            return None if (claim.id, claim.fence) in known else Released(why)

        return len((await self._store.take_back(conn, worker, fate, lambda _: Policy())).accepted)
