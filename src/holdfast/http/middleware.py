"""Bounds the size of requests and adds security headers to responses."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.http.bodies import Bodies, Body, BodyTooLarge, ClientGone, NoRoom
from holdfast.http.identity import Auth, present
from holdfast.http.problems import Refused, problem
from holdfast.http.proxies import Proxy

BODY_BYTES_MAX = 1_000_000
# Of a request without a credential, and of one that begins a session.
ANONYMOUS_BYTES_MAX = 4_000
BODY_SECONDS = 10.0
QUERY_BYTES_MAX = 32_000
# Lists of 500 ids are legal.
PARAMETERS_MAX = 1_000
_CLOSE = {"Connection": "close"}
_WAIT = {"Retry-After": "1"}
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
}


class BoundsMiddleware:
    """The outermost layer of the API."""

    def __init__(self, app: ASGIApp, auth: Auth = Auth.TOKENS, proxy: Proxy | None = None) -> None:
        self._app = app
        self._auth, self._proxy = auth, proxy
        self._bodies = Bodies()

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

        detail = _too_long(scope["query_string"])
        if detail is not None:
            await problem(414, detail)(scope, receive, careful)
            return
        with self._bodies.hold() as body:
            try:
                refusal = await self._refusal(scope, receive, body)
            except ClientGone:
                return
            if refusal is None:
                await self._app(scope, _again(bytes(body.read), receive), careful)
                return
        await refusal(scope, receive, careful)

    async def _refusal(self, scope: Scope, receive: Receive, body: Body) -> Response | None:
        """Read the body; the answer where it is refused."""
        most = self._bytes_max(scope)
        try:
            await self._bodies.receive(body, receive, most, ANONYMOUS_BYTES_MAX, BODY_SECONDS)
        except TimeoutError:
            return problem(408, f"the body did not arrive within {BODY_SECONDS:g} seconds", headers=_CLOSE)
        except BodyTooLarge:
            return problem(413, f"this request has at most {most} bytes")
        except NoRoom:
            return problem(503, "too many bodies are being sent to this process", headers=_CLOSE | _WAIT)
        return None

    def _bytes_max(self, scope: Scope) -> int:
        if scope["path"].endswith("/api/session"):
            return ANONYMOUS_BYTES_MAX
        try:
            present(Request(scope), self._auth, self._proxy)
        except Refused:
            return ANONYMOUS_BYTES_MAX
        return BODY_BYTES_MAX


def _too_long(query: bytes) -> str | None:
    """What is wrong with a query that would take long to read."""
    if len(query) > QUERY_BYTES_MAX:
        return f"a query has at most {QUERY_BYTES_MAX} bytes"
    if query.count(b"&") >= PARAMETERS_MAX:
        return f"a query has at most {PARAMETERS_MAX} parameters"
    return None


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives the body in one piece, and then what else the client does."""
    first = True

    async def again() -> Message:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again
