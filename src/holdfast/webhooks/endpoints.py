"""Webhook endpoints: URLs, signing keys, and their health."""

import base64
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from uuid_utils import uuid7

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import EndpointNotFound, Misused
from holdfast.core.events import Listener, silent
from holdfast.core.limit import Limit, Scope, bucket_of_key
from holdfast.core.redact import shown_url
from holdfast.core.task import is_id
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.limits import Limits
from holdfast.webhooks import retry as patience
from holdfast.webhooks.address import Place, place_of
from holdfast.webhooks.payloads import DELIVER, ENDPOINT
from holdfast.webhooks.signing import Key, bytes_of, new_secret

EVENTS_MAX = 100
RUNNING_MAX = 1_000
DESCRIPTION_CHARACTERS_MAX = 500
# How long an older key still signs beside the newest.
ROTATION_HOURS = 24.0
ROTATION_HOURS_MAX = 720.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An endpoint as people see it: never its secrets."""

    id: str
    url: str
    description: str
    events: Sequence[str]
    in_order: bool
    running_max: int | None
    created_at: datetime
    created_by: str
    disabled_at: datetime | None
    disabled_because: str | None
    failing_since: datetime | None
    failures: int
    left_alone_until: datetime | None
    keys: Sequence[str]

    def masked(self) -> "Endpoint":
        """The same with its URL as those see it who need not know it whole: a part of it may be a token."""
        return replace(self, url=shown_url(self.url))

    @property
    def state(self) -> str:
        """In a word."""
        if self.disabled_at is not None:
            return "disabled"
        return "active" if self.failing_since is None else "failing"


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """One to add. Without event types it gets all; `render.*` means those that begin with `render.`.

    With `in_order` one delivery at a time goes out, and the next waits until it is delivered or given up.
    """

    url: str
    events: Sequence[str] = ()
    description: str = ""
    secret: str | None = field(default=None, repr=False)
    in_order: bool = False
    running_max: int | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """A new endpoint, or a new key, with the secret that is shown this once."""

    endpoint: Endpoint
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint as a delivery sees it, read a moment ago."""

    place: Place
    keys: Sequence[Key]
    disabled_because: str | None
    failing: bool
    # On this process's clock: nothing is sent before, and then one delivery goes first.
    left_alone_until: float | None
    # What the database's clock said, and when that was on this process's clock.
    clock: datetime
    read_at: float

    def now(self) -> datetime:
        """What the database's clock says now."""
        return self.clock + timedelta(seconds=time.monotonic() - self.read_at)

    def left_alone_for(self) -> float:
        """How many seconds more; none if its time is over."""
        return 0.0 if self.left_alone_until is None else max(0.0, self.left_alone_until - time.monotonic())


