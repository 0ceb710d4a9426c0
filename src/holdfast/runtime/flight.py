"""The flight record: what an executor has started, in memory that outlives it.

Each slot holds the task's id, its fence and the moment by which it must have ended (CLOCK_MONOTONIC,
which all processes of a machine share). The executor writes a slot before the handler starts and
clears it when it has ended; the supervisor reads. So the supervisor knows what a dead executor was
doing, and sees a deadline pass even while a handler holds the GIL. Writing costs under a microsecond.
"""

import mmap
import os
import struct
from dataclasses import dataclass
from uuid import UUID

# The fence comes last, and alone says that a slot is in use: it is written last and cleared first, so that
# whoever reads meanwhile never sees a task with half a deadline.
_SLOT = struct.Struct("<16sdq")
_FENCE = struct.Struct("<q")
_FENCE_AT = _SLOT.size - _FENCE.size


@dataclass(frozen=True, slots=True)
class Flight:
    """One task that was started and has not ended."""

    task_id: str
    fence: int
    deadline_at: float


class FlightRecord:
    """A fixed number of slots in shared memory, one per task that may run at once."""

    def __init__(self, descriptor: int, slots: int) -> None:
        self.descriptor = descriptor
        self.slots = slots
        self._memory = mmap.mmap(descriptor, slots * _SLOT.size)

    @classmethod
    def create(cls, slots: int) -> "FlightRecord":
        """New memory, to be inherited by a child under its descriptor."""
        descriptor = os.memfd_create("holdfast-flight", 0)
        os.ftruncate(descriptor, slots * _SLOT.size)
        return cls(descriptor, slots)

    def start(self, slot: int, task_id: str, fence: int, deadline_at: float) -> None:
        """A handler is about to be called."""
        _SLOT.pack_into(
            self._memory, slot * _SLOT.size, bytes.fromhex(task_id.replace("-", "")), deadline_at, fence
        )

    def end(self, slot: int) -> None:
        """It has come back."""
        _FENCE.pack_into(self._memory, slot * _SLOT.size + _FENCE_AT, 0)

    def flying(self) -> list[Flight]:
        """What was started and has not ended."""
        return [
            Flight(str(UUID(bytes=id_)), fence, deadline)
            for id_, deadline, fence in _SLOT.iter_unpack(self._memory[:])
            if fence
        ]

    def close(self) -> None:
        """Let the memory go."""
        self._memory.close()
        os.close(self.descriptor)
