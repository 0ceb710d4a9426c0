"""Counts in memory that outlives its writer, so that what a killed process had counted is not lost.

One process writes, the one above it reads. A record is a name and a number; names are never taken back.
Beside them stands what the process is about to count, once it hears that it was written: if it dies before,
the one above asks the database.
"""

import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

_HEAD = struct.Struct("<q")
_NAME_BYTES = 248
_RECORD_BYTES = 256
_VALUE = struct.Struct("<d")
RECORDS_MAX = 8_192
_PENDING_AT = _HEAD.size + RECORDS_MAX * _RECORD_BYTES
_PENDING_BYTES = 262_144
_SIZE = _PENDING_AT + _HEAD.size + _PENDING_BYTES
# Begins the names of figures that are no sums: of several processes the largest one counts.
LATEST = "@"


class Tally:
    """The counts of one process, by name."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._places: dict[str, int] = {}
        self._values: dict[str, float] = {}

    @classmethod
    def create(cls) -> "Tally":
        """New memory, to be inherited by a child under its descriptor; what is not written takes no room."""
        descriptor = os.memfd_create("holdfast-tally", 0)
        os.ftruncate(descriptor, _SIZE)
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

    def about_to(self, text: str) -> None:
        """Write what will be counted if it lands; nothing once that is known. Too much of it is left out."""
        written = text.encode()
        if len(written) > _PENDING_BYTES:
            written = b""
        start = _PENDING_AT + _HEAD.size
        _HEAD.pack_into(self._memory, _PENDING_AT, 0)
        self._memory[start : start + len(written)] = written
        _HEAD.pack_into(self._memory, _PENDING_AT, len(written))

    def pending(self) -> str:
        """What was about to be counted."""
        (length,) = _HEAD.unpack_from(self._memory, _PENDING_AT)
        start = _PENDING_AT + _HEAD.size
        return self._memory[start : start + length].decode()

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


class Pending(NamedTuple):
    """Verdicts that may have landed, alike and of one claim, and the count that they belong to."""

    fence: int
    move: str
    name: str
    ids: Sequence[str]

    def write(self) -> str:
        """As a line."""
        return f"{' '.join(self.ids)}\t{self.fence}\t{self.move}\t{quote(self.name)}"

    @classmethod
    def read(cls, line: str) -> "Pending":
        """From a line."""
        ids, fence, move, name = line.split("\t")
        return cls(int(fence), move, unquote(name), ids.split(" "))


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

    def ended(self, tally: Tally) -> Sequence["Pending"]:
        """Its executor counts no more: what it had counted is kept. Answers what it was about to count."""
        self._living.discard(tally)
        _sum_up(self._past, tally.read())
        pending = [Pending.read(line) for line in tally.pending().split("\n") if line]
        tally.close()
        return pending

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