class Endpoints:
    """The endpoints of one installation; each change is in the audit, in the same commit."""

    def __init__(
        self, settings: Settings, listen: Listener = silent, *, by: str, code: str | None = None
    ) -> None:
        self._settings = settings
        self._code = code
        self._sql = load("webhooks/webhooks.sql", settings.schema_name)
        self._audit = AuditWriter(settings, listen)
        self._limits = Limits(settings, listen, by=by)
        self._by = by

    async def create(self, conn: Conn, new: NewEndpoint, reason: str = "") -> Created:
        """Add an endpoint; answers the secret too, which is not shown again."""
        self._check(new.url, new.events, new.description)
        if new.running_max is not None and not 1 <= new.running_max <= RUNNING_MAX:
            raise Misused(f"running_max is {new.running_max}: it is from 1 to {RUNNING_MAX}")
        if new.in_order and new.running_max is not None:
            raise Misused("deliveries in order go out one at a time: leave running_max out")
        endpoint, secret = str(uuid7()), new.secret or new_secret()
        values = {
            "id": endpoint,
            "url": new.url,
            "description": new.description,
            "events": list(new.events),
            "in_order": new.in_order,
            "running_max": new.running_max,
            "by": self._by,
        }
        async with conn.transaction():
            await conn.execute(self._sql["create"], values)
            await self._add_key(conn, endpoint, secret)
            if new.running_max is not None:
                limit = bucket_of_key(DELIVER, ENDPOINT, endpoint)
                await self._limits.set(conn, Scope.KEY, limit, Limit(running=new.running_max))
            details = {"url": place_of(new.url).shown, "events": list(new.events)}
            await self._note(conn, Action.WEBHOOK_CREATE, endpoint, reason, **details)
            return Created(await self.show(conn, endpoint), secret)

    async def change(
        self,
        conn: Conn,
        endpoint: str,
        *,
        url: str | None = None,
        events: Sequence[str] | None = None,
        description: str | None = None,
        reason: str = "",
    ) -> Endpoint:
        """Change what is given; deliveries that were tried before go to the new URL too."""
        async with conn.transaction():
            await conn.execute(self._sql["hold"], {"id": endpoint if is_id(endpoint) else None})
            before = await self.show(conn, endpoint)
            url = before.url if url is None else url
            events = list(before.events if events is None else events)
            description = before.description if description is None else description
            self._check(url, events, description)
            values = {"id": endpoint, "url": url, "description": description, "events": events}
            await conn.execute(self._sql["change"], values)
            after = await self.show(conn, endpoint)
            await self._note(
                conn,
                Action.WEBHOOK_CHANGE,
                endpoint,
                reason,
                before={"url": place_of(before.url).shown, "events": list(before.events)},
                after={"url": place_of(after.url).shown, "events": list(after.events)},
            )
            return after

    async def rotate(
        self,
        conn: Conn,
        endpoint: str,
        *,
        secret: str | None = None,
        hours: float = ROTATION_HOURS,
        reason: str = "",
    ) -> Created:
        """Sign with a new key; the ones before sign beside it for so many hours."""
        if not 0 <= hours <= ROTATION_HOURS_MAX:
            raise Misused(f"older keys sign for 0 to {ROTATION_HOURS_MAX:g} hours more, not for {hours:g}")
        secret = secret or new_secret()
        async with conn.transaction():
            await self.show(conn, endpoint)
            newest = await self._add_key(conn, endpoint, secret)
            values = {"endpoint": endpoint, "newest": newest, "seconds": hours * 3_600}
            await conn.execute(self._sql["retire_keys"], values)
            await self._note(conn, Action.WEBHOOK_ROTATE, endpoint, reason, key=newest, hours=hours)
            return Created(await self.show(conn, endpoint), secret)

    async def disable(self, conn: Conn, endpoint: str, reason: str) -> bool:
        """Deliver nothing more to it; what is due becomes a dead letter. Whether it was not so before."""
        return await self._turned(conn, "disable", Action.WEBHOOK_DISABLE, endpoint, reason)

    async def enable(self, conn: Conn, endpoint: str, reason: str) -> bool:
        """Deliver to it again, from now on. Whether it was not so before."""
        return await self._turned(conn, "enable", Action.WEBHOOK_ENABLE, endpoint, reason)

    async def remove(self, conn: Conn, endpoint: str, reason: str) -> bool:
        """Forget it and its keys; the log of its deliveries stays for its time."""
        return await self._turned(conn, "remove", Action.WEBHOOK_REMOVE, endpoint, reason)

    async def page(self, conn: Conn) -> list[Endpoint]:
        """All of them."""
        rows = await (await conn.execute(self._sql["endpoints"], {"id": None})).fetchall()
        return [Endpoint(*row) for row in rows]

    async def show(self, conn: Conn, endpoint: str) -> Endpoint:
        """One of them."""
        row = None
        if is_id(endpoint):
            row = await (await conn.execute(self._sql["endpoints"], {"id": endpoint})).fetchone()
        if row is None:
            raise EndpointNotFound(endpoint)
        return Endpoint(*row)

    async def reveal(self, conn: Conn, endpoint: str, reason: str) -> Endpoint:
        """One of them with its URL whole, for whoever says why; that it was shown is in the audit."""
        found = await self.show(conn, endpoint)
        await self._note(conn, Action.WEBHOOK_REVEAL, endpoint, reason)
        return found

    # What deliveries ask and say.

    async def target(self, conn: Conn, endpoint: str) -> Target | None:
        """An endpoint as a delivery needs it now."""
        values = {"id": endpoint, "seconds_max": patience.BREAK_SECONDS_MAX}
        row = await (await conn.execute(self._sql["for_delivery"], values)).fetchone()
        if row is None:
            return None
        url, disabled, failing, left_alone, keys, clock = row
        read_at = time.monotonic()
        named = [key.partition(":") for key in keys]
        return Target(
            # Whether TLS is wanted was asked where it was added.
            place_of(url),
            [Key(name, base64.b64decode(secret)) for name, _, secret in named],
            disabled,
            failing,
            None if left_alone is None else read_at + left_alone,
            clock,
            read_at,
        )

    async def probe(self, conn: Conn, endpoint: str) -> bool:
        """Whether this delivery is the one that may see if an endpoint is well again."""
        values = {
            "id": endpoint,
            "seconds": patience.PROBE_SECONDS,
            "seconds_max": patience.BREAK_SECONDS_MAX,
        }
        return await (await conn.execute(self._sql["probe"], values)).fetchone() is not None

    async def failed(self, conn: Conn, endpoint: str, *, probe: bool) -> bool:
        """It failed once more; whether it has done nothing else for so long that it is to be disabled."""
        values = {
            "id": endpoint,
            "probe": probe,
            "after": patience.BREAK_AFTER,
            "seconds": patience.BREAK_SECONDS,
            "seconds_max": patience.BREAK_SECONDS_MAX,
            "days": patience.DISABLE_AFTER_DAYS,
        }
        row = await (await conn.execute(self._sql["failed"], values)).fetchone()
        return row is not None and bool(row[0])

    async def recovered(self, conn: Conn, endpoint: str) -> None:
        """It is well again."""
        await conn.execute(self._sql["recovered"], {"id": endpoint})

    def _check(self, url: str, events: Sequence[str], description: str) -> None:
        place_of(url, plain=self._settings.webhooks_plain)
        if len(events) > EVENTS_MAX or any(not event or len(event) > 200 for event in events):
            raise Misused(f"an endpoint has up to {EVENTS_MAX} event types of 1 to 200 characters")
        if len(description) > DESCRIPTION_CHARACTERS_MAX:
            raise Misused(f"a description has up to {DESCRIPTION_CHARACTERS_MAX} characters")

    async def _add_key(self, conn: Conn, endpoint: str, secret: str) -> str:
        name = f"key_{secrets.token_hex(4)}"
        values = {"endpoint": endpoint, "id": name, "secret": bytes_of(secret)}
        await conn.execute(self._sql["add_key"], values)
        return name

    async def _turned(self, conn: Conn, statement: str, action: Action, endpoint: str, reason: str) -> bool:
        async with conn.transaction():
            await self.show(conn, endpoint)
            values = {"id": endpoint, "reason": reason}
            row = await (await conn.execute(self._sql[statement], values)).fetchone()
            if row is not None:
                await self._note(conn, action, endpoint, reason, url=place_of(row[0]).shown)
        return row is not None

    async def _note(self, conn: Conn, action: Action, endpoint: str, reason: str, **details: object) -> None:
        author = Author(self._by, reason, self._code)
        await self._audit.note(conn, action, author, kind=DELIVER, details={"endpoint": endpoint} | details)
