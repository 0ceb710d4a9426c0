"""Runs background coroutines and reports what they raise."""

import asyncio
from collections.abc import Callable, Coroutine


class Errands:
    """The errands of one process, kept until they are done."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._going: set[asyncio.Task[None]] = set()

    def send(self, work: Coroutine[None, None, None]) -> None:
        """Begin one, and do not wait for it."""
        task = asyncio.ensure_future(work)
        self._going.add(task)
        task.add_done_callback(self._back)

    async def done(self, seconds: float) -> None:
        """Wait for those under way, for so long at most."""
        if self._going:
            await asyncio.wait(self._going, timeout=seconds)

    def _back(self, task: "asyncio.Task[None]") -> None:
        self._going.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
