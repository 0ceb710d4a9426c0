"""Bounds streamed responses: each occupies a slot of its token and ends in time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from holdfast.http.problems import Refused, answer_for
from holdfast.http.quotas import OpenLimit


class LimitedStream(StreamingResponse):
    """A stream within the slots of a token; refused where it has no slot left, cut off after its deadline.

    The server's protocol cuts off clients that do not read (`http/protocol.py`).
    """

    def __init__(
        self,
        content: AsyncIterator[str],
        slots: OpenLimit,
        token: str,
        *,
        status_code: int = 200,
        media_type: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(content, status_code, media_type=media_type, headers=headers)
        self._slots, self._token = slots, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it while it has a slot."""
        with ExitStack() as held:
            try:
                held.enter_context(self._slots.hold(self._token))
            except Refused as refused:
                await answer_for(refused)(scope, receive, send)
                return
            # uvicorn closes the connection of an answer that is not complete.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._slots.seconds):
                    await super().__call__(scope, receive, send)
