"""The executor: claims tasks for its free slots, runs handlers, settles in groups, obeys its supervisor.

A task takes six steps, and each has an owner: it is claimed (`Claiming`), held in the buffer (`Buffer`),
started and run (`Runs`), and settled (`Settling`); what is left when the executor leaves is drained, here.

The executor holds no lease of its own making: it registers, its supervisor renews. It ignores signals,
because those are sent to whole groups of processes and only the supervisor knows what to do with them.
"""

import asyncio
import time
from collections.abc import Sequence

from holdfast.core.handler import Handlers
from holdfast.core.outcome import Finished, Outcome, Release, Released
from holdfast.core.task import Claim
from holdfast.db.link import Link
from holdfast.store.settle import Settlement
from holdfast.store.store import Store
from holdfast.worker.background import Background
from holdfast.worker.channel import Channel, Order, Report
from holdfast.worker.executor.buffer import Buffer, Gathering
from holdfast.worker.executor.claiming import GROUP, Claiming
from holdfast.worker.executor.finish import Finishing
from holdfast.worker.executor.fork_server import ForkServer
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.executor.registration import register
from holdfast.worker.executor.run import Run
from holdfast.worker.executor.runs import CancelRequests, Runs
from holdfast.worker.executor.settling import Settling
from holdfast.worker.flight_record import ITEMS_MAX, FlightRecord
from holdfast.worker.options import Until, WorkerOptions
from holdfast.worker.policies import Policies

TICK_SECONDS = 0.1
ABORT_SECONDS = 1.0
LEFT = 0
LEASE_LOST = 75


