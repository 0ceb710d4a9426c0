"""What every request needs: a connection of a pool of its own, the settings, the app's kinds, who asks."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
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
from holdfast.http.problems import Refused
from holdfast.ops.dead import DeadLetters
from holdfast.ops.plans import Plans
from holdfast.ops.tokens import Bearer, Role, Tokens
from holdfast.store.operate import Operator
from holdfast.store.pool import Conn

ANYBODY = Bearer("", "anybody", Role.ADMIN)
STATEMENT_SECONDS = 3.0
CONNECTIONS = 10
CONNECT_SECONDS = 3.0
# For each token: so many requests a second, and so many at once after a pause.
RATE = 50.0
BURST = 200.0
_BOUNDS = "select set_config('statement_timeout', %s, true), set_config('transaction_read_only', %s, true)"


class Auth(StrEnum):
    """How whoever asks is known."""

    TOKENS = "tokens"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, once it is known who asks: what is done is done on this connection."""

    conn: Conn
    bearer: Bearer
    service: "Service"

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
    left: float = BURST
    at: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(BURST, self.left + (now - self.at) * RATE)
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
    ) -> None:
        self.settings = settings
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
            open=False,
            kwargs={"autocommit": True, "application_name": "holdfast api", "prepare_threshold": None},
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
        async with conn.transaction():
            limit = str(round(STATEMENT_SECONDS * 1_000))
            await conn.execute(_BOUNDS, [limit, "off" if writes else "on"])
            yield

    async def who(self, conn: Conn, request: Request, least: Role) -> Bearer:
        """Who asks; refused unless they may."""
        bearer = ANYBODY if self._auth is Auth.NONE else await self._bearer(conn, request)
        if not self._buckets.setdefault(bearer.token, _Bucket()).take():
            raise Refused(429, f"more than {RATE:g} requests a second with one token", {"Retry-After": "1"})
        if not may(bearer, least):
            raise Refused(403, f"this needs the role {least}, and yours is {bearer.role}")
        return bearer

    async def _bearer(self, conn: Conn, request: Request) -> Bearer:
        scheme, _, written = request.headers.get("authorization", "").partition(" ")
        bearer = None
        if scheme.lower() == "bearer":
            bearer = await self._tokens.bearer(conn, written.strip())
        if bearer is None:
            raise Refused(
                401,
                "send a good token: Authorization: Bearer hf_…; `holdfast token create` makes one",
                {"WWW-Authenticate": "Bearer"},
            )
        return bearer
