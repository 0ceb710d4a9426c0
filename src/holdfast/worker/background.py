"""Runs background coroutines and reports what they raise."""

import asyncio
from collections.abc import Callable, Coroutine


class Background:
    """The background coroutines of one process, kept until they are done."""

    def __init__(self, failed: Callable[[BaseException], None]) -> None:
        self._failed = failed
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None]) -> None:
        """Start one without waiting for it."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def done(self, seconds: float) -> None:
        """Wait for the running ones, at most so long."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)
