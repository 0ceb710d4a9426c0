"""What comes in is bounded before anybody reads it, and what goes out tells browsers to be careful."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.http.problems import problem

BODY_BYTES_MAX = 1_000_000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}


class Bounds:
    """The outermost layer of the API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in what is small enough, and mark what goes out."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        body = await _body(receive)
        if body is None:
            await problem(413, f"a request has at most {BODY_BYTES_MAX} bytes")(scope, receive, careful)
            return
        first = True

        async def again() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await self._app(scope, again, careful)


async def _body(receive: Receive) -> bytes | None:
    """The whole body, which is small; nothing where it is too large, or whoever sent it has gone."""
    parts: list[bytes] = []
    read = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b""
        parts.append(message.get("body", b""))
        read += len(parts[-1])
        if read > BODY_BYTES_MAX:
            return None
        if not message.get("more_body", False):
            return b"".join(parts)
