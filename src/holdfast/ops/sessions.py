"""Console sessions: created with a token, identified by a cookie, expired or revoked with the token."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.tokens import Bearer, Role, hash_of
from holdfast.store.audit import AuditWriter, Author

IDLE_SECONDS = 3_600.0
ABSOLUTE_SECONDS = 12 * 3_600.0
OPEN_MAX = 20


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session as its browser gets it: the secret goes into a cookie, the other word into every act."""

    secret: str
    csrf: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Session:
    """Whose session it is, and the word that must come with every act."""

    bearer: Bearer
    csrf: str


class Sessions:
    """The sessions of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("ops/access.sql", settings.schema_name)
        self._audit = AuditWriter(settings)

    async def begin(self, conn: Conn, bearer: Bearer) -> NewSession:
        """A session for whoever has shown a good token; of the open ones it ends the oldest."""
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        values = {"hash": hash_of(secret), "token": bearer.token, "csrf": csrf, "seconds": ABSOLUTE_SECONDS}
        row = await (await conn.execute(self._sql["begin_session"], values)).fetchone()
        assert row is not None, "an insert answers"
        await conn.execute(self._sql["end_oldest_sessions"], {"token": bearer.token, "keep": OPEN_MAX})
        await self._audit.note(conn, Action.SESSION_BEGIN, Author(bearer.name, ""), details=_role(bearer))
        return NewSession(secret, csrf, row[0])

    async def find(self, conn: Conn, secret: str) -> Session | None:
        """The session of a cookie, while it and its token are good."""
        values = {"hash": hash_of(secret), "idle": IDLE_SECONDS}
        row = await (await conn.execute(self._sql["session"], values)).fetchone()
        if row is None:
            return None
        token, name, role, csrf = row
        await conn.execute(self._sql["session_seen"], values)
        return Session(Bearer(token, name, Role(role)), csrf)

    async def end(self, conn: Conn, secret: str, bearer: Bearer | None) -> None:
        """Leave; the cookie is worth nothing from now on."""
        await conn.execute(self._sql["end_session"], {"hash": hash_of(secret)})
        if bearer is not None:
            await self._audit.note(conn, Action.SESSION_END, Author(bearer.name, ""), details=_role(bearer))


def _role(bearer: Bearer) -> dict[str, object]:
    return {"role": bearer.role}
