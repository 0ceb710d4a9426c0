"""Starts handlers in slots and stops them at their deadlines."""

import asyncio
import contextvars
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg

from holdfast.core.handler import Finisher, Handler, Isolation
from holdfast.core.outcome import Cancel, Failed, Finished, Outcome, Release, Released, WorkerLost
from holdfast.core.task import Claim
from holdfast.db.link import Link, LinkLost
from holdfast.store.store import Store
from holdfast.worker.executor.bulk import BulkCall
from holdfast.worker.executor.fork_server import Died, ForkedRun, ForkServer, NotStarted
from holdfast.worker.executor.handlers import execute_async, execute_here, prepare
from holdfast.worker.executor.run import Run, cancellable, unless_stopped
from holdfast.worker.flight_record import ITEMS_MAX, FlightRecord, RunMode
from holdfast.worker.outcomes import cancelled_itself, ended_by, timed_out

# How many suspects run at one time, beside the slots: a herd of processes must not crowd out the rest.
SUSPECTS_MIN, SUSPECTS_MAX = 4, 16
SUSPECT_WAIT_SECONDS = 5.0
NOT_STARTED_SECONDS = 1.0
FORK_SECONDS = 60.0
CANCELS_SECONDS = 1.0


class Runs:
    """What runs now; `ended` is called with each run and its outcome, `freed` when a bulk call is over."""

    def __init__(
        self,
        flight: FlightRecord,
        fork_server: ForkServer,
        timeout_seconds: float,
        finisher: Finisher | None,
        ended: Callable[[Run, Outcome | Finished], None],
        freed: Callable[[], None],
    ) -> None:
        self._freed = freed
        self._flight = flight
        self._free = flight.slots
        self._free_items = ITEMS_MAX
        self._calls: set[BulkCall] = set()
        self._fork_server = fork_server
        self._suspects = asyncio.Semaphore(max(SUSPECTS_MIN, min(SUSPECTS_MAX, flight.slots // 2)))
        self._queued_suspects = 0
        # At most one suspect has ended and is not settled: if the executor dies then, no other one is blamed.
        self._ending = asyncio.Lock()
        self._unsettled: dict[tuple[str, int], asyncio.Event] = {}
        self._timeout = timeout_seconds
        self._finisher = finisher
        self._ended = ended
        self._running: set[Run] = set()
        self._empty = asyncio.Event()
        self._threads = ThreadPoolExecutor(flight.slots, thread_name_prefix="holdfast")
        # Every handler starts from this context, so that none inherits what another left in it.
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()

    @property
    def free(self) -> int:
        """Free slots less queued suspects, so that no more is claimed than can be isolated here."""
        return max(0, self._free - self._queued_suspects)

    @property
    def items(self) -> int:
        """How many items the next bulk call may have."""
        return self._free_items

    def __len__(self) -> int:
        return len(self._running)

    def claims(self) -> list[Claim]:
        """The claims that are at work."""
        return [run.claim for run in self._running]

    def seconds(self, claim: Claim, handler: Handler) -> float:
        """The time that a claim has: from its enqueue, else its kind, else the worker."""
        return claim.timeout_seconds or handler.timeout_seconds or self._timeout

    def start(self, claim: Claim, handler: Handler) -> None:
        """Call the handler: as a coroutine, in a thread, or in a process of its own."""
        now = time.monotonic()
        if claim.isolate:
            # A suspect takes no slot: it waits for its turn among the few that run alone.
            run = Run(claim, handler, now, float("inf"), forked=ForkedRun())
            self._running.add(run)
            self._queued_suspects += 1
            run.doing = self._task(run, self._run_suspect(run))
            return
        self._free -= 1
        run = Run(claim, handler, now, now + self.seconds(claim, handler), slots=1)
        self._running.add(run)
        if handler.isolation is Isolation.PROCESS:
            run.forked = ForkedRun()
            run.doing = self._task(run, self._run_apart(run))
            return
        # Recorded before its payload is read: that, too, may be the end of this process.
        self._flight.start(claim.id, claim.fence, run.deadline_at)
        task = prepare(handler, claim, self._finisher)
        if isinstance(task, Failed):
            self._end(run, task)
            return
        run.task = task
        if handler.awaits:
            run.doing = self._loop.create_task(self._run_async(run), context=self._context.copy())
        else:
            run.doing = self._task(run, self._run_in_thread(run))

    def start_bulk(self, claims: Sequence[Claim], handler: Handler) -> None:
        """Call a bulk handler with all of these; a payload that cannot be read fails by itself."""
        now = time.monotonic()
        self._free -= 1
        self._free_items -= len(claims)
        runs = []
        for claim in claims:
            own = now + claim.timeout_seconds if claim.timeout_seconds else float("inf")
            run = Run(claim, handler, now, own, items=1, mates=len(claims))
            self._running.add(run)
            task = prepare(handler, claim, self._finisher)
            if isinstance(task, Failed):
                self._flight.start(claim.id, claim.fence, float("inf"), RunMode.BULK_ITEM)
                self._end(run, task)
                continue
            run.task = task
            runs.append(run)
        seconds = handler.timeout_seconds or self._timeout
        call = BulkCall(handler, runs, seconds, self._flight, self._threads, self._end_item)
        for run in runs:
            run.call = call
        self._calls.add(call)
        call.doing = self._loop.create_task(self._call(call), context=self._context.copy())

    async def _call(self, call: BulkCall) -> None:
        try:
            await call.work()
        finally:
            self._calls.discard(call)
            self._free += 1
            self._freed()

    def _end_item(self, run: Run, outcome: Outcome) -> None:
        self._end(run, unless_stopped(run, outcome))

    def stop(self, run: Run, outcome: Outcome, reason: str) -> None:
        """Tell a handler to end: a coroutine is cancelled, a process killed, a function may look."""
        if run.stop_outcome is not None:
            return
        run.stop_outcome = outcome
        if run.task is not None:
            run.task.stopping = reason
        if run.call is not None:
            run.call.item_stopped()
        if run.forked is not None:
            run.forked.kill()
        if run.doing is not None and cancellable(run):
            # Not before its first step, which would leave it without an end.
            self._loop.call_soon(run.doing.cancel)

    def stop_all(self, outcome: Outcome, reason: str) -> None:
        """Tell every handler to end."""
        for run in list(self._running):
            self.stop(run, outcome, reason)

    def cancel(self, task_id: str, fence: int, reason: str) -> None:
        """An operator asked for it."""
        for run in list(self._running):
            if run.claim.id == task_id and run.claim.fence == fence:
                self.stop(run, Cancel(reason), f"cancelled: {reason}")

    def oldest_seconds(self) -> float:
        """How long the longest of them has been at work."""
        now = time.monotonic()
        return max((now - run.began_at for run in self._running), default=0.0)

    def expire(self) -> None:
        """Stop what is past its deadline."""
        now = time.monotonic()
        for run in [run for run in self._running if run.deadline_at <= now]:
            self.stop(run, timed_out(self.seconds(run.claim, run.handler)), "its time is over")
        for call in [call for call in self._calls if call.deadline_at <= now]:
            call.expire()

    async def done(self, seconds: float) -> None:
        """Wait until nothing runs, for so long at most."""
        self._empty.clear()
        if self._running:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)

    def settled(self, keys: Collection[tuple[str, int]]) -> None:
        """The outcomes of these claims are written, or were refused."""
        self._flight.clear(keys)
        for key in self._unsettled.keys() & keys:
            self._unsettled.pop(key).set()

    def abandon(self) -> list[Run]:
        """The claims that still run, to be given back; their ends will not be reported any more."""
        left = list(self._running)
        self._running.clear()
        return left

    def _task(self, run: Run, work: Coroutine[None, None, None]) -> "asyncio.Task[None]":
        return self._loop.create_task(self._guarded(run, work), context=self._context.copy())

    async def _guarded(self, run: Run, work: Coroutine[None, None, None]) -> None:
        """However it ends, it ends: a run that nobody hears of again would keep its slot for ever."""
        try:
            await work
        except asyncio.CancelledError:
            self._end(run, run.outcome or run.stop_outcome or cancelled_itself())
        except BaseException as error:  # noqa: BLE001 (the last resort)
            self._end(run, run.stop_outcome or ended_by(error))

    async def _run_async(self, run: Run) -> None:
        """Like `_guarded`, without a second coroutine: most tasks run through here."""
        assert run.task is not None, "it was prepared"
        try:
            outcome = await execute_async(run.handler, run.task)
            if run.stop_outcome is not None:
                outcome = unless_stopped(run, outcome)
        except asyncio.CancelledError:
            outcome = run.stop_outcome or cancelled_itself()
        except BaseException as error:  # noqa: BLE001 (the last resort)
            outcome = run.stop_outcome or ended_by(error)
        self._end(run, outcome)

    async def _run_in_thread(self, run: Run) -> None:
        assert run.task is not None, "it was prepared"
        context = contextvars.copy_context()
        outcome = await self._loop.run_in_executor(
            self._threads, context.run, execute_here, run.handler, run.task
        )
        self._end(run, unless_stopped(run, outcome))

    async def _run_suspect(self, run: Run) -> None:
        try:
            async with asyncio.timeout(SUSPECT_WAIT_SECONDS):
                await self._suspects.acquire()
        except TimeoutError:
            # Its time counts from its claim: it goes back before that matters, and to whoever has room.
            self._end(run, run.stop_outcome or Released(Release.NOT_STARTED))
            return
        except asyncio.CancelledError:
            self._end(run, run.stop_outcome or cancelled_itself())
            return
        finally:
            self._queued_suspects -= 1
            self._freed()
        try:
            run.outcome = await self._apart(run)
            # Its handler has ended, so that its time cannot run out any more.
            run.deadline_at = float("inf")
            async with self._ending:
                settled = self._unsettled[run.key] = asyncio.Event()
                self._end(run, run.outcome)
                if run.key in self._unsettled:
                    await settled.wait()
        finally:
            self._suspects.release()

    async def _run_apart(self, run: Run) -> None:
        self._end(run, await self._apart(run))

    async def _apart(self, run: Run) -> Outcome | Finished:
        """How the task ends in a process of its own."""
        assert run.forked is not None, "it runs in a process"
        seconds = self.seconds(run.claim, run.handler)

        def started() -> None:
            run.deadline_at = time.monotonic() + seconds

        # Loading the app and forking take a while, and are not the handler's time.
        run.deadline_at = time.monotonic() + seconds + FORK_SECONDS
        run.forked.started = started
        # Recorded before the process starts, because its handler may run before we learn of it. This process
        # enforces the deadline, so the record has none.
        self._flight.start(*run.key, float("inf"), RunMode.OWN_PROCESS)
        answer = await self._fork_server.run(run.claim, run.forked)
        if isinstance(answer, Died):
            return run.stop_outcome or WorkerLost(sole=True, how=answer.how)
        if isinstance(answer, NotStarted):
            self._flight.clear([run.key])
            # Whatever is wrong may take a moment to mend; the task is not to blame.
            await asyncio.sleep(NOT_STARTED_SECONDS)
            return run.stop_outcome or Released(Release.COLLATERAL)
        return answer if isinstance(answer, Finished) else unless_stopped(run, answer)

    def _end(self, run: Run, outcome: Outcome | Finished) -> None:
        if run.task is not None and run.task.settled and not isinstance(outcome, Finished):
            outcome = Finished(outcome)
        self._free += run.slots
        self._free_items += run.items
        if isinstance(outcome, Finished):
            # Its handler's own commit settled it.
            self.settled([run.key])
        elif not isinstance(outcome, Released):
            # A handler that was stopped to be given back has not ended by itself.
            self._flight.end(run.claim.id, run.claim.fence)
        if run in self._running:
            # Otherwise it was given back meanwhile.
            self._running.discard(run)
            self._ended(run, outcome)
            if not self._running:
                self._empty.set()


class CancelRequests:
    """Asks once a second whether an operator wants running tasks cancelled."""

    def __init__(self, worker: str, store: Store, link: Link, runs: Runs) -> None:
        self._worker = worker
        self._store = store
        self._link = link
        self._runs = runs
        self._next_at = 0.0
        self._asking = False

    def due(self, now: float) -> bool:
        """Whether it is time to ask; short tasks are over before an answer would come."""
        return now >= self._next_at and not self._asking and self._runs.oldest_seconds() > CANCELS_SECONDS / 2

    async def ask(self, now: float) -> None:
        """Ask the database, and stop what is to be stopped."""
        self._asking = True
        self._next_at = now + CANCELS_SECONDS
        try:
            asked = await self._link.use(lambda conn: self._store.workers.cancel_requests(conn, self._worker))
        except (LinkLost, psycopg.Error):
            return
        finally:
            self._asking = False
        for task_id, fence, reason in asked:
            self._runs.cancel(task_id, fence, reason)
