"""Sends one POST to a checked address within one deadline and reads a bounded answer.

No redirect is followed, no proxy of the environment is asked, and nothing but the whole exchange is timed: a
timeout for each read would let a receiver that sends a byte now and then hold a worker for ever (measured).
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence

from holdfast.webhooks.address import Network, Place, Resolver, SystemResolver, checked
from holdfast.webhooks.connection import IDLE_SECONDS, ClosedUnanswered, Exchange, HttpAnswer, Undelivered

IDLE_MAX = 20
AGENT = "Holdfast-Webhooks/1"


class Post:
    """Posts of one process; connections are kept for a while, each to where it was checked to lead."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._resolver = SystemResolver()
        self._resolve = resolve or self._resolver
        self._tls = tls or ssl.create_default_context()
        self._idle: dict[tuple[bool, str, int], list[Exchange]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def __call__(
        self, place: Place, headers: Mapping[str, str], body: bytes, deadline_seconds: float
    ) -> HttpAnswer:
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
        self._resolver.close()
        for kept in self._idle.values():
            for exchange in kept:
                exchange.abort()
        self._idle.clear()

    async def _exchanged(self, place: Place, request: bytes, deadline_seconds: float) -> HttpAnswer:
        exchange = self._kept(place)
        if exchange is not None:
            try:
                return await self._ask(place, exchange, request)
            except ClosedUnanswered:
                # The receiver let it go while it was idle: that is no failure of this delivery.
                pass
        exchange = await self._connected(place, deadline_seconds)
        try:
            return await self._ask(place, exchange, request)
        except ClosedUnanswered as error:
            raise Undelivered("reset", "the receiver closed the connection without an answer") from error

    async def _ask(self, place: Place, exchange: "Exchange", request: bytes) -> HttpAnswer:
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

    def _kept(self, place: Place) -> "Exchange | None":
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

    async def _connected(self, place: Place, deadline_seconds: float) -> "Exchange":
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
                        Exchange,
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