class Executor:
    """One process that runs handlers."""

    def __init__(  # noqa: PLR0913 (it is where everything meets)
        self,
        worker: str,
        options: WorkerOptions,
        handlers: Handlers,
        store: Store,
        channel: Channel,
        flight: FlightRecord,
        fork_server: ForkServer,
        counts: dict[str, float],
    ) -> None:
        self._worker = worker
        self._options = options
        self._handlers = handlers
        self._store = store
        self._channel = channel
        # A listener adds to these counts; they are cleared when they are reported.
        self._counts = counts
        self._claims_link, settles_link = (
            Link(options.url, f"holdfast {options.name} {what}", store.listen,
                 deadline_seconds=options.statement_seconds)
            for what in ("claims", "settles")
        )  # fmt: skip
        self._policies = Policies(handlers, options.max_attempts)
        self._settling = Settling(store, settles_link, self._policies, self._written)
        finisher = Finishing(store.settings, handlers)
        self._runs = Runs(flight, fork_server, options.timeout_seconds, finisher, self._ended, self._start)
        self._cancels = CancelRequests(worker, store, self._claims_link, self._runs)
        self._permits = HeldPermits(self._most)
        self._buffer = Buffer(self._permits, Gathering(handlers), self._settling)
        self._claiming = Claiming(
            worker, options, handlers, store, self._claims_link, self._permits, self._held
        )
        self._pace = self._claiming.pace
        self._recycling = Recycling(options)
        self._background = Background(self._failed)
        self._room = asyncio.Event()
        self._claimed = 0
        self._closing = False
        self._start_scheduled = False
        self._due: asyncio.TimerHandle | None = None
        self._was_full = False
        self._loop = asyncio.get_running_loop()
        self._leave: asyncio.Future[int] = self._loop.create_future()

    async def run(self) -> int:
        """Work until told to leave, or until there is nothing more to do; answers the exit status."""
        since = await register(self._claims_link, self._store, self._worker, self._options, self._handlers)
        self._channel.say(Report.READY, since=since, policies=self._policies.as_json())
        for work in (self._hear(), self._claim(), self._settling.run(), self._tick()):
            self._background.start(work)
        try:
            return await self._leave
        finally:
            self._report_counts()

    # -- claim

    async def _claim(self) -> None:
        while True:
            want = self._want()
            if want <= 0:
                if self._nothing_left():
                    return
                await self._wait_for_room()
                continue
            claims = await self._claiming.claim(want, self._free)
            if claims is None:
                continue
            self._put(claims, full=len(claims) >= want)
            # A claim that only blocked tasks has not seen what stands behind them.
            if not claims and not self._claiming.moving and self._nothing_left():
                return
            few = len(claims) < want // 2 and all(claim.limits for claim in claims)
            if few and not self._claiming.moving:
                # All that there is, or all that limits allow: the next end of a task changes that.
                await self._pace.idle()

    def _want(self) -> int:
        if self._closing or self._leave.done() or self._settling.full:
            return 0
        want = self._pace.want(self._runs.free, self._buffer.startable)
        if self._runs.free:
            want = max(want, min(GROUP, self._buffer.appetite))
        if self._options.until is Until.ONCE:
            want = min(want, 1 - self._claimed)
        return want

    def _free(self) -> int:
        return self._runs.free - self._buffer.startable

    def _most(self, kind: str) -> int:
        """How many tasks of a kind can run here at once."""
        handler = self._handlers.get(kind)
        return self._options.concurrency if handler is None or handler.bulk is None else ITEMS_MAX

    async def _wait_for_room(self) -> None:
        self._room.clear()
        if self._want() <= 0:
            await self._room.wait()

    def _nothing_left(self) -> bool:
        """Whether a worker that does not stay has done what it came for."""
        if self._options.until is Until.STOPPED or len(self._runs) or len(self._buffer):
            return False
        if not self._closing:
            self._closing = True
            self._background.start(self._drain(self._options.grace_seconds))
        return True

    # -- buffer, start

    def _put(self, claims: Sequence[Claim], *, full: bool) -> None:
        self._claimed += len(claims)
        if claims:
            self._pace.found()
        if self._closing:
            self._give_back(claims)
            return
        self._buffer.put(claims, full=full)
        self._start()

    def _start(self) -> None:
        """Start what is buffered while there are free slots."""
        self._start_scheduled = False
        if self._closing or self._settling.full:
            return
        while self._runs.free and (claims := self._buffer.next(self._runs.items)):
            handler = self._handlers[claims[0].kind]
            if handler.bulk is None or claims[0].isolate:
                self._runs.start(claims[0], handler)
            else:
                self._runs.start_bulk(claims, handler)
        self._start_when_due()
        startable = self._buffer.startable
        self._settling.busy = startable > 0 or len(self._runs) > 0
        if self._pace.want(self._runs.free, startable) > 0 or self._buffer.appetite:
            self._room.set()

    def _start_soon(self) -> None:
        """Once for all that ends in this turn of the loop, also for what ended as it started."""
        if not self._start_scheduled:
            self._start_scheduled = True
            self._loop.call_soon(self._start)

    def _start_when_due(self) -> None:
        """A bulk call that is being gathered is due at its time, whatever else happens."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if (at := self._buffer.due_at) is not None and self._runs.free and self._runs.items:
            self._due = self._loop.call_at(at, self._start)

    # -- run, settle

    def _ended(self, run: Run, outcome: Outcome | Finished) -> None:
        claim, seconds = run.claim, (time.monotonic() - run.began_at) / run.mates
        self._pace.ended(seconds)
        if claim.limits:
            self._permits.ended(claim, seconds)
        self._recycling.tasks += 1
        if isinstance(outcome, Finished):
            self._settling.finished(claim, outcome.then)
        else:
            # If the answer to its own commit was lost, it may have landed: then it is looked up.
            uncertain = run.task is not None and run.task.uncertain
            self._settling.end(claim, outcome, uncertain=uncertain)
        self._start_soon()
        if claim.limits and self._permits.restless(claim):
            # More tasks for the permits that it holds, or permits that nobody needs: for the next claim.
            self._pace.wake()
            self._room.set()
        if self._options.until is not Until.STOPPED:
            self._room.set()

    def _written(self, group: Sequence[Settlement]) -> None:
        self._runs.settled({(claim.id, claim.fence) for claim, _ in group})
        if self._was_full and not self._settling.full:
            self._start_soon()
        self._was_full = self._settling.full

    def _give_back(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._settling.end(claim, Released(Release.NOT_STARTED))

    def _held(self) -> list[Claim]:
        settling = [claim for claim, _ in self._settling.pending()]
        return [*self._buffer.claims(), *self._runs.claims(), *settling]

    # -- drain

    async def _hear(self) -> None:
        async for message in self._channel.hear():
            match message.word:
                case Order.WAKE:
                    self._pace.wake()
                    self._room.set()
                case Order.RECONCILE:
                    self._claiming.reconcile_now_and_then()
                case Order.DRAIN | Order.ABORT as order:
                    self._closing = True
                    self._background.start(
                        self._drain(self._options.grace_seconds if order is Order.DRAIN else 0.0)
                    )
                case Order.STOP:
                    self._closing = True
                    self._background.start(self._stop())
                case _:
                    raise AssertionError(f"{message.word} is not an order")
        # The supervisor is gone, and the lease with it.
        self._go(LEASE_LOST)

    async def _drain(self, grace_seconds: float) -> None:
        """Finish what runs while the grace lasts, and give everything else back unspent."""
        self._room.set()
        self._give_back(self._buffer.take_all())
        await self._runs.done(grace_seconds)
        self._runs.stop_all(Released(Release.DRAINED), "the worker is leaving")
        await self._runs.done(ABORT_SECONDS / 2)
        for run in self._runs.abandon():
            self._settling.end(run.claim, Released(Release.DRAINED))
        if self._claiming.busy:
            # A claim is on its way: what it brings is given back too.
            await asyncio.sleep(0.05)
        # While the database is away results are kept: the supervisor ends this process when it was told to
        # leave at once, or before the lease ends.
        await self._settling.flushed()
        self._go(LEFT)

    async def _stop(self) -> None:
        """The lease ends: results that are there are written if they can be, and nothing else is touched.

        The supervisor ends this process before the lease does.
        """
        self._buffer.take_all()
        self._runs.stop_all(Released(Release.DRAINED), "the lease is lost")
        self._runs.abandon()
        await self._settling.flushed()
        self._go(LEASE_LOST)

    def _failed(self, error: BaseException) -> None:
        """The process ends with the traceback, and its supervisor gives back what it held."""
        if not self._leave.done():
            self._leave.set_exception(error)

    def _go(self, status: int) -> None:
        if not self._leave.done():
            self._leave.set_result(status)

    # -- time

    async def _tick(self) -> None:
        """Deadlines, cancel requests, a buffer that waits too long, counts, and the end of this life."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self._runs.expire()
            self._report_counts()
            if stale := self._buffer.take_stale():
                self._pace.forget()
                self._give_back(stale)
            if self._cancels.due(now):
                # Beside this loop: a database that hangs must not hold up deadlines.
                self._background.start(self._cancels.ask(now))
            if (why := self._recycling.out()) is not None:
                self._channel.say(Report.RECYCLE, why=why)
            if self._claiming.due:
                self._pace.wake()
            if self._closing or not self._runs.free:
                # Nobody claims now, and what is held in vain would keep others waiting.
                self._background.start(self._claiming.free_permits())

    def _report_counts(self) -> None:
        if self._counts:
            self._channel.say(Report.COUNTS, counts=self._counts)
            self._counts.clear()


class Recycling:
    """The age of one executor, in seconds and in tasks."""

    def __init__(self, options: WorkerOptions) -> None:
        self._options = options
        self._began_at = time.monotonic()
        self.tasks = 0
        self._said = False

    def out(self) -> str | None:
        """Why it should be replaced; said once."""
        options = self._options
        old = (
            options.max_time_seconds is not None
            and time.monotonic() - self._began_at >= options.max_time_seconds
        )
        used_up = options.max_tasks is not None and self.tasks >= options.max_tasks
        if self._said or not (old or used_up):
            return None
        self._said = True
        return "max-time" if old else "max-tasks"
