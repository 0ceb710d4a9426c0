"""What every request needs: a connection of a pool of its own, the settings, the app's kinds, who asks."""

import asyncio
import hmac
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.requests import Request

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.http.access import may
from holdfast.http.origin import SAFE, refuse_strangers
from holdfast.http.problems import Refused
from holdfast.ops.dead import DeadLetters
from holdfast.ops.plans import Plans
from holdfast.ops.sessions import Sessions
from holdfast.ops.tokens import Bearer, Role, Tokens
from holdfast.store.operate import Operator
from holdfast.store.pool import Conn

ANYBODY = Bearer("", "anybody", Role.ADMIN)
STATEMENT_SECONDS = 3.0
CONNECTIONS = 10
CONNECT_SECONDS = 3.0
# A database that gives no answer to what every request asks first is away: a pooler keeps whoever asks in its
# line for minutes, and a network that is cut says nothing at all.
ANSWER_SECONDS = 5.0
REQUEST_SECONDS = 60.0
LOGIN_SECONDS = 10
# For each token: so many requests a second, and four seconds' worth of them at once after a pause. A token
# of workers is that of a fleet.
RATE = 50.0
WORKERS_RATE = 1_000.0
BURST_SECONDS = 4.0
# And plans by the indexes, as `store.pool` has them: otherwise the queues of a million tasks take 640 ms.
_BOUNDS = """
select set_config('statement_timeout', %s, true), set_config('transaction_read_only', %s, true),
    set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('enable_memoize', 'off', true)
"""


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
COOKIE = "__Host-holdfast"
CSRF_HEADER = "X-CSRF-Token"


class Auth(StrEnum):
    """How whoever asks is known."""

    TOKENS = "tokens"
    NONE = "none"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True)
