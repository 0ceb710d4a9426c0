"""Finds out who makes a request, and refuses those that may not, or ask too often."""

import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

from starlette.requests import Request

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.http.identity import COOKIE, Auth, Lookups, present, token_in, unknown
from holdfast.http.origin import SAFE
from holdfast.http.permissions import may
from holdfast.http.pool import CONNECT_SECONDS, Pool, answering
from holdfast.http.problems import Refused
from holdfast.http.proxies import Proxy
from holdfast.http.quotas import Rates, Shares
from holdfast.http.refusals import Refusals, Work
from holdfast.ops.credentials import Credential, Credentials, of_token
from holdfast.ops.sessions import Sessions
from holdfast.ops.tokens import Bearer, Role, Tokens

# For each token: so many requests a second, and four seconds' worth of them at once after a pause. A token
# of workers is that of a fleet.
RATE = 50.0
WORKERS_RATE = 1_000.0
BURST_SECONDS = 4.0
# Of the connections of the pool, one token holds so many at once, so that others always find one.
SHARE = 5
WORKERS_SHARE = 7
SESSIONS_RATE = 1.0
SESSIONS_BURST = 20.0

CSRF_HEADER = "X-CSRF-Token"


class Authenticator:
    """Tokens, sessions and the limits of each, in one API process."""

    def __init__(self, settings: Settings, pool: Pool, mode: Auth, rate: float, proxy: Proxy | None) -> None:
        self._pool = pool
        self._mode = mode
        self._rate = rate
        self._proxy = proxy
        self._tokens = Tokens(settings)
        self._rates, self._session_rates = Rates(), Rates()
        self._shares = Shares(CONNECT_SECONDS)
        self.sessions = Sessions(settings)
        self.lookups = Lookups(Credentials(settings), pool.looking_up)
        self.refusals = Refusals(settings, self._apart)

    def presented(self, request: Request) -> Credential | Bearer:
        """What a request presents: a credential, or whom a proxy named."""
        return present(request, self._mode, self._proxy)

    def require(self, bearer: Bearer, least: Role, *, workers_too: bool) -> None:
        """Refuse whoever has not at least this role."""
        allowed = may(bearer, least) or (workers_too and bearer.role is Role.WORKER)
        if self._mode is not Auth.NONE and not allowed:
            raise Refused(403, f"this needs the role {least}, and yours is {bearer.role}")

    async def holder(self, request: Request, credential: Credential) -> Bearer:
        """Who holds a credential, from the cache or a shared lookup; an unknown credential is refused."""
        bearer = await self.lookups.holder(credential)
        if bearer is None:
            self._refuse(request, credential)
        return bearer

    @asynccontextmanager
    async def within_limits(self, bearer: Bearer) -> AsyncIterator[None]:
        """Refuse what exceeds the rate of a token, and have it wait while it holds its share of the pool."""
        is_worker = bearer.role is Role.WORKER
        rate = max(WORKERS_RATE, self._rate) if is_worker else self._rate
        if not self._rates.take(bearer.token, rate, rate * BURST_SECONDS):
            raise Refused(429, f"more than {rate:g} requests a second with one token", {"Retry-After": "1"})
        async with self._shares.hold(bearer.token, WORKERS_SHARE if is_worker else SHARE):
            yield

    async def bearer(self, conn: Conn, request: Request, credential: Credential) -> Bearer:
        """Whose a token or a session is at this moment; refused unless it is good."""
        written = token_in(request, self._mode)
        if written is not None:
            return await self.by_token(conn, request, written)
        with answering(conn):
            session = await self.sessions.find(conn, request.cookies[COOKIE])
        if session is None:
            self._refuse(request, credential)
        if request.method not in SAFE and not hmac.compare_digest(
            session.csrf.encode(), request.headers.get(CSRF_HEADER, "").encode()
        ):
            raise Refused(
                403,
                f"a change made in a session needs its CSRF token as {CSRF_HEADER}: GET /api/me returns it",
            )
        request.state.csrf = session.csrf
        return session.bearer

    async def by_token(self, conn: Conn, request: Request, written: str) -> Bearer:
        """Whose token this is; refused unless it is good at this moment."""
        with answering(conn):
            bearer = await self._tokens.bearer(conn, written)
        if bearer is None:
            self._refuse(request, of_token(written))
        return bearer

    def token_of_session(self, request: Request, written: str) -> Credential:
        """The token that a session is to begin with; refused where it cannot be one."""
        credential = of_token(written) if self._mode is Auth.TOKENS else None
        if credential is None:
            self._refuse(request, credential)
        return credential

    def limit_sessions(self, bearer: Bearer) -> None:
        """Refuse a session to a worker, and to a token that begins too many."""
        if bearer.role is Role.WORKER:
            raise Refused(403, "a worker's token begins no session: sessions are for people")
        if not self._session_rates.take(bearer.token, SESSIONS_RATE, SESSIONS_BURST):
            wait = {"Retry-After": "1"}
            raise Refused(429, f"more than {SESSIONS_RATE:g} sessions a second with one token", wait)

    def _refuse(self, request: Request, credential: Credential | None) -> NoReturn:
        """Refuse a presented credential that is not good, and count it: every such refusal passes here."""
        if credential is not None:
            self.lookups.forget(credential)
        self.refusals.count(address_of(request))
        raise unknown()

    async def _apart(self, work: Work) -> None:
        """Do something in a transaction that belongs to no request."""
        async with self._pool.connection() as conn, self._pool.bounded(conn, writes=True):
            await work(conn)


def address_of(request: Request) -> str:
    """Where the request comes from, as the audit has it."""
    return "" if request.client is None else request.client.host
