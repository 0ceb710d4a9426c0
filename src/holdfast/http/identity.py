"""Authenticates a request before it takes a pooled connection."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from enum import StrEnum

from starlette.requests import Request

from holdfast.db.connect import Conn
from holdfast.http.origin import refuse_strangers
from holdfast.http.problems import Refused
from holdfast.http.proxies import Proxy
from holdfast.ops.credentials import Credential, Credentials, of_cookie, of_token
from holdfast.ops.tokens import WITHOUT_AUTHENTICATION, Bearer, Role

ANYBODY = Bearer("", WITHOUT_AUTHENTICATION, Role.ADMIN)
LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::[0-9]{1,5})?", re.IGNORECASE)
COOKIE = "__Host-holdfast"
KNOWN_MAX = 10_000


class Auth(StrEnum):
    """How whoever asks is known."""

    TOKENS = "tokens"
    NONE = "none"
    PROXY = "proxy"


def token_in(request: Request, auth: Auth) -> str | None:
    """The token in a request's `Authorization` header, where the API takes one."""
    scheme, _, written = request.headers.get("authorization", "").partition(" ")
    written = written.strip()
    if auth is Auth.NONE or scheme.lower() != "bearer":
        return None
    # What a proxy sends for itself, such as a token of its own identity provider, is none of ours.
    return written if auth is Auth.TOKENS or written.startswith("hf_") else None


def present(request: Request, auth: Auth, proxy: Proxy | None) -> Credential | Bearer:
    """What a request presents, without the database: a credential to look up, or somebody known already.

    A request without a credential, or with one that cannot be any, is refused here.
    """
    written = token_in(request, auth)
    if written is not None:
        if (token := of_token(written)) is None:
            raise unknown()
        return token
    # Whatever else a browser sends by itself: so it must be seen who began it.
    refuse_strangers(request)
    if auth is Auth.NONE:
        # As it was sent: without one, an address would be made up of the server's own.
        hosts = request.headers.getlist("host")
        if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:
            # A site whose name leads to this machine for a moment.
            name = hosts[0][:100] if hosts else "a request without a host"
            raise Refused(403, f"without authentication it is for this machine alone, not for {name}")
        return ANYBODY
    if proxy is not None:
        return proxy.bearer(request)
    if (session := of_cookie(request.cookies.get(COOKIE, ""))) is None:
        raise unknown()
    return session


def unknown() -> Refused:
    """The refusal of a request without a good credential."""
    return Refused(
        401,
        "send a good token: Authorization: Bearer hf_…; `holdfast token create` makes one",
        {"WWW-Authenticate": "Bearer"},
    )


class Lookups:
    """Whose credentials are: those not seen before are looked up together, one statement at a time.

    Guessing therefore takes at most one connection of the pool, however many guess. What was found good is
    remembered only to know whose rate and share a request counts against. Each request still looks at its own
    credential, so that a revoked token is refused at once.
    """

    def __init__(
        self, credentials: Credentials, connection: Callable[[], AbstractAsyncContextManager[Conn]]
    ) -> None:
        self._credentials = credentials
        self._connection = connection
        self._known: OrderedDict[Credential, Bearer] = OrderedDict()
        self._waiting: set[Credential] = set()
        self._next: asyncio.Task[dict[Credential, Bearer]] | None = None
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        return len(self._known)

    async def holder(self, credential: Credential) -> Bearer | None:
        """Whose it was when it was first seen; None where it is no good one."""
        bearer = self._known.get(credential)
        if bearer is None:
            self._waiting.add(credential)
            if self._next is None:
                self._next = asyncio.create_task(self._look_up())
            bearer = (await asyncio.shield(self._next)).get(credential)
            if bearer is None:
                return None
            self._known[credential] = bearer
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
        self._known.move_to_end(credential)
        return bearer

    def forget(self, credential: Credential) -> None:
        """It was refused: whoever presents it again is looked up together with others."""
        self._known.pop(credential, None)

    async def good(self, presented: Collection[Credential]) -> dict[Credential, Bearer]:
        """Those that are good now."""
        async with self._connection() as conn:
            return await self._credentials.good(conn, presented)

    async def _look_up(self) -> dict[Credential, Bearer]:
        async with self._turn:
            # While one statement runs, the credentials that arrive wait for the next one together.
            batch, self._waiting, self._next = self._waiting, set(), None
            return await self.good(batch)
