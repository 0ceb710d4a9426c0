"""The supervisor: starts and replaces executors, and takes back what dead ones held.

It imports no user code, so nothing that a handler does can keep it from renewing. Every executor has a
lease of its own, all renewed in one statement. If renewing is impossible the handlers are stopped
before the lease ends, because after that someone else may run the same tasks.
"""

import asyncio
import signal
import time
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from holdfast.core.backoff import Backoff
from holdfast.core.decide import Policy
from holdfast.core.events import (
    CountsReported,
    ExecutorEnded,
    ExecutorStarted,
    HandlersOverdue,
    LeaseAtRisk,
    StatementDelayed,
    StatementFailed,
    WorkerLeaving,
)
from holdfast.db.link import LinkLost
from holdfast.store.store import Store
from holdfast.worker.background import Background
from holdfast.worker.channel import Order, Report
from holdfast.worker.options import Until, WorkerOptions
from holdfast.worker.supervisor.blame import Reclaimer
from holdfast.worker.supervisor.executor_process import ExecutorProcess, Leaving
from holdfast.worker.supervisor.leases import Leases
from holdfast.worker.supervisor.maintenance import Maintenance
from holdfast.worker.supervisor.notifications import Notifications
from holdfast.worker.supervisor.replacements import Replacements

TICK_SECONDS = 0.1
# Time to say what had ended before a lost lease, and to give things back at an abort.
STOP_SECONDS = 2.0
LINGER_SECONDS = 10.0
DONE, FAILED = 0, 1
HURRIED = {Leaving.ABORTED: Order.ABORT, Leaving.LEASE_LOST: Order.STOP}


