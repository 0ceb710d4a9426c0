"""Creates, checks and revokes tokens of the HTTP API; only their hashes are stored."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.bounds import RESERVED_KINDS
from holdfast.core.errors import Misused, OutOfScope, TokenNameTaken, TokenNotFound
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter, Author

WRITTEN = re.compile(r"hf_([a-z0-9]{12})\.([A-Za-z0-9_-]{43})")


# The name of whoever uses an API that asks for no authentication.
WITHOUT_AUTHENTICATION = "anybody"


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
    queues: Sequence[str] | None
    kinds: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class WorkerScope:
    """What the workers of a token may claim: None means any queue, or any kind."""

    queues: Sequence[str] | None = None
    kinds: Sequence[str] | None = None

    def refuse_beyond(self, queues: Sequence[str], kinds: Sequence[str]) -> None:
        """Refuse queues and kinds that are not of this scope."""
        for what, allowed, wanted in (("queue", self.queues, queues), ("kind", self.kinds, kinds)):
            for name in wanted:
                if allowed is not None and name not in allowed:
                    raise OutOfScope(what, name, allowed)


ANYTHING = WorkerScope()


@dataclass(frozen=True, slots=True)
class Bearer:
    """Whoever asks, once their token was found to be right."""

    token: str
    name: str
    role: Role
    scope: WorkerScope = ANYTHING


class Tokens:
    """The tokens of one installation."""

    def __init__(self, settings: Settings, *, by: str = "") -> None:
        self._sql = load("ops/access.sql", settings.schema_name)
        self._audit = AuditWriter(settings)
        self._by = by

    async def create(
        self,
        conn: Conn,
        name: str,
        role: Role,
        expires_seconds: float | None,
        scope: WorkerScope = ANYTHING,
    ) -> NewToken:
        """Make a token; nobody can show it again. Its name stands for one token that is not revoked.

        Only a token of workers has a scope.
        """
        _check_names(name, scope)
        if scope != ANYTHING and role is not Role.WORKER:
            raise Misused(f"only a token of workers is limited to queues and kinds, and this is of a {role}")
        token_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = {
            "id": token_id,
            "name": name,
            "role": role,
            "hash": hash_of(secret),
            "by": self._by,
            "expires_seconds": expires_seconds,
            "queues": None if scope.queues is None else list(scope.queues),
            "kinds": None if scope.kinds is None else list(scope.kinds),
        }
        async with conn.transaction():
            await conn.execute(self._sql["lock_tokens"])
            taken = await (await conn.execute(self._sql["token_named"], values)).fetchone()
            if taken is not None:
                raise TokenNameTaken(name, taken[0])
            row = await (await conn.execute(self._sql["create_token"], values)).fetchone()
            assert row is not None, "an insert answers"
            made: dict[str, object] = {"token": token_id, "name": name, "role": role}
            limits = {"queues": scope.queues, "kinds": scope.kinds}
            made |= {what: names for what, names in limits.items() if names is not None}
            await self._note(conn, Action.TOKEN_CREATE, made)
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
        parts = WRITTEN.fullmatch(written)
        if parts is None:
            return None
        token_id, secret = parts.groups()
        row = await (await conn.execute(self._sql["token"], {"id": token_id})).fetchone()
        if row is None:
            return None
        name, role, kept, expired, revoked, queues, kinds = row
        if not hmac.compare_digest(bytes(kept), hash_of(secret)) or expired or revoked:
            return None
        await conn.execute(self._sql["token_used"], {"id": token_id})
        return Bearer(token_id, name, Role(role), WorkerScope(queues, kinds))

    async def _note(self, conn: Conn, action: Action, details: dict[str, object]) -> None:
        await self._audit.note(conn, action, Author(self._by, ""), details=details)


def _check_names(name: str, scope: WorkerScope) -> None:
    for what, given in (("name", [name]), ("queue", scope.queues or ()), ("kind", scope.kinds or ())):
        if not all(one.strip() for one in given):
            raise Misused(f"a token needs a {what} that is not blank")
    for kind in scope.kinds or ():
        if kind.startswith(RESERVED_KINDS):
            raise Misused(
                f"a token cannot be limited to {kind!r}: kinds that begin with {kind.partition('.')[0]}. are "
                "never given to workers over HTTP"
            )


def hash_of(secret: str) -> bytes:
    """What is kept of a secret."""
    # 256 random bits need no slow hash.
    return hashlib.sha256(secret.encode()).digest()
