"""HTTP/1.1 connections with deadlines and a limit on their number.

uvicorn waits without end for the rest of a request, and for a client to read. Here a request has a deadline
for its headers and one for its body, and a client that does not read what it is sent is cut off. Where there
are more connections than the process takes, those whose client has to act are closed, the oldest first, so
that half-sent requests cannot keep others out.
"""

import asyncio
import time
from collections import OrderedDict
from enum import StrEnum
from typing import ClassVar, TypeAlias

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

CONNECTIONS_MAX = 2_000
HEADERS_SECONDS = 10.0
# What arrives as a body is answered with 408 by `http/middleware.py`; this is for what it does not read.
BODY_SECONDS = 12.0
# For a client that reads nothing of what it is sent.
SEND_SECONDS = 15.0
# A connection between two requests counts as so much younger than one that has sent half a request.
IDLE_BONUS_SECONDS = 1.0


class Phase(StrEnum):
    """Whose turn it is on a connection, and for what."""

    IDLE = "idle"
    HEADERS = "headers"
    BODY = "body"
    ANSWER = "answer"
    UNREAD = "unread"


PHASE_SECONDS = {Phase.IDLE: HEADERS_SECONDS, Phase.HEADERS: HEADERS_SECONDS, Phase.BODY: BODY_SECONDS}


Table: TypeAlias = "OrderedDict[LimitedProtocol, None]"


class Connections:
    """The connections of one process; among them those whose client has to act, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: set[LimitedProtocol] = set()
        self._half_sent: Table = OrderedDict()
        self._idle: Table = OrderedDict()

    def add(self, new: "LimitedProtocol") -> None:
        """One more; where it is one too many, another ends for it, or else itself."""
        self._all.add(new)
        if len(self._all) > self._most:
            oldest = self._oldest() or new
            self.remove(oldest)
            oldest.transport.abort()

    def remove(self, gone: "LimitedProtocol") -> None:
        """One has ended."""
        self._all.discard(gone)
        self._half_sent.pop(gone, None)
        self._idle.pop(gone, None)

    def note(self, changed: "LimitedProtocol") -> None:
        """The turn on a connection has changed."""
        self._half_sent.pop(changed, None)
        self._idle.pop(changed, None)
        if changed in self._all and changed.phase is not Phase.ANSWER:
            table = self._idle if changed.phase is Phase.IDLE else self._half_sent
            table[changed] = None

    def _oldest(self) -> "LimitedProtocol | None":
        half_sent, idle = next(iter(self._half_sent), None), next(iter(self._idle), None)
        if half_sent is None or idle is None:
            return half_sent or idle
        return half_sent if half_sent.since < idle.since + IDLE_BONUS_SECONDS else idle

    def sweep(self) -> None:
        """End those whose client has not acted in time."""
        now = time.monotonic()
        for connection in [one for one in self._all if one.is_overdue(now)]:
            self.remove(connection)
            connection.transport.abort()


class LimitedProtocol(H11Protocol):
    """A connection that notes whose turn it is. Subclasses name the connections of their process."""

    connections_of_process: ClassVar[Connections]

    phase = Phase.HEADERS
    since = 0.0
    _unsent = 0
    _sent_at = 0.0

    def is_overdue(self, now: float) -> bool:
        """Whether its client has had its time."""
        unsent = self.transport.get_write_buffer_size()
        if unsent:
            if not self._unsent or unsent < self._unsent:
                self._sent_at = now
            self._unsent = unsent
            return now - self._sent_at > SEND_SECONDS
        self._unsent = 0
        seconds = PHASE_SECONDS.get(self.phase)
        return seconds is not None and now - self.since > seconds

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected, and has to send a request."""
        super().connection_made(transport)
        self.since = time.monotonic()
        self.connections_of_process.add(self)
        self.connections_of_process.note(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self.connections_of_process.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """An answer was handed to the transport; the next request may follow."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is sent to."""
        super().pause_writing()
        self._note()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._note()

    def _note(self) -> None:
        phase = self._phase()
        if phase is not self.phase:
            self.phase = phase
            self.since = time.monotonic()
            self.connections_of_process.note(self)

    def _phase(self) -> Phase:
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.timeout_keep_alive_task is not None:
            return Phase.IDLE
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return Phase.HEADERS
        return Phase.UNREAD if self.flow.write_paused else Phase.ANSWER
