"""The flight record of an executor, read from outside by a test, as its supervisor would."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.worker.flight_record import Flight, FlightRecord

# Where the descriptor stands: python -m holdfast.cli.processes.executor APP WORKER WIRE FLIGHT PARENT
_FLIGHT = -2


@contextmanager
def flight_record(pid: int, slots: int = 10) -> Iterator[FlightRecord]:
    """The record of one executor that is alive."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    descriptor = os.open(f"/proc/{pid}/fd/{words[_FLIGHT].decode()}", os.O_RDWR)
    record = FlightRecord(descriptor, slots)
    try:
        yield record
    finally:
        record.close()


def stop(pid: int, record: FlightRecord) -> list[Flight]:
    """Stop an executor; answers what its record says from then on."""
    os.kill(pid, signal.SIGSTOP)
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "Tt":
        pass
    return record.entries()


def kill(pid: int, record: FlightRecord) -> list[Flight]:
    """Kill an executor; answers what its record said at that moment."""
    found = stop(pid, record)
    os.kill(pid, signal.SIGKILL)
    return found
