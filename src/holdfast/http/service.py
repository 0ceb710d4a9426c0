"""What every request uses: the connection pool, the settings, the app's kinds."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.http.auth import RATE, Authenticator
from holdfast.http.identity import Auth
from holdfast.http.pool import Pool
from holdfast.http.proxies import Proxy
from holdfast.ops.caller import Caller
from holdfast.ops.credentials import Credential
from holdfast.ops.tokens import Bearer, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCaller(Caller):
    """Who makes a request, once that is known."""

    bearer: Bearer
    service: "Service"
    # The presented credential; None if a proxy named the user or authentication is off.
    credential: Credential | None
    # Members of the answer that are not kept for a repeated request.
    shown_once: set[str] = field(default_factory=set)


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
        self.handlers: Handlers = handlers or {}
        self.listen = listen
        self.pool = Pool(settings.database_url)
        self.auth = Authenticator(settings, self.pool, auth, rate, proxy)
        # Called on shutdown, by parts with connections of their own.
        self.on_close: list[Callable[[], Awaitable[None]]] = []

    async def close(self) -> None:
        """Write what is left to write, and let connections go."""
        await self.auth.refusals.close()
        for close in self.on_close:
            await close()
        await self.pool.close()

    @asynccontextmanager
    async def admit(
        self, request: Request, least: Role, *, workers_too: bool = False
    ) -> AsyncIterator[HttpCaller]:
        """A connection for a request, once it is known who asks; refused unless they may.

        A request with an unknown credential, or above the limits of its token, is refused before it takes a
        connection.
        """
        presented = self.auth.presented(request)
        credential = presented if isinstance(presented, Credential) else None
        known = presented if isinstance(presented, Bearer) else await self.auth.holder(request, presented)
        async with self.auth.within_limits(known), self.pool.connection() as conn:
            bearer = known if credential is None else await self.auth.bearer(conn, request, credential)
            self.auth.require(bearer, least, workers_too=workers_too)
            yield HttpCaller(
                conn,
                self.settings,
                bearer.name,
                self.handlers,
                self.listen,
                bearer=bearer,
                service=self,
                credential=credential,
            )
