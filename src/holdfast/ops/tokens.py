"""Tokens of the HTTP API: shown once, kept as a hash, given a role, and taken back at once."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import TokenNotFound
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.pool import Conn
from holdfast.store.sql import load

_WRITTEN = re.compile(r"hf_([a-z0-9]{12})\.([A-Za-z0-9_-]{43})")


class Role(StrEnum):
    """What a token may do; each of the first three may do what the one before may, and `worker` is apart."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token as it is shown once."""

    id: str
    token: str
    created_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token as it is listed."""

    id: str
    name: str
    role: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whoever asks, once their token was found to be right."""

    token: str
    name: str
    role: Role


class Tokens:
    """The tokens of one installation."""

    def __init__(self, settings: Settings, *, by: str = "") -> None:
        self._sql = load("access.sql", settings.schema_name)
        self._audit = AuditWriter(settings)
        self._by = by

    async def create(self, conn: Conn, name: str, role: Role, expires_seconds: float | None) -> NewToken:
        """Make a token; nobody can show it again."""
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = {
            "id": token_id,
            "name": name,
            "role": role,
            "hash": hash_of(secret),
            "by": self._by,
            "expires_seconds": expires_seconds,
        }
        async with conn.transaction():
            row = await (await conn.execute(self._sql["create_token"], values)).fetchone()
            assert row is not None, "an insert answers"
            await self._note(conn, Action.TOKEN_CREATE, {"token": token_id, "name": name, "role": role})
        return NewToken(token_id, f"hf_{token_id}.{secret}", *row)

    async def list(self, conn: Conn, limit: int = 200) -> list[TokenView]:
        """Every token, those that are good first."""
        return [
            TokenView(*row)
            for row in await (await conn.execute(self._sql["tokens"], {"limit": limit})).fetchall()
        ]

    async def revoke(self, conn: Conn, token_id: str) -> None:
        """Take a token back; the next request with it is refused."""
        async with conn.transaction():
            row = await (
                await conn.execute(self._sql["revoke_token"], {"id": token_id, "by": self._by})
            ).fetchone()
            if row is None:
                raise TokenNotFound(token_id)
            await self._note(conn, Action.TOKEN_REVOKE, {"token": token_id, "name": row[0]})

    async def bearer(self, conn: Conn, written: str) -> Bearer | None:
        """Whose token this is, if it is a good one."""
        parts = _WRITTEN.fullmatch(written)
        if parts is None:
            return None
        token_id, secret = parts.groups()
        row = await (await conn.execute(self._sql["token"], {"id": token_id})).fetchone()
        if row is None:
            return None
        name, role, kept, expired, revoked = row
        if not hmac.compare_digest(bytes(kept), hash_of(secret)) or expired or revoked:
            return None
        await conn.execute(self._sql["token_used"], {"id": token_id})
        return Bearer(token_id, name, Role(role))

    async def _note(self, conn: Conn, action: Action, details: dict[str, object]) -> None:
        await self._audit.note(conn, action, Author(self._by, ""), details=details)


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    # 256 random bits need no slow hash.
    return hashlib.sha256(secret.encode()).digest()
