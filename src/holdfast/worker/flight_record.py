"""The flight record: tasks that an executor has started, in memory that survives its death.

Each entry holds a task's id, its fence, the moment by which its handler must have ended (CLOCK_MONOTONIC,
which all processes of a machine share) and how it runs. An entry is *running* from before the handler starts,
*ended* once the handler has ended, and free again once the database has acknowledged the outcome. The
executor writes and the supervisor reads. So the supervisor knows what a dead executor was running, and which
handlers had ended without their outcome being written; and it sees a deadline pass even while a handler
holds the GIL. Each write costs under a microsecond.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

# The fence comes last, and alone says that an entry is in use: it is written last and cleared first, so that
# whoever reads meanwhile never sees a task with half a deadline. It is negative once the handler has ended.
_ENTRY = struct.Struct("<16sdqq")
_FENCE = struct.Struct("<q")
_FENCE_AT = _ENTRY.size - _FENCE.size
# How far into the memory the entries in use reach.
_HEAD = struct.Struct("<q")
# Items of bulk calls that run at one time, beside the slots.
ITEMS_MAX = 16_384
# An executor claims no more while so many outcomes wait to be written.
UNSETTLED_MAX = 4_096
# Room for every entry that can still be used: running items, and tasks that were claimed and not started.
# Memory that is not used costs nothing.
_ROOM = 2 * ITEMS_MAX + 2 * UNSETTLED_MAX


class RunMode(IntEnum):
    """How a task runs."""

    IN_PROCESS = 0
    # One of the items of a bulk call.
    BULK_ITEM = 1
    # In a process of its own.
    OWN_PROCESS = 2


@dataclass(frozen=True, slots=True)
class Flight:
    """One task that was started and whose outcome is not known to be written."""

    task_id: str
    fence: int
    deadline_at: float
    how: RunMode = RunMode.IN_PROCESS
    # Whether its handler has ended.
    ended: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """What the claim is known by."""
        return self.task_id, self.fence


class FlightRecord:
    """The entries of one executor in shared memory."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self.slots = slots
        self._memory = mmap.mmap(descriptor, _size(slots))
        self._offsets: dict[tuple[str, int], int] = {}
        # Entries that were used and are free again; past `_reach` all are free.
        self._free: list[int] = []
        self._reach = 0

    @classmethod
    def create(cls, slots: int) -> "FlightRecord":
        """New memory, to be inherited by a child under its descriptor."""
        descriptor = os.memfd_create("holdfast-flight", 0)
        os.ftruncate(descriptor, _size(slots))
        return cls(descriptor, slots)

    def start(self, task_id: str, fence: int, deadline_at: float, how: RunMode = RunMode.IN_PROCESS) -> None:
        """A handler is about to be called; for an item of a bulk call, perhaps once more."""
        offset = self._offsets.get((task_id, fence))
        if offset is None:
            offset = self._offsets[task_id, fence] = self._take()
        _ENTRY.pack_into(
            self._memory, offset, bytes.fromhex(task_id.replace("-", "")), deadline_at, how, fence
        )

    def end(self, task_id: str, fence: int) -> None:
        """The handler has ended; its outcome is not written yet."""
        offset = self._offsets.get((task_id, fence))
        if offset is not None:
            _FENCE.pack_into(self._memory, offset + _FENCE_AT, -fence)

    def clear(self, keys: Iterable[tuple[str, int]]) -> None:
        """These are settled, or were not started after all."""
        for key in keys:
            offset = self._offsets.pop(key, None)
            if offset is not None:
                _FENCE.pack_into(self._memory, offset + _FENCE_AT, 0)
                self._free.append(offset)
        if not self._offsets and self._reach:
            self._free.clear()
            self._extend(0)

    def entries(self) -> list[Flight]:
        """What was started and is not known to be settled."""
        return [_flight(*entry) for entry in self._read() if entry[-1]]

    def running(self) -> list[Flight]:
        """Entries whose handler still runs; called often, so the ended ones are not decoded."""
        return [_flight(*entry) for entry in self._read() if entry[-1] > 0]

    def _read(self) -> Iterator[tuple[bytes, float, int, int]]:
        (reach,) = _HEAD.unpack_from(self._memory, 0)
        return _ENTRY.iter_unpack(self._memory[_HEAD.size : _HEAD.size + reach * _ENTRY.size])

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
        os.close(self.descriptor)

    def _take(self) -> int:
        """The place of a free entry, the lowest ones first."""
        if self._free:
            return self._free.pop()
        self._extend(self._reach + 1)
        return _HEAD.size + (self._reach - 1) * _ENTRY.size

    def _extend(self, reach: int) -> None:
        assert reach <= self.slots + _ROOM, "fewer than that are held at once"
        self._reach = reach
        _HEAD.pack_into(self._memory, 0, reach)


def _flight(id_: bytes, deadline: float, how: int, fence: int) -> Flight:
    return Flight(str(UUID(bytes=id_)), abs(fence), deadline, RunMode(how), fence < 0)


def _size(slots: int) -> int:
    return _HEAD.size + (slots + _ROOM) * _ENTRY.size
