"""What every request uses: the connection pool, the settings, the app's kinds."""

import asyncio
import hmac
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn, Self

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from starlette.requests import Request

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.db.connect import (
    CLIENT_CHECKED,
    ENCODING,
    OWN_PATH,
    Conn,
    ReadableTimes,
    options_for,
    refuses_options,
)
from holdfast.http.identity import COOKIE, Auth, Lookups, present, token_in, unknown
from holdfast.http.origin import SAFE
from holdfast.http.permissions import may
from holdfast.http.problems import Refused
from holdfast.http.proxies import Proxy
from holdfast.http.quotas import Rates, Shares
from holdfast.http.refusals import Refusals, Work
from holdfast.ops.credentials import Credential, Credentials, of_token
from holdfast.ops.dead_letters import DeadLetters
from holdfast.ops.plans import Plans
from holdfast.ops.sessions import Sessions
from holdfast.ops.tokens import Bearer, Role, Tokens
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.operate import Operator

STATEMENT_SECONDS = 3.0
# Shorter, so that whoever waits for a locked table is told of the lock.
LOCK_SECONDS = 2.5
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
# Of the connections of the pool, one token holds so many at once, so that others always find one.
SHARE = 5
WORKERS_SHARE = 7
SESSIONS_RATE = 1.0
SESSIONS_BURST = 20.0
# And plans by the indexes, as `store.pool` has them: otherwise the queues of a million tasks take 640 ms.
_BOUNDS = """
select set_config('statement_timeout', %s, true), set_config('transaction_read_only', %s, true),
    set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
    set_config('enable_memoize', 'off', true),
    set_config('holdfast_audit.token', %s, true), set_config('holdfast_audit.address', %s, true)
"""

CSRF_HEADER = "X-CSRF-Token"


@dataclass(frozen=True, slots=True)
class Caller:
    """One request, once it is known who asks: what is done is done on this connection."""

    conn: Conn
    bearer: Bearer
    service: "Service"
    # What was presented; None for people whom a proxy names, and without authentication.
    credential: Credential | None
    # Members of the answer that are not kept for whoever asks again.
    shown_once: set[str] = field(default_factory=set)

    @property
    def by(self) -> str:
        """Whose name stands in the audit."""
        return self.bearer.name

    def author(self, reason: str = "") -> Author:
        """Who does it, and why, for an entry of the audit."""
        return Author(self.by, reason)

    @property
    def audit(self) -> AuditWriter:
        """The audit, for what has no other writer."""
        return AuditWriter(self.settings)

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


_CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "application_name": "holdfast api",
    "prepare_threshold": None,
    "connect_timeout": LOGIN_SECONDS,
    "client_encoding": ENCODING,
}