class Supervisor:
    """One worker: a tree of this process and its executors."""

    def __init__(self, options: WorkerOptions, command: Sequence[str], store: Store) -> None:
        self._options = options
        self._command = command
        self._store = store
        self._listen = store.listen
        self._reclaimer = Reclaimer(options, store)
        self._maintenance = Maintenance(options, store, self._reclaimer.policies, store.listen)
        self._notifications = Notifications(options, self._wake)
        self._children: set[ExecutorProcess] = set()
        self._replacements = Replacements(
            self._children, options.processes, self._start_another, self._recycle
        )
        self._leases = Leases(options, store, self._children, self._lost)
        self._background = Background(self._failed)
        self._signals = 0
        self._was_ready = False
        self._status = DONE
        self._over = asyncio.Event()

    async def run(self) -> int:
        """Work until told to leave; answers the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._told_to_leave)
        for _ in range(self._options.processes):
            self._start()
        chores = [self._leases.run(), self._tick(), self._notifications.run()]
        if self._options.until is Until.STOPPED:
            chores += [self._maintenance.run(), self._maintenance.keep_up()]
        tasks = [asyncio.ensure_future(chore) for chore in chores]
        over = asyncio.ensure_future(self._over.wait())
        while not over.done():
            done, _ = await asyncio.wait([over, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                # A chore that ends by itself has nothing more to do; one that raises is our defect.
                one.result()
            tasks = [task for task in tasks if not task.done()]
        await self._background.done(STOP_SECONDS)
        # If it cannot be left now, its lease ends by itself.
        with suppress(TimeoutError, LinkLost, psycopg.Error):
            await asyncio.wait_for(self._maintenance.leave(), STOP_SECONDS)
        return self._status

    # -- executors

    def _start(self) -> None:
        child = ExecutorProcess.start(self._command, self._options)
        self._children.add(child)
        loop = asyncio.get_running_loop()
        loop.add_reader(child.pidfd, self._ended, child)
        self._background.start(self._hear(child))
        self._listen(ExecutorStarted(child.worker, child.process.pid, self._options.name))

    def _start_another(self) -> bool:
        """Start an executor while others work; answers whether the system had room for it."""
        try:
            self._start()
        except OSError as error:
            self._listen(StatementFailed("start an executor", str(error)))
            return False
        return True

    def _keep_number(self) -> None:
        if not self._signals:
            self._replacements.keep()

    async def _hear(self, child: ExecutorProcess) -> None:
        await child.channel.open()
        async for message in child.channel.hear():
            match message.word:
                case Report.READY:
                    self._ready(child, message.values)
                case Report.RECYCLE:
                    # With --once it leaves by itself after its one task.
                    child.worn = self._options.until is not Until.ONCE
                    self._keep_number()
                case Report.DELAYED:
                    self._listen(StatementDelayed(str(message.values["application"])))
                case Report.COUNTS:
                    counts: dict[str, float] = message.values["counts"]  # type: ignore[assignment]
                    self._listen(CountsReported(counts))
                case _:
                    raise AssertionError(f"{message.word} is not a report")

    def _ready(self, child: ExecutorProcess, values: dict[str, object]) -> None:
        child.ready = True
        self._was_ready = True
        child.lease_until = float(str(values["since"])) + self._options.lease_seconds
        for kind, (attempts, base, cap, timeout) in values["policies"].items():  # type: ignore[attr-defined]
            self._reclaimer.learn(kind, Policy(attempts, Backoff(base, cap)), timeout)
        if self._signals:
            self._send_away(child, Leaving.DRAINING)
        self._keep_number()

    def _recycle(self, child: ExecutorProcess) -> None:
        self._send_away(child, Leaving.RECYCLED)

    def _send_away(self, child: ExecutorProcess, why: Leaving) -> None:
        if not child.ready:
            child.leaving = why
            child.kill()
        elif child.leaving in (None, Leaving.DRAINING, Leaving.RECYCLED):
            child.leaving = why
            unhurried = self._options.grace_seconds + LINGER_SECONDS
            child.leave_by = time.monotonic() + (STOP_SECONDS if why in HURRIED else unhurried)
            child.order(HURRIED.get(why, Order.DRAIN))

    def _ended(self, child: ExecutorProcess) -> None:
        asyncio.get_running_loop().remove_reader(child.pidfd)
        status = child.process.wait()
        self._children.discard(child)
        self._listen(
            ExecutorEnded(child.worker, child.process.pid, status, child.leaving and str(child.leaving))
        )
        # The channel is closed in the next turn of the loop, after this one has read the last report from it.
        self._background.start(self._reclaimer.take_back(child))
        if self._over.is_set():
            return
        if not child.ready and not self._was_ready and child.leaving is None and status >= 0:
            # It gave up before it claimed anything, and so did every other: starting it again won't help.
            self._status = FAILED
            self._signals = max(self._signals, 1)
            for other in list(self._children):
                self._send_away(other, Leaving.DRAINING)
        done = self._options.until is not Until.STOPPED and status == DONE
        self._replacements.ended(child, done=done)
        self._keep_number()
        if not self._children and (self._signals or self._replacements.finished):
            self._over.set()

    @property
    def at_work(self) -> int:
        """How many executors claim tasks, under leases that hold."""
        now = time.monotonic()
        return sum(
            child.ready and child.leaving is None and now < child.lease_until for child in self._children
        )

    def _lost(self, child: ExecutorProcess) -> None:
        if child in self._children and child.leaving is not Leaving.LEASE_LOST:
            self._listen(LeaseAtRisk(child.worker, lost=True))
            self._send_away(child, Leaving.LEASE_LOST)

    # -- time

    async def _tick(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            # Stopped and continued: whatever the clock says now, the database is asked first.
            woke = now - before > self._options.lease_seconds / 2
            for child in list(self._children):
                self._mind(child, now, asleep=woke)
            self._keep_number()
            if woke:
                self._background.start(self._leases.renew_now())

    def _mind(self, child: ExecutorProcess, now: float, *, asleep: bool) -> None:
        if now > child.leave_by:
            child.kill()
            return
        found = child.past_deadline(self._options.kill_seconds) if child.ready else []
        overdue = [flight for flight in found if (flight.task_id, flight.fence) in child.late]
        child.late = {(flight.task_id, flight.fence) for flight in found}
        if overdue and not child.overdue:
            child.overdue = {(flight.task_id, flight.fence): flight for flight in overdue}
            self._listen(HandlersOverdue(child.worker, [flight.task_id for flight in overdue]))
            child.leaving = Leaving.OVERDUE
            child.kill()
            return
        margin = min(5.0, self._options.lease_seconds / 5)
        if asleep or now < child.lease_until - margin or not child.ready:
            return
        if child.leaving is not Leaving.LEASE_LOST:
            self._listen(LeaseAtRisk(child.worker, lost=False))
            self._send_away(child, Leaving.LEASE_LOST)
            # Results are kept while the lease holds; what is still at work shortly before its end is ended.
            child.leave_by = max(child.lease_until - margin / 4, now + STOP_SECONDS / 2)

    def _wake(self) -> None:
        for child in self._children:
            child.order(Order.WAKE)

    # -- leaving

    def _told_to_leave(self) -> None:
        self._signals += 1
        again = self._signals > 1
        self._listen(WorkerLeaving(self._options.name, at_once=again))
        if again:
            self._status = FAILED
        for child in list(self._children):
            self._send_away(child, Leaving.ABORTED if again else Leaving.DRAINING)
        if not self._children:
            self._over.set()

    def _failed(self, error: BaseException) -> None:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "a part of the supervisor failed", "exception": error}
        )
