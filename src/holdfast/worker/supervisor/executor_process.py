"""An executor process as its supervisor sees it: channel, flight record, lease."""

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from uuid_utils import uuid7

from holdfast.core.outcome import Outcome, Release, Released, WorkerLost
from holdfast.core.task import Claim
from holdfast.worker.channel import Order, Wire
from holdfast.worker.flight_record import Flight, FlightRecord, RunMode
from holdfast.worker.options import WorkerOptions
from holdfast.worker.outcomes import timed_out, timed_out_in_bulk
from holdfast.worker.signals import describe_exit, group_signals_blocked

OPTIONS_VARIABLE = "HOLDFAST_EXECUTOR_OPTIONS"


class Leaving(StrEnum):
    """Why an executor is on its way out by our own will."""

    DRAINING = "draining"
    RECYCLED = "recycled"
    ABORTED = "aborted"
    LEASE_LOST = "lease_lost"
    OVERDUE = "overdue"


@dataclass(slots=True, eq=False)
class Child:
    """An executor process."""

    worker: str
    process: "subprocess.Popen[bytes]"
    pidfd: int
    wire: Wire
    flight: FlightRecord
    began_at: float
    ready: bool = False
    leaving: Leaving | None = None
    leave_by: float = float("inf")
    # By this process's monotonic clock, counted from before the renewal was sent.
    lease_until: float = float("inf")
    overdue: dict[tuple[str, int], Flight] = field(default_factory=dict)
    killed: bool = False
    # It has run its share of tasks or lived its time, and is to be replaced.
    worn: bool = False
    # Seen past its deadline once; only what is seen twice is killed.
    late: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def start(cls, command: Sequence[str], options: WorkerOptions) -> "Child":
        """Start an executor by exec, with its ends of the wire and of the flight record."""
        worker = str(uuid7())
        ours, theirs = socket.socketpair()
        flight = FlightRecord.create(options.concurrency)
        arguments = [worker, str(theirs.fileno()), str(flight.descriptor), str(os.getpid())]
        try:
            with group_signals_blocked():
                process = subprocess.Popen(  # noqa: S603 (ourselves)
                    [*command, *arguments],
                    pass_fds=[theirs.fileno(), flight.descriptor],
                    stdin=subprocess.DEVNULL,
                    env=os.environ | {OPTIONS_VARIABLE: json.dumps(options.as_json())},
                )
        except OSError:
            ours.close()
            flight.close()
            raise
        finally:
            theirs.close()
        return cls(worker, process, os.pidfd_open(process.pid), Wire(ours), flight, time.monotonic())

    def order(self, order: Order) -> None:
        """Say what to do."""
        self.wire.say(order)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self.killed = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def past_deadline(self, grace_seconds: float) -> list[Flight]:
        """Handlers that were told to stop and did not, for longer than the grace."""
        limit = time.monotonic() - grace_seconds
        return [flight for flight in self.flight.running() if flight.deadline_at < limit]

    def fates(self, timeouts: Mapping[str, float]) -> "Fates":
        """What its end means for the tasks that it held."""
        flights = {flight.key: flight for flight in self.flight.entries()}
        status = self.process.returncode
        died = not self.killed and (self.leaving is None or status < 0)
        mates = Counter(
            flight.deadline_at for flight in self.overdue.values() if flight.how is RunMode.BULK_ITEM
        )
        alone = {key for key, flight in self.overdue.items() if mates[flight.deadline_at] <= 1}
        return Fates(died, flights, alone, set(self.overdue) - alone, describe_exit(status), timeouts)

    def bury(self) -> None:
        """Let go of what the process leaves behind."""
        self.wire.close()
        self.flight.close()
        os.close(self.pidfd)


@dataclass(frozen=True, slots=True)
class Fates:
    """The blame rule: who is accused when a process dies.

    Whoever ran past its deadline is to blame for being killed, and its neighbours are not; of the items
    of a bulk call nobody knows which one it was, so they run next alone. When the
    process died by itself with several handlers at work nobody is accused; they run next alone. Only a
    death alone counts against a task. What had not started goes back as if never claimed.

    A task whose handler had ended, and whose outcome was not written, goes back unspent the first time. Up to
    500 of them may wait for one settle, so only a task that was lost before becomes a suspect. Suspects are
    settled one at a time, so a death before the settle counts against that suspect and no other; it does
    not count if another handler was at work in the process that died. A task in a process of its own is
    judged by the end of that process. If the executor above it dies, only the second such death counts.
    """

    died: bool
    flights: Mapping[tuple[str, int], Flight]
    overdue: set[tuple[str, int]]
    # Items of a bulk call that ran past its deadline together.
    mates: set[tuple[str, int]]
    how: str
    timeouts: Mapping[str, float]

    def of(self, claim: Claim, lost_before: bool) -> Outcome:  # noqa: FBT001 (a row's column)
        """What becomes of one claim; `lost_before` says that a process died under the task already."""
        claimed = claim.id, claim.fence
        flight = self.flights.get(claimed)
        ended = flight is not None and flight.ended
        if claimed in self.overdue:
            return timed_out(claim.timeout_seconds or self.timeouts.get(claim.kind, 0.0))
        if claimed in self.mates:
            return timed_out_in_bulk()
        if not self.died:
            unharmed = Release.COLLATERAL if self.overdue or self.mates else Release.DRAINED
            return Released(Release.UNSETTLED if ended else unharmed)
        if flight is None:
            return Released(Release.NOT_STARTED)
        if ended:
            alone = claim.alone and not self._ran_here
            return WorkerLost(alone=alone, how=self.how, suspect=lost_before, ended=True)
        if flight.how is not RunMode.OWN_PROCESS:
            return WorkerLost(alone=len(self.flights) == 1, how=self.how)
        # It ran in another process than the one that died.
        if self._ran_here:
            return Released(Release.COLLATERAL)
        alone = lost_before and len(self.flights) == 1
        return WorkerLost(alone=alone, how=self.how, suspect=lost_before)

    @property
    def _ran_here(self) -> bool:
        """Whether a handler was at work in the process that died."""
        return any(
            not flight.ended and flight.how is not RunMode.OWN_PROCESS for flight in self.flights.values()
        )
