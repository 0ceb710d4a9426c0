"""One executor as its supervisor sees it: a process, a wire, a flight record, a lease."""

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
from holdfast.runtime.execute import overdue, overdue_together
from holdfast.runtime.flight import Flight, FlightRecord
from holdfast.runtime.options import WorkerOptions
from holdfast.runtime.process import group_signals_blocked
from holdfast.runtime.solo import how
from holdfast.runtime.tally import Tally
from holdfast.runtime.wire import Order, Wire

OPTIONS_VARIABLE = "HOLDFAST_EXECUTOR_OPTIONS"
# In place of a descriptor, where nobody wants to know what an executor counts.
NO_TALLY = -1


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
    # What it counts, where somebody wants to know.
    tally: Tally | None = None
    ready: bool = False
    leaving: Leaving | None = None
    leave_by: float = float("inf")
    # By this process's monotonic clock, counted from before the renewal was sent.
    lease_until: float = float("inf")
    overdue: dict[tuple[str, int], Flight] = field(default_factory=dict)
    killed: bool = False
    successor: "Child | None" = None
    # Its successor is at work: when it goes, nobody need take its place.
    relieved: bool = False
    # Seen past its deadline once; only what is seen twice is killed.
    late: set[tuple[str, int]] = field(default_factory=set)

    @classmethod
    def start(cls, command: Sequence[str], options: WorkerOptions, tally: Tally | None = None) -> "Child":
        """Start an executor by exec, with its ends of the wire, of the flight record and of its counts."""
        worker = str(uuid7())
        ours, theirs = socket.socketpair()
        flight = FlightRecord.create(options.concurrency)
        counts = NO_TALLY if tally is None else tally.descriptor
        arguments = [worker, str(theirs.fileno()), str(flight.descriptor), str(os.getpid()), str(counts)]
        try:
            with group_signals_blocked():
                process = subprocess.Popen(  # noqa: S603 (ourselves)
                    [*command, *arguments],
                    pass_fds=[
                        theirs.fileno(),
                        flight.descriptor,
                        *([] if tally is None else [tally.descriptor]),
                    ],
                    stdin=subprocess.DEVNULL,
                    env=os.environ | {OPTIONS_VARIABLE: json.dumps(options.as_json())},
                )
        except OSError:
            ours.close()
            flight.close()
            raise
        finally:
            theirs.close()
        return cls(worker, process, os.pidfd_open(process.pid), Wire(ours), flight, time.monotonic(), tally)

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
        return [flight for flight in self.flight.flying() if flight.deadline_at < limit]

    def fates(self, timeouts: Mapping[str, float]) -> "Fates":
        """What its end means for the tasks that it held."""
        flying = {(flight.task_id, flight.fence) for flight in self.flight.flying()}
        status = self.process.returncode
        died = not self.killed and (self.leaving is None or status < 0)
        mates = Counter(flight.deadline_at for flight in self.overdue.values() if flight.item)
        alone = {key for key, flight in self.overdue.items() if mates[flight.deadline_at] <= 1}
        return Fates(died, flying, alone, set(self.overdue) - alone, how(status), timeouts)

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
    """

    died: bool
    flying: set[tuple[str, int]]
    overdue: set[tuple[str, int]]
    # Items of a bulk call that ran past its deadline together.
    mates: set[tuple[str, int]]
    how: str
    timeouts: Mapping[str, float]

    def of(self, claim: Claim) -> Outcome:
        """What becomes of one claim."""
        claimed = claim.id, claim.fence
        if claimed in self.overdue:
            return overdue(claim.timeout_seconds or self.timeouts.get(claim.kind, 0.0))
        if claimed in self.mates:
            return overdue_together()
        if not self.died:
            return Released(Release.COLLATERAL if self.overdue or self.mates else Release.DRAINED)
        if claimed not in self.flying:
            return Released(Release.NOT_STARTED)
        return WorkerLost(alone=len(self.flying) == 1, how=self.how)
