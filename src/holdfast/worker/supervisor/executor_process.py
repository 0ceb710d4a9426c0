"""An executor process as its supervisor sees it: channel, flight record, lease."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

from uuid_utils import uuid7

from holdfast.worker.channel import Channel, Order
from holdfast.worker.flight_record import Flight, FlightRecord
from holdfast.worker.options import WorkerOptions
from holdfast.worker.signals import group_signals_blocked

OPTIONS_VARIABLE = "HOLDFAST_EXECUTOR_OPTIONS"


class Leaving(StrEnum):
    """Why an executor is on its way out by our own will."""

    DRAINING = "draining"
    RECYCLED = "recycled"
    ABORTED = "aborted"
    LEASE_LOST = "lease_lost"
    OVERDUE = "overdue"


@dataclass(slots=True, eq=False)
class ExecutorProcess:
    """An executor process."""

    worker: str
    process: "subprocess.Popen[bytes]"
    pidfd: int
    channel: Channel
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
    def start(cls, command: Sequence[str], options: WorkerOptions) -> "ExecutorProcess":
        """Start an executor by exec, with its ends of the channel and of the flight record."""
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
        return cls(worker, process, os.pidfd_open(process.pid), Channel(ours), flight, time.monotonic())

    def order(self, order: Order) -> None:
        """Say what to do."""
        self.channel.say(order)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        self.killed = True
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def past_deadline(self, grace_seconds: float) -> list[Flight]:
        """Handlers that were told to stop and did not, for longer than the grace."""
        limit = time.monotonic() - grace_seconds
        return [flight for flight in self.flight.running() if flight.deadline_at < limit]

    def close(self) -> None:
        """Close what the process leaves open."""
        self.channel.close()
        self.flight.close()
        os.close(self.pidfd)
