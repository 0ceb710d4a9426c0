"""One POST: to an address that was checked, in one deadline, with an answer of bounded size.

No redirect is followed, no proxy of the environment is asked, and nothing but the whole exchange is timed: a
timeout for each read would let a receiver that sends a byte now and then hold a worker for ever (measured).
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httptools

from holdfast.webhooks.address import Lookups, Network, Place, Resolver, checked

# Of the answer so much is kept, so much is read, and its headers may take so much.
KEPT_BYTES = 4_096
BODY_BYTES_MAX = 16_384
HEAD_BYTES_MAX = 32_768
RECEIVED_BYTES_MAX = HEAD_BYTES_MAX + 4 * BODY_BYTES_MAX
IDLE_SECONDS = 15.0
AGE_SECONDS = 60.0
IDLE_MAX = 20
AGENT = "Holdfast-Webhooks/1"


class Undelivered(Exception):
    """No answer came; `code` says what went wrong, in a word."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said."""

    status: int
    retry_after: str | None
    # The beginning of its body, as text.
    head: str


class Post:
    """Posts of one process; connections are kept for a while, each to where it was checked to lead."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._lookups = Lookups()
        self._resolve = resolve or self._lookups
        self._tls = tls or ssl.create_default_context()
        self._idle: dict[tuple[bool, str, int], list[_Exchange]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def __call__(
        self, place: Place, headers: Mapping[str, str], body: bytes, deadline_seconds: float
    ) -> Answer:
        """Send it and answer what came; `Undelivered` or `AddressRefused` if nothing did."""
        request = _written(place, headers, body)
        try:
            async with asyncio.timeout(deadline_seconds):
                return await self._exchanged(place, request, deadline_seconds)
        except TimeoutError:
            raise Undelivered("timeout", f"no whole answer came in {deadline_seconds:g} s") from None

    def close(self) -> None:
        """Let the connections go."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        self._lookups.close()
        for kept in self._idle.values():
            for exchange in kept:
                exchange.abort()
        self._idle.clear()

    async def _exchanged(self, place: Place, request: bytes, deadline_seconds: float) -> Answer:
        exchange = self._kept(place)
        if exchange is not None:
            try:
                return await self._ask(place, exchange, request)
            except _ClosedUnanswered:
                # The receiver let it go while it was idle: that is no failure of this delivery.
                pass
        exchange = await self._connected(place, deadline_seconds)
        try:
            return await self._ask(place, exchange, request)
        except _ClosedUnanswered as error:
            raise Undelivered("reset", "the receiver closed the connection without an answer") from error

    async def _ask(self, place: Place, exchange: "_Exchange", request: bytes) -> Answer:
        try:
            answer = await exchange.ask(request)
        except BaseException:
            exchange.abort()
            raise
        kept = self._idle.setdefault((place.secure, place.host, place.port), [])
        if exchange.reusable and len(kept) < IDLE_MAX:
            exchange.idle_since = time.monotonic()
            kept.append(exchange)
            if self._sweeping is None:
                self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)
        else:
            exchange.abort()
        return answer

    def _kept(self, place: Place) -> "_Exchange | None":
        kept = self._idle.get((place.secure, place.host, place.port), [])
        while kept:
            exchange = kept.pop()
            if exchange.fresh():
                return exchange
            exchange.abort()
        return None

    def _sweep(self) -> None:
        """Let go of what nobody has used for a while."""
        self._sweeping = None
        for place, kept in list(self._idle.items()):
            for exchange in kept:
                if not exchange.fresh():
                    exchange.abort()
            self._idle[place] = [exchange for exchange in kept if exchange.reusable]
            if not self._idle[place]:
                del self._idle[place]
        if self._idle:
            self._sweeping = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._sweep)

    async def _connected(self, place: Place, deadline_seconds: float) -> "_Exchange":
        try:
            addresses = await checked(place, self._allowed, self._resolve)
        except LookupError as error:
            raise Undelivered("dns", str(error)) from error
        failed: OSError | None = None
        for address in addresses:
            try:
                # One that does not answer leaves time for the next.
                async with asyncio.timeout(deadline_seconds / len(addresses)):
                    _, exchange = await asyncio.get_running_loop().create_connection(
                        _Exchange,
                        str(address),
                        place.port,
                        ssl=self._tls if place.secure else None,
                        server_hostname=place.host if place.secure else None,
                    )
            except ssl.SSLCertVerificationError as error:
                raise Undelivered("tls", f"its certificate is not good: {error.verify_message}") from error
            except ssl.SSLError as error:
                raise Undelivered("tls", f"TLS failed: {error.reason or error}") from error
            except OSError as error:
                failed = error
            else:
                return exchange
        assert failed is not None, "a place has an address"
        raise Undelivered("connect", f"{place.authority} cannot be connected to: {failed}") from failed


class _ClosedUnanswered(Exception):
    """The connection ended before a byte of the answer."""


class _Exchange(asyncio.Protocol):
    """One connection: a request goes out, an answer comes in, and then perhaps another one."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.reusable = True
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Answer] | None = None
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

    async def ask(self, request: bytes) -> Answer:
        """Send a request and wait for the answer."""
        if self._transport is None or self._transport.is_closing():
            raise _ClosedUnanswered
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
            self._waiting.set_exception(_ClosedUnanswered())
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
            self._waiting.set_result(Answer(self._parser.get_status_code(), self._retry_after, head))

    def _fail(self, error: Undelivered) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self.abort()


def _written(place: Place, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [
        f"POST {place.path} HTTP/1.1",
        f"Host: {place.authority}",
        f"User-Agent: {AGENT}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Accept: */*",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("ascii") + body
