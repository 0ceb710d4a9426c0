"""Decides how many tasks to claim, claims them on a connection of its own, and reconciles after lost answers.

A claim whose answer was lost may have committed, before or after anyone looks. So after every lost
connection the executor asks several times for what the database thinks it holds, and gives back the
rest.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg

from holdfast.core.events import Listener, StatementFailed
from holdfast.core.handler import Handlers
from holdfast.core.task import Claim
from holdfast.db.connect import Conn
from holdfast.db.link import Link, LinkLost, ReconnectDelay
from holdfast.store.store import Store
from holdfast.worker.executor.claimer import Claimer
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.options import WorkerOptions

# A lost claim may commit after the first look: so there is a second and a third.
RECONCILE_AFTER_SECONDS = (0.0, 1.0, 5.0)
# With an old snapshot open, reconciling also reads dead rows: at most this share of the time is spent on it.
RECONCILE_SHARE = 0.02
# Of tasks in one claim: more than anybody asks for.
UNBOUNDED = 1 << 30
AHEAD_SECONDS = 0.05
# At most so many are claimed ahead: if the machine dies, they wait until the lease expires.
AHEAD_MAX = 500
# A claim waits for its commit: smaller groups leave handlers without work meanwhile (measured, 200 at a
# time drained three quarters of what 500 do), larger ones gain little.
GROUP = 500
IDLE_SECONDS_MIN = 0.02
_WEIGHT = 0.05


class Pace:
    """How many tasks one executor claims, and how long it rests after an empty claim.

    At most 50 ms of work is claimed ahead of the slots, by the recent mean. So short tasks come in large
    groups, and a long one never waits behind another.
    """

    def __init__(self, slots: int, sleep_seconds: float) -> None:
        self._slots = slots
        self._sleep = sleep_seconds
        self._mean: float | None = None
        self._idle = IDLE_SECONDS_MIN
        self._woken = asyncio.Event()

    def ended(self, seconds: float) -> None:
        """A handler took so long."""
        self._mean = seconds if self._mean is None else self._mean + (seconds - self._mean) * _WEIGHT

    def forget(self) -> None:
        """The mean was a wrong guess: claim no more than fits until it is known again."""
        self._mean = None

    def want(self, free: int, buffered: int) -> int:
        """How many tasks to claim now."""
        if self._mean is None:
            return free - buffered
        ahead = int(min(AHEAD_MAX, self._slots * AHEAD_SECONDS / max(self._mean, 1e-6)))
        short = free + ahead - buffered
        if buffered and short < min(GROUP, ahead // 2):
            return 0
        return min(short, GROUP)

    def found(self) -> None:
        """There was work."""
        self._idle = IDLE_SECONDS_MIN

    def wake(self) -> None:
        """Look again now."""
        self._idle = IDLE_SECONDS_MIN
        self._woken.set()

    async def idle(self) -> None:
        """Wait before the next look: twice as long each time, up to the worker's sleep."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), min(self._idle, self._sleep))
        self._woken.clear()
        self._idle = min(self._idle * 2, self._sleep)


class Claiming:
    """The claims of one executor."""

    def __init__(  # noqa: PLR0913 (what claims depend on)
        self,
        worker: str,
        options: WorkerOptions,
        handlers: Handlers,
        store: Store,
        link: Link,
        permits: HeldPermits,
        held: Callable[[], Sequence[Claim]],
    ) -> None:
        """`held` tells all that this executor has claimed and not settled."""
        self._held = held
        self._worker = worker
        self._options = options
        self._handlers = handlers
        self._store = store
        self._listen: Listener = store.listen
        self._link = link
        self._delay = ReconnectDelay()
        self.permits = permits
        self.pace = Pace(options.concurrency, options.sleep_seconds)
        self._generation = link.generation
        self._claimer = self._new_claimer()
        self._reconcile_at: list[float] = []
        # How many tasks the next claim may take at most, after claims that failed.
        self._claim_max = UNBOUNDED
        self._looked_enough_until = 0.0

    @property
    def busy(self) -> bool:
        """Whether a claim is on its way."""
        return self._link.busy

    @property
    def moving(self) -> bool:
        """Whether the last claim met tasks that had to step aside first."""
        return self._claimer.moving

    @property
    def due(self) -> bool:
        """Whether it is time to ask what the database thinks is held here."""
        return bool(self._reconcile_at) and self._reconcile_at[0] <= time.monotonic()

    def reconcile_soon(self) -> None:
        """Ask with the next claim what the database thinks is held here."""
        self._reconcile_at.insert(0, time.monotonic())

    def reconcile_now_and_then(self) -> None:
        """The same without a cause, and so no more often than it costs little."""
        if time.monotonic() >= self._looked_enough_until:
            self.reconcile_soon()

    async def claim(self, want: int, free: Callable[[], int]) -> Sequence[Claim] | None:
        """Up to so many tasks; none where the database could not be asked, after a pause.

        A claim that fails is tried again with half as many tasks, so that a few huge payloads, which take
        longer to send than a statement may last, do not hold up all others for ever.
        """
        most = min(want, self._claim_max)
        try:
            claims = await self._link.use(lambda conn: self._claim(conn, most, free))
        except LinkLost:
            self._claim_max = max(1, most // 2)
            now = time.monotonic()
            self._reconcile_at = [now + seconds for seconds in RECONCILE_AFTER_SECONDS]
        except psycopg.Error as error:
            self._listen(StatementFailed("claim", str(error).strip()))
            self._claim_max = max(1, most // 2)
            # Statements before the one that failed may have claimed something.
            self.reconcile_soon()
        else:
            self._delay.reset()
            self._claim_max = min(UNBOUNDED, self._claim_max * 2)
            return claims
        await asyncio.sleep(self._delay.next())
        return None

    async def free_permits(self) -> None:
        """Give back, without claiming, the permits that nothing here needs any more."""
        freed = self.permits.take_surplus()
        if not freed:
            return
        try:
            await self._link.use(
                lambda conn: self._store.permits.free_permits(conn, self._worker, self._generation, freed)
            )
        except (LinkLost, psycopg.Error):
            # They are not held here any more, so that the next look at what is held frees them.
            self.reconcile_soon()

    async def _claim(self, conn: Conn, want: int, free: Callable[[], int]) -> Sequence[Claim]:
        if self._generation != self._link.generation:
            self._claimer = self._new_claimer()
            # Whoever lost the last connection may not have told: what is held is looked up by the new one.
            self.reconcile_soon()
        if self.due:
            self._reconcile_at.pop(0)
            began = time.monotonic()
            await self._store.workers.reconcile(conn, self._worker, self._held())
            await self._store.permits.set_permits(conn, self._worker, self._generation, self.permits.held())
            now = time.monotonic()
            self._looked_enough_until = now + (now - began) / RECONCILE_SHARE
        return await self._claimer.claim(conn, want, free=free())

    def _new_claimer(self) -> Claimer:
        self._generation = self._link.generation
        timeouts = [handler.timeout_seconds or 0.0 for handler in self._handlers.values()]
        return Claimer(
            self._store,
            self._options.queues,
            self._worker,
            kinds=sorted(self._handlers),
            timeout=max([self._options.timeout_seconds, *timeouts]),
            permits=self.permits,
            generation=self._generation,
        )
