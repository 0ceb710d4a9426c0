"""Stores answers of the HTTP API by `Idempotency-Key`, in the transaction of their effect."""

from dataclasses import dataclass

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load

HOURS = 24


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """What was told to whoever asked first; `asked` is the hash of what was asked."""

    asked: bytes
    status: int
    media_type: str | None
    body: bytes


class KeptAnswers:
    """The answers of one installation, by the id of the token that asked and the key that it asked with."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("store/idempotency.sql", settings.schema_name)

    async def before(self, conn: Conn, actor: str, key: str, asked: bytes) -> KeptAnswer | None:
        """What was answered to this key; if nothing was, it is held until the caller commits."""
        values = {"actor": actor, "key": key, "asked": asked}
        if await (await conn.execute(self._sql["ask"], values)).fetchone() is not None:
            return None
        row = await (await conn.execute(self._sql["answered"], values)).fetchone()
        assert row is not None, "whoever held the key has committed"
        first, status, media_type, body = row
        return KeptAnswer(bytes(first), status, media_type, bytes(body))

    async def keep(self, conn: Conn, actor: str, key: str, answer: KeptAnswer) -> None:
        """Write down what is told now."""
        values = {"actor": actor, "key": key, "status": answer.status, "media_type": answer.media_type}
        await conn.execute(self._sql["answer"], values | {"body": answer.body})

    async def prune(self, conn: Conn, limit: int) -> int:
        """Let those of yesterday go; answers how many."""
        row = await (
            await conn.execute(self._sql["prune_answers"], {"hours": HOURS, "limit": limit})
        ).fetchone()
        assert row is not None, "a count always answers"
        pruned: int = row[0]
        return pruned

    async def prune_sessions(self, conn: Conn) -> None:
        """Let sessions go that have ended."""
        await conn.execute(self._sql["prune_sessions"])
