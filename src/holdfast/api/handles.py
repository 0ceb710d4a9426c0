"""A handle to an enqueued task: read its state, wait for its result, cancel it."""

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.connections import AppConnections
from holdfast.core.errors import ResultTimeout, TaskCancelled, TaskFailed
from holdfast.core.outcome import Duration, as_seconds
from holdfast.core.state import State
from holdfast.core.task import TaskView
from holdfast.store.operate import Operator

_LOOK_SECONDS_MIN = 0.02
_LOOK_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True)
class TaskHandle:
    """One task; `created` is false where a key stood for an earlier one."""

    id: str
    created: bool
    desk: AppConnections = field(repr=False, compare=False)
    operator: Operator = field(repr=False, compare=False)

    async def status(self) -> TaskView:
        """The task as it is now."""
        return await self.desk.use(lambda conn: self.operator.show(conn, self.id))

    async def result(self, timeout: Duration | None = None) -> Any:
        """Wait for the end and answer the result; a failure, a cancellation or the timeout is raised."""
        until = None if timeout is None else time.monotonic() + as_seconds(timeout)
        pause = _LOOK_SECONDS_MIN
        while True:
            view = await self.status()
            match view.state:
                case State.COMPLETED:
                    return None if view.result is None else json.loads(view.result)
                case State.FAILED:
                    why = f"{view.error.code}: {view.error.message}" if view.error else "no error was kept"
                    raise TaskFailed(self.id, f"has failed ({view.dead_reason}) with {why}")
                case State.CANCELLED:
                    raise TaskCancelled(self.id, f"was cancelled: {view.mark_reason or 'no reason given'}")
                case State.QUEUED | State.RUNNING | State.PAUSED:
                    pass
            if until is not None and time.monotonic() + pause > until:
                raise ResultTimeout(
                    self.id,
                    f"is still {view.state} after {as_seconds(timeout or 0):g} s: is a worker running?",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LOOK_SECONDS_MAX)

    async def wake(self) -> bool:
        """Poll it now rather than at its time, if it has snoozed; whether there was anything to wake."""
        return bool(await self.desk.use(lambda conn: self.operator.wake(conn, [self.id])))

    async def cancel(self, reason: str = "cancelled by its caller") -> State:
        """Cancel it if it waits, ask it to stop if it runs; answers the state it is in now."""
        return await self.desk.use(lambda conn: self.operator.cancel(conn, self.id, reason))
