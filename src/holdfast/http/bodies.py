"""Limits the memory of one process that request bodies use together."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from starlette.types import Receive

# Together, where they are longer than that of a request without a credential.
BODIES_BYTES_MAX = 64_000_000


class ClientGone(Exception):
    """The client has gone before its request was whole."""


class BodyTooLarge(Exception):
    """The body is longer than this request's may be."""


class NoRoom(Exception):
    """The process holds as many bytes of bodies as it may."""


class Body:
    """One body, and the deadline by which the rest of it must arrive."""

    def __init__(self) -> None:
        self.read = bytearray()
        self.counted = 0
        self.deadline: asyncio.Timeout | None = None


class Bodies:
    """What counts against the budget; where it is spent, the oldest body that is not whole ends."""

    def __init__(self, most: int = BODIES_BYTES_MAX) -> None:
        self._most = most
        self._held = 0
        self._half_sent: OrderedDict[Body, None] = OrderedDict()

    @contextmanager
    def hold(self) -> Iterator[Body]:
        """A body, from its first byte until its request has been answered."""
        body = Body()
        self._half_sent[body] = None
        try:
            yield body
        finally:
            self._release(body)

    async def receive(self, body: Body, receive: Receive, bytes_max: int, small: int, seconds: float) -> None:
        """Read the body to its end; the first `small` bytes of each body are not counted."""
        async with asyncio.timeout(seconds) as body.deadline:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGone
                body.read += message.get("body", b"")
                if len(body.read) > bytes_max:
                    raise BodyTooLarge
                self._count(body, max(0, len(body.read) - small))
                if not message.get("more_body", False):
                    break
        self._half_sent.pop(body, None)

    def _count(self, body: Body, counted: int) -> None:
        self._held += counted - body.counted
        body.counted = counted
        while self._held > self._most and counted:
            oldest = next((one for one in self._half_sent if one.counted), None)
            if oldest is None or oldest is body:
                raise NoRoom
            self._release(oldest)
            if oldest.deadline is not None:
                with suppress(RuntimeError):
                    oldest.deadline.reschedule(asyncio.get_running_loop().time())

    def _release(self, body: Body) -> None:
        self._held -= body.counted
        body.counted = 0
        self._half_sent.pop(body, None)
