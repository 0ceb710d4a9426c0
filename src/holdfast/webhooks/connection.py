"""One HTTP connection to a receiver."""

import asyncio
import time
from dataclasses import dataclass

import httptools

# Of the answer so much is kept, so much is read, and its headers may take so much.
KEPT_BYTES = 4_096
BODY_BYTES_MAX = 16_384
HEAD_BYTES_MAX = 32_768
RECEIVED_BYTES_MAX = HEAD_BYTES_MAX + 4 * BODY_BYTES_MAX
IDLE_SECONDS = 15.0
AGE_SECONDS = 60.0


class Undelivered(Exception):
    """No answer came; `code` says what went wrong, in a word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a receiver said."""

    status: int
    retry_after: str | None
    # The beginning of its body, as text.
    head: str


class ClosedUnanswered(Exception):
    """The connection ended before a byte of the answer."""


class Exchange(asyncio.Protocol):
    """One connection: a request goes out, an answer comes in, and then perhaps another one."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = True
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[HttpAnswer] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._since = time.monotonic()
        self._begin()

    def fresh(self) -> bool:
        """Whether it may be used again: names change their addresses."""
        now = time.monotonic()
        return self.reusable and now - self.idle_since < IDLE_SECONDS and now - self._since < AGE_SECONDS

    def _begin(self) -> None:
        self._in_head = True
        self._until_close = True
        self._retry_after: str | None = None
        self._body = b""
        self._body_bytes = 0

    async def ask(self, request: bytes) -> HttpAnswer:
        """Send a request and wait for the answer."""
        if self._transport is None or self._transport.is_closing():
            raise ClosedUnanswered
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._begin()
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def abort(self) -> None:
        """Let it go at once."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of the answer; more than was asked for is not listened to."""
        if self._waiting is None or self._waiting.done():
            self.abort()
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Undelivered("protocol", f"what it answered is not HTTP/1: {error}"))
            return
        if self._in_head and self._received > HEAD_BYTES_MAX:
            self._fail(Undelivered("protocol", f"its headers are longer than {HEAD_BYTES_MAX} bytes"))
        elif self._body_bytes > BODY_BYTES_MAX:
            # Enough is known; the rest is not read.
            self._answer(reusable=False)
        elif self._received > RECEIVED_BYTES_MAX:
            self._fail(Undelivered("protocol", f"its answer is longer than {RECEIVED_BYTES_MAX} bytes"))

    def eof_received(self) -> None:
        """The receiver says no more."""

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self.reusable = False
        if self._waiting is None or self._waiting.done():
            return
        if not self._in_head and self._until_close and error is None:
            self._answer(reusable=False)
        elif self._received == 0:
            self._waiting.set_exception(ClosedUnanswered())
        else:
            self._fail(Undelivered("reset", "the connection was reset in the middle of the answer"))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        lower = name.lower()
        if lower == b"retry-after":
            self._retry_after = value.decode("latin-1")[:100]
        elif lower in (b"content-length", b"transfer-encoding"):
            self._until_close = False

    def on_headers_complete(self) -> None:
        """Its body follows."""
        self._in_head = False

    def on_body(self, data: bytes) -> None:
        """Some of the body."""
        self._body_bytes += len(data)
        if len(self._body) < KEPT_BYTES:
            self._body += data[: KEPT_BYTES - len(self._body)]

    def on_message_complete(self) -> None:
        """The whole answer is there, unless it was only to say that one will come."""
        if self._parser.get_status_code() < 200:
            self._begin()
            return
        self._answer(reusable=self._parser.should_keep_alive())

    def _answer(self, *, reusable: bool) -> None:
        self.reusable = self.reusable and reusable
        if self._waiting is not None and not self._waiting.done():
            head = self._body.decode("utf-8", "replace").replace("\0", "\ufffd")
            self._waiting.set_result(HttpAnswer(self._parser.get_status_code(), self._retry_after, head))

    def _fail(self, error: Undelivered) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.abort()
