"""Messages between the supervisor and its executors: JSON lines over a socket pair."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Order(StrEnum):
    """From the supervisor."""

    DRAIN = "drain"  # start nothing more, finish what runs, then leave
    ABORT = "abort"  # give everything back now, and leave
    STOP = "stop"  # the lease is lost: stop the handlers, say what had ended, leave
    WAKE = "wake"  # there is work
    RECONCILE = "reconcile"  # look for claims in your name that you do not know


class Report(StrEnum):
    """From an executor."""

    READY = "ready"  # registered, and about to claim
    RECYCLE = "recycle"  # it has done its share, or lived its time
    DELAYED = "delayed"  # a statement takes long
    COUNTS = "counts"  # what it has counted since its last report


Word: TypeAlias = Order | Report


@dataclass(frozen=True, slots=True)
class Message:
    """One line."""

    word: Word
    values: dict[str, object] = field(default_factory=dict)


class Channel:
    """One end of the line."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        """Begin to listen; payloads are small, a list of kinds may not be."""
        self._reader, self._writer = await asyncio.open_connection(sock=self._end, limit=2**24)

    def say(self, word: Word, **values: object) -> None:
        """Send a line, unless nobody is there any more: whoever left is noticed elsewhere."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(json.dumps({"word": word, **values}).encode() + b"\n")

    async def hear(self) -> AsyncIterator[Message]:
        """Every line until the other end is closed."""
        assert self._reader is not None, "the channel is open"
        while True:
            try:
                line = await self._reader.readline()
            except ConnectionError:
                return
            if not line.endswith(b"\n"):
                return
            values = json.loads(line)
            yield Message(_word(values.pop("word")), values)

    async def leave(self) -> None:
        """Hang up once everything that was said has been sent."""
        self.close()
        if self._writer is not None:
            with suppress(ConnectionError):
                await self._writer.wait_closed()

    def close(self) -> None:
        """Hang up."""
        if self._writer is not None:
            self._writer.close()
        else:
            self._end.close()


def _word(text: str) -> Word:
    return Order(text) if text in set(Order) else Report(text)
