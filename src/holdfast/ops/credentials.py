"""Checks many presented tokens and session cookies in one statement."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.sessions import IDLE_SECONDS
from holdfast.ops.tokens import WRITTEN, Bearer, Role, hash_of

_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller presented: the hash of its secret, and the id of the token where it is one."""

    hash: bytes
    token: str | None = None


def of_token(written: str) -> Credential | None:
    """The credential in a token; None where it cannot be one."""
    parts = WRITTEN.fullmatch(written)
    return None if parts is None else Credential(hash_of(parts[2]), parts[1])


def of_cookie(secret: str) -> Credential | None:
    """The credential in the cookie of a session; None where it cannot be one."""
    return Credential(hash_of(secret)) if _COOKIE.fullmatch(secret) else None


class Credentials:
    """The credentials of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("ops/access.sql", settings.schema_name)

    async def good(self, conn: Conn, presented: Collection[Credential]) -> dict[Credential, Bearer]:
        """Those that are good now, and whose they are."""
        values = {
            "tokens": [one.token for one in presented if one.token is not None],
            "sessions": [one.hash for one in presented if one.token is None],
            "idle": IDLE_SECONDS,
        }
        rows = await (await conn.execute(self._sql["good_credentials"], values)).fetchall()
        known = {
            Credential(bytes(hash_), None if session else token): Bearer(token, name, Role(role))
            for hash_, session, token, name, role in rows
        }
        return {one: known[one] for one in presented if one in known}