class PoolConnection(AsyncConnection[TupleRow]):
    """A connection of the pool: it waits for no lock beyond its time, and its backend ends with it."""

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """As anybody connects; behind a pooler without these options."""
        ours = f"{CLIENT_CHECKED} {OWN_PATH} -c lock_timeout={LOCK_SECONDS * 1_000:.0f}"
        try:
            return await super().connect(conninfo, options=options_for(conninfo, ours), **options)
        except psycopg.OperationalError as error:
            if not refuses_options(error):
                raise
        return await super().connect(conninfo, **options)


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
        self.refusals = Refusals(settings, self._apart)
        self._rate = rate
        self._proxy = proxy
        self.handlers: Handlers = handlers or {}
        self.listen = listen
        self._auth = auth
        self._tokens = Tokens(settings)
        # What else holds a connection.
        self.on_close: list[Callable[[], Awaitable[None]]] = []
        self._rates, self._session_rates = Rates(), Rates()
        self._shares = Shares(CONNECT_SECONDS)
        self.lookups = Lookups(Credentials(settings), self._looking_up)
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
            settings.database_url,
            connection_class=PoolConnection,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=CONNECT_SECONDS,
            # Whoever asks next begins anew. Otherwise the pool waits ever longer between two tries: after an
            # outage of 142 s it did not look for another 107 s.
            reconnect_timeout=CONNECT_SECONDS,
            open=False,
            kwargs=_CONNECTION,
            configure=_configure,
        )

    async def close(self) -> None:
        """Write what is left to write, and let connections go."""
        await self.refusals.close()
        for close in self.on_close:
            await close()
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

    async def connect(self) -> Conn:
        """One like those of the pool, for whoever must not wait for them."""
        conn = await PoolConnection.connect(self.settings.database_url, **_CONNECTION)
        await _configure(conn)
        return conn

    @asynccontextmanager
    async def _looking_up(self) -> AsyncIterator[Conn]:
        async with self.connection() as conn:
            with _answering(conn):
                yield conn

    @asynccontextmanager
    async def bounded(
        self,
        conn: Conn,
        *,
        writes: bool,
        seconds: float = STATEMENT_SECONDS,
        token: str = "",
        address: str = "",
    ) -> AsyncIterator[None]:
        """One transaction for a request, whose statements end in time and write only if they may.

        The audit takes from it whose token it is, and the address of the client.
        """
        async with AsyncExitStack() as stack:
            with _answering(conn):
                await stack.enter_async_context(conn.transaction())
                limit = str(round(seconds * 1_000))
                await conn.execute(_BOUNDS, [limit, "off" if writes else "on", token, address])
            with _answering(conn, REQUEST_SECONDS):
                yield

    @asynccontextmanager
    async def admit(
        self, request: Request, least: Role, *, workers_too: bool = False
    ) -> AsyncIterator[Caller]:
        """A connection for a request, once it is known who asks; refused unless they may.

        Whoever asks without a good credential, too often, or too much at once is refused without one.
        """
        presented = present(request, self._auth, self._proxy)
        credential = presented if isinstance(presented, Credential) else None
        known = presented if isinstance(presented, Bearer) else await self.holder(request, presented)
        async with self.within_limits(known), self.connection() as conn:
            bearer = known if credential is None else await self._bearer(conn, request, credential)
            allowed = may(bearer, least) or (workers_too and bearer.role is Role.WORKER)
            if self._auth is not Auth.NONE and not allowed:
                raise Refused(403, f"this needs the role {least}, and yours is {bearer.role}")
            yield Caller(conn, bearer, self, credential)

    async def holder(self, request: Request, credential: Credential) -> Bearer:
        """Whose a credential is, as far as it is known without a connection; refused where it is nobody's."""
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

    async def _bearer(self, conn: Conn, request: Request, credential: Credential) -> Bearer:
        written = token_in(request, self._auth)
        if written is not None:
            return await self.by_token(conn, request, written)
        with _answering(conn):
            session = await self.sessions.find(conn, request.cookies[COOKIE])
        if session is None:
            self._refuse(request, credential)
        if request.method not in SAFE and not hmac.compare_digest(
            session.csrf.encode(), request.headers.get(CSRF_HEADER, "").encode()
        ):
            raise Refused(403, f"an act of a session needs its word as {CSRF_HEADER}: /api/me tells it")
        request.state.csrf = session.csrf
        return session.bearer

    async def by_token(self, conn: Conn, request: Request, written: str) -> Bearer:
        """Whose token this is; refused unless it is good at this moment."""
        with _answering(conn):
            bearer = await self._tokens.bearer(conn, written)
        if bearer is None:
            self._refuse(request, of_token(written))
        return bearer

    def token_of_session(self, request: Request, written: str) -> Credential:
        """The token that a session is to begin with; refused where it cannot be one."""
        credential = of_token(written) if self._auth is Auth.TOKENS else None
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
        async with self.connection() as conn, self.bounded(conn, writes=True):
            await work(conn)


async def _configure(conn: Conn) -> None:
    """Every request is a transaction that reads what is committed, and reads all times that there are."""
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    conn.adapters.register_loader("timestamptz", ReadableTimes)


@contextmanager
def _answering(conn: Conn, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
    """Hang up on a database that gives no answer in time: whoever waits for it is told that it is away."""
    hang_up = asyncio.get_running_loop().call_later(seconds, _hang_up, conn)
    try:
        yield
    finally:
        hang_up.cancel()


def address_of(request: Request) -> str:
    """Where the request comes from, as the audit has it."""
    return "" if request.client is None else request.client.host


def _hang_up(conn: Conn) -> None:
    # The line, not the connection: that one is in the hands of whoever waits.
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(conn.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