class Proxy:
    """Somebody in front who knows the people: from which addresses it is believed, and where it says who."""

    addresses: frozenset[str]
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"

    def bearer(self, request: Request) -> Bearer:
        """Whoever it says; their role is that of their highest group, `holdfast-operator` and so on."""
        peer = "" if request.client is None else request.client.host
        if peer not in self.addresses:
            raise Refused(401, "this API is asked through its proxy")
        name = request.headers.get(self.user_header, "")
        groups = {group.strip() for group in request.headers.get(self.groups_header, "").split(",")}
        roles = [role for role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER) if f"holdfast-{role}" in groups]
        if not name or not roles:
            raise Refused(403, "you are in no group of this API: holdfast-viewer, -operator or -admin")
        return Bearer(f"proxy:{name}", name, roles[0])


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, once it is known who asks: what is done is done on this connection."""

    conn: Conn
    bearer: Bearer
    service: "Service"
    # Members of the answer that are not kept for whoever asks again.
    shown_once: set[str] = field(default_factory=set)

    @property
    def by(self) -> str:
        """Whose name stands in the audit."""
        return self.bearer.name

    @property
    def settings(self) -> Settings:
        """Where the tasks live."""
        return self.service.settings

    @property
    def handlers(self) -> Handlers:
        """The kinds of the app, where one was named."""
        return self.service.handlers

    @property
    def operator(self) -> Operator:
        """Tasks, queues and kinds in the hands of whoever asks."""
        return Operator(self.settings, self.service.listen, by=self.by)

    @property
    def letters(self) -> DeadLetters:
        """Dead letters in their hands."""
        return DeadLetters(self.settings, self.service.listen, by=self.by, handlers=self.handlers)

    @property
    def plans(self) -> Plans:
        """Plans in their hands."""
        return Plans(self.settings, self.service.listen, by=self.by, handlers=self.handlers)


@dataclass(slots=True)
class _Bucket:
    rate: float
    left: float = field(init=False)
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = self.rate * BURST_SECONDS

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(self.rate * BURST_SECONDS, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Service:
    """One API process."""

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers | None = None,
        auth: Auth = Auth.TOKENS,
        listen: Listener = silent,
        rate: float = RATE,
        proxy: Proxy | None = None,
    ) -> None:
        self.settings = settings
        self.sessions = Sessions(settings)
        self._rate = rate
        self._proxy = proxy
        self.handlers: Handlers = handlers or {}
        self.listen = listen
        self._auth = auth
        self._tokens = Tokens(settings)
        self._buckets: dict[str, _Bucket] = {}
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
            settings.database_url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            # Whoever asks next begins anew. Otherwise the pool waits ever longer between two tries: after an
            # outage of 142 s it did not look for another 107 s.
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
            kwargs={
                "autocommit": True,
                "application_name": "holdfast api",
                "prepare_threshold": None,
                "connect_timeout": LOGIN_SECONDS,
            },
        )

    async def close(self) -> None:
        """Let connections go."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Conn]:
        """One of the pool; a database that is away is said to be."""
        if self._pool.closed:
            # By whoever asks first: an app that is mounted in another is not told when that one starts.
            await self._pool.open()
        try:
            async with self._pool.connection() as conn:
                yield conn
        except PoolTimeout as error:
            raise psycopg.OperationalError(str(error)) from error

    @asynccontextmanager
    async def bounded(self, conn: Conn, *, writes: bool) -> AsyncIterator[None]:
        """One transaction for a request, whose statements end in time and write only if they may."""
        async with AsyncExitStack() as stack:
            with _answering(conn):
                await stack.enter_async_context(conn.transaction())
                limit = str(round(STATEMENT_SECONDS * 1_000))
                await conn.execute(_BOUNDS, [limit, "off" if writes else "on"])
            with _answering(conn, REQUEST_SECONDS):
                yield

    async def who(self, conn: Conn, request: Request, least: Role) -> Bearer:
        """Who asks; refused unless they may."""
        bearer = await self._bearer(conn, request)
        rate = max(WORKERS_RATE, self._rate) if bearer.role is Role.WORKER else self._rate
        if not self._buckets.setdefault(bearer.token, _Bucket(rate)).take():
            raise Refused(429, f"more than {rate:g} requests a second with one token", {"Retry-After": "1"})
        if self._auth is not Auth.NONE and not may(bearer, least):
            raise Refused(403, f"this needs the role {least}, and yours is {bearer.role}")
        return bearer

    async def _bearer(self, conn: Conn, request: Request) -> Bearer:
        scheme, _, written = request.headers.get("authorization", "").partition(" ")
        if self._auth is Auth.TOKENS and scheme.lower() == "bearer":
            return await self.by_token(conn, written.strip())
        # Whatever else a browser sends by itself: so it must be seen who began it.
        refuse_strangers(request)
        if self._auth is Auth.NONE:
            if (name := request.url.hostname or "") not in LOOPBACK:
                # A site whose name leads to this machine for a moment.
                raise Refused(
                    403, f"without authentication it is for this machine alone, not for {name[:100]}"
                )
            return ANYBODY
        if self._proxy is not None:
            return self._proxy.bearer(request)
        return await self._by_cookie(conn, request)

    async def _by_cookie(self, conn: Conn, request: Request) -> Bearer:
        secret = request.cookies.get(COOKIE)
        with _answering(conn):
            session = None if secret is None else await self.sessions.find(conn, secret)
        if session is None:
            raise _unknown()
        if request.method not in SAFE and not hmac.compare_digest(
            session.csrf.encode(), request.headers.get(CSRF_HEADER, "").encode()
        ):
            raise Refused(403, f"an act of a session needs its word as {CSRF_HEADER}: /api/me tells it")
        request.state.csrf = session.csrf
        return session.bearer

    async def by_token(self, conn: Conn, written: str) -> Bearer:
        """Whose token this is; refused unless it is a good one, and tokens are what opens this API."""
        with _answering(conn):
            bearer = await self._tokens.bearer(conn, written) if self._auth is Auth.TOKENS else None
        if bearer is None:
            raise _unknown()
        return bearer


@contextmanager
def _answering(conn: Conn, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
    """Hang up on a database that gives no answer in time: whoever waits for it is told that it is away."""
    hang_up = asyncio.get_running_loop().call_later(seconds, _hang_up, conn)
    try:
        yield
    finally:
        hang_up.cancel()


def _hang_up(conn: Conn) -> None:
    # The line, not the connection: that one is in the hands of whoever waits.
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


def _unknown() -> Refused:
    return Refused(
        401,
        "send a good token: Authorization: Bearer hf_…; `holdfast token create` makes one",
        {"WWW-Authenticate": "Bearer"},
    )
