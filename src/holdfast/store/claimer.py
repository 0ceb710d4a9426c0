"""One claimer: its floors, its sweep, and the order in which it looks for work."""

import time
from collections.abc import Callable, Sequence

from holdfast.core.task import Claim
from holdfast.store.floor import Floor, Sweep
from holdfast.store.pool import Conn
from holdfast.store.tasks import TIMEOUT_SECONDS, TaskStore

# Behind buckets is looked at when something was moved there, and otherwise at this pace.
WAITING_SECONDS = 0.1


class Claimer:
    """Claims for one worker; `clock` is monotonic seconds. A new connection wants a new claimer."""

    def __init__(
        self,
        store: TaskStore,
        queues: Sequence[str],
        worker: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self.floor = Floor(queues)
        self._store = store
        self._queues = list(queues)
        self._worker = worker
        self._clock = clock
        self._timeout = timeout
        self._sweep = Sweep(self.floor)
        self._waiting_due_at = 0.0

    async def claim(self, conn: Conn, limit: int) -> list[Claim]:
        """Up to so many tasks, the oldest overlooked ones first."""
        claims: list[Claim] = []
        # The overlooked and those behind buckets come first, but never take all: whatever is urgent in
        # ready must not wait until a backlog elsewhere is empty.
        if self._sweep.due(self._clock()):
            claims += await self._swept(conn, max(1, limit // 2))
        if len(claims) < limit and self._clock() >= self._waiting_due_at:
            claims += await self._waiting(conn, max(1, (limit - len(claims)) // 2))
        if len(claims) < limit:
            claims += await self._ready(conn, limit - len(claims))
        return claims

    async def _ready(self, conn: Conn, limit: int) -> Sequence[Claim]:
        claimed = await self._store.claim(conn, self.floor, self._worker, limit, self._timeout)
        if claimed.parked:
            self._waiting_due_at = 0.0
            if claimed.parked >= limit:
                await self._store.shunt(conn, self.floor)
        return claimed.claims

    async def _waiting(self, conn: Conn, limit: int) -> Sequence[Claim]:
        claims = await self._store.claim_waiting(conn, self._queues, self._worker, limit, self._timeout)
        if not claims:
            self._waiting_due_at = self._clock() + WAITING_SECONDS
        return claims

    async def _swept(self, conn: Conn, limit: int) -> Sequence[Claim]:
        """One slice of the walk below the floors, where late commits and rolled-back claims lie."""
        began = self._clock()
        if not self._sweep.walking:
            won = await self._store.take_sweep(conn, self._queues, self._sweep.walk_seconds)
            self._sweep.begin(won, began)
            if not won:
                return []
        ranges = self._sweep.slice()
        claims: Sequence[Claim] = []
        if ranges:
            claimed = await self._store.claim_ranges(conn, ranges, self._worker, limit, self._timeout)
            claims = claimed.claims
            if len(claims) + claimed.parked >= limit:
                # There may be more in this slice: it is looked at again.
                return claims
        self._sweep.learn(self._clock() - began, self._clock())
        return claims
