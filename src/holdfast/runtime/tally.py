"""Counts in memory that outlives its writer, so that what a killed process had counted is not lost.

One process writes, the one above it reads. A record is a name and a number; names are never taken back.
"""

import mmap
import os
import struct
from collections.abc import Mapping

_HEAD = struct.Struct("<q")
_NAME_BYTES = 248
_RECORD_BYTES = 256
_VALUE = struct.Struct("<d")
RECORDS_MAX = 8_192
# Begins the names of figures that are no sums: of several processes the largest one counts.
LATEST = "@"


class Tally:
    """The counts of one process, by name."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _HEAD.size + RECORDS_MAX * _RECORD_BYTES)
        self._places: dict[str, int] = {}
        self._values: dict[str, float] = {}

    @classmethod
    def create(cls) -> "Tally":
        """New memory, to be inherited by a child under its descriptor; what is not written takes no room."""
        descriptor = os.memfd_create("holdfast-tally", 0)
        os.ftruncate(descriptor, _HEAD.size + RECORDS_MAX * _RECORD_BYTES)
        return cls(descriptor)

    def add(self, name: str, amount: float = 1.0) -> None:
        """Count; a name too many or too long is counted nowhere."""
        self.set(name, self._values.get(name, 0.0) + amount)

    def set(self, name: str, value: float) -> None:
        """Write a figure that is no sum."""
        place = self._places.get(name)
        if place is None:
            place = self._place(name)
            if place is None:
                return
        self._values[name] = value
        _VALUE.pack_into(self._memory, place, value)

    def read(self) -> Mapping[str, float]:
        """All counts, from whichever process."""
        (records,) = _HEAD.unpack_from(self._memory, 0)
        found: dict[str, float] = {}
        for number in range(records):
            at = _HEAD.size + number * _RECORD_BYTES
            name = self._memory[at : at + _NAME_BYTES].rstrip(b"\0").decode()
            (found[name],) = _VALUE.unpack_from(self._memory, at + _NAME_BYTES)
        return found

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
        os.close(self.descriptor)

    def _place(self, name: str) -> int | None:
        written = name.encode()
        number = len(self._places)
        if number >= RECORDS_MAX or len(written) > _NAME_BYTES:
            return None
        at = _HEAD.size + number * _RECORD_BYTES
        self._memory[at : at + len(written)] = written
        # Counted last, so that whoever reads meanwhile never sees half a name.
        _HEAD.pack_into(self._memory, 0, number + 1)
        self._places[name] = place = at + _NAME_BYTES
        return place


class Tallies:
    """The counts of a whole worker: its supervisor's, and those of all executors that it had."""

    def __init__(self) -> None:
        self.own = Tally.create()
        self._living: set[Tally] = set()
        self._past: dict[str, float] = {}

    def open(self) -> Tally:
        """For an executor that is about to be started."""
        tally = Tally.create()
        self._living.add(tally)
        return tally

    def ended(self, tally: Tally) -> None:
        """Its executor counts no more: what it had counted is kept."""
        self._living.discard(tally)
        _sum_up(self._past, tally.read())
        tally.close()

    def read(self) -> Mapping[str, float]:
        """All of it."""
        whole = dict(self._past)
        for tally in (self.own, *self._living):
            _sum_up(whole, tally.read())
        return whole


def _sum_up(whole: dict[str, float], part: Mapping[str, float]) -> None:
    for name, value in part.items():
        before = whole.get(name, 0.0)
        whole[name] = max(before, value) if name.startswith(LATEST) else before + value
