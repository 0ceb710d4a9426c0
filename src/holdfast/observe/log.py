"""Writes events as JSON log lines.

    {"at": "…", "event": "task.completed", "task": "0190…", "kind": "mail.send", "queue": "default", …}

A group of events is one write. A file takes every write at once. A pipe or a terminal may not: whoever
reads it could stop, and with it the renewal of a lease. So there a thread writes, and what it cannot write
in time is dropped and counted.
"""

import os
import queue
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.core.events import Event
from holdfast.observe.log_lines import lines

GROUPS_MAX = 2_000
CHARACTERS_MAX = 32_000_000
# What a pipe takes at once is 4,096 bytes: fewer characters, because some take more than one.
PIECE_CHARACTERS = 3_500


class LogLines:
    """A listener that writes to a descriptor, standard output unless told otherwise."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._dropped = 0
        self._put_characters = self._written_characters = 0
        self._waiting: queue.Queue[str] | None = None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self._waiting = queue.Queue(GROUPS_MAX)
            threading.Thread(target=self._write_on, daemon=True, name="holdfast log").start()

    def __call__(self, event: Event, /) -> None:
        """Write the lines of one event, or leave them to the thread."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        # The only control character that JSON leaves as it is.
        text = "".join(lines(f'{{"at": "{at}", "event": ', event)).replace("\x7f", "\\u007f")
        if self._waiting is None:
            self._write(text)
            return
        if self._put_characters - self._written_characters > CHARACTERS_MAX:
            self._dropped += text.count("\n")
            return
        try:
            self._waiting.put_nowait(text)
            self._put_characters += len(text)
        except queue.Full:
            self._dropped += text.count("\n")

    def flush(self, seconds: float = 1.0) -> None:
        """Give the thread so long to write what is left."""
        until = time.monotonic() + seconds
        while self._waiting is not None and self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)

    def _write_on(self) -> None:
        assert self._waiting is not None, "there is a queue where there is a thread"
        while True:
            text = self._waiting.get()
            for piece in _pieces(text):
                self._write(piece)
            self._written_characters += len(text)
            self._waiting.task_done()
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                at = datetime.now(UTC).isoformat(timespec="milliseconds")
                self._write(f'{{"at": "{at}", "event": "log.dropped", "lines": {dropped}}}\n')

    def _write(self, text: str) -> None:
        data = text.encode()
        # Whoever read this may have gone, or the disk be full: that is no reason to stop working.
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


def _pieces(text: str) -> Iterator[str]:
    """Whole lines, in pieces that a pipe takes at once: other processes write to the same one."""
    begin = 0
    while begin < len(text):
        end = len(text)
        if end - begin > PIECE_CHARACTERS:
            end = text.rfind("\n", begin, begin + PIECE_CHARACTERS) + 1 or text.find("\n", begin) + 1 or end
        yield text[begin:end]
        begin = end
