"""The flight record: what an executor has started, in memory that outlives it.

Each slot holds the task's id, its fence and the moment by which it must have ended (CLOCK_MONOTONIC,
which all processes of a machine share). The executor writes a slot before the handler starts and
clears it when it has ended; the supervisor reads. So the supervisor knows what a dead executor was
doing, and sees a deadline pass even while a handler holds the GIL. Writing costs under a microsecond.
"""

import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

# The fence comes last, and alone says that a slot is in use: it is written last and cleared first, so that
# whoever reads meanwhile never sees a task with half a deadline.
_SLOT = struct.Struct("<16sdq")
_FENCE = struct.Struct("<q")
_FENCE_AT = _SLOT.size - _FENCE.size
# How many items of bulk calls are in flight, and how far into their part of the memory they reach.
_HEAD = struct.Struct("<qq")
# Items of bulk calls in flight at one time, beside the slots: memory that is not used costs nothing.
ITEMS_MAX = 16_384


@dataclass(frozen=True, slots=True)
class Flight:
    """One task that was started and has not ended."""

    task_id: str
    fence: int
    deadline_at: float
    # One of the items of a bulk call.
    item: bool = False


class FlightRecord:
    """Slots in shared memory, one per task that may run at once; after them those of items of bulk calls."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self.slots = slots
        self._memory = mmap.mmap(descriptor, _size(slots))
        self._items = 0
        self._reach = 0

    @classmethod
    def create(cls, slots: int) -> "FlightRecord":
        """New memory, to be inherited by a child under its descriptor."""
        descriptor = os.memfd_create("holdfast-flight", 0)
        os.ftruncate(descriptor, _size(slots))
        return cls(descriptor, slots)

    def start(self, slot: int, task_id: str, fence: int, deadline_at: float) -> None:
        """A handler is about to be called."""
        _SLOT.pack_into(
            self._memory,
            _HEAD.size + slot * _SLOT.size,
            bytes.fromhex(task_id.replace("-", "")),
            deadline_at,
            fence,
        )

    def end(self, slot: int) -> None:
        """It has come back."""
        _FENCE.pack_into(self._memory, _HEAD.size + slot * _SLOT.size + _FENCE_AT, 0)

    def start_many(self, items: Sequence[tuple[int, str, int]], deadline_at: float) -> None:
        """A bulk handler is about to be called with these: slot, task and fence."""
        self._items += len(items)
        self._reach = max(self._reach, *(slot + 1 - self.slots for slot, _, _ in items))
        _HEAD.pack_into(self._memory, 0, self._items, self._reach)
        for slot, task_id, fence in items:
            self.start(slot, task_id, fence, deadline_at)

    def end_many(self, slots: Sequence[int]) -> None:
        """It has come back."""
        for slot in slots:
            self.end(slot)
        self._items -= len(slots)
        if not self._items:
            self._reach = 0
        _HEAD.pack_into(self._memory, 0, self._items, self._reach)

    def flying(self) -> list[Flight]:
        """What was started and has not ended."""
        items, reach = _HEAD.unpack_from(self._memory, 0)
        slots = self.slots + (reach if items else 0)
        read = self._memory[_HEAD.size : _HEAD.size + slots * _SLOT.size]
        return [
            Flight(str(UUID(bytes=id_)), fence, deadline, slot >= self.slots)
            for slot, (id_, deadline, fence) in enumerate(_SLOT.iter_unpack(read))
            if fence
        ]

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
        os.close(self.descriptor)


def _size(slots: int) -> int:
    return _HEAD.size + (slots + ITEMS_MAX) * _SLOT.size
