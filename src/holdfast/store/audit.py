"""Writes audit entries with the change they describe, seals them in chunks, and prunes them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime

import psycopg

from holdfast.config import Settings
from holdfast.core.audit import PRUNE_BATCH, Action, EntryFilter, Identity
from holdfast.core.errors import SQLSTATES
from holdfast.core.events import Listener, silent
from holdfast.core.operator_events import AuditPruned, AuditSealed
from holdfast.db.connect import Conn
from holdfast.db.statements import load

SEAL_CHUNKS = 1_000
# The actor of what code does by itself.
CODE = "holdfast"


@dataclass(frozen=True, slots=True)
class Author:
    """Who does something, and why."""

    by: str
    reason: str
    # `holdfast:…` where code does it by itself; it stands where a person's token would.
    code: str | None = None


class AuditWriter:
    """The only writer of the audit."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._sql = load("store/audit.sql", settings.schema_name)
        self._listen = listen

    async def note(
        self,
        conn: Conn,
        action: Action,
        author: Author,
        *,
        batch: str | None = None,
        kind: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """One entry about no task in particular."""
        values = _entry(action, author, batch, details) | {"kind": kind, "code": author.code}
        with _refusals_named():
            await conn.execute(self._sql["note"], values)

    async def note_tasks(
        self,
        conn: Conn,
        action: Action,
        author: Author,
        ids: Sequence[str],
        *,
        batch: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """One entry for each of these tasks."""
        values = _entry(action, author, batch, details) | {"ids": list(ids)}
        with _refusals_named():
            await conn.execute(self._sql["note_tasks"], values)

    async def seal(self, conn: Conn, most: int = SEAL_CHUNKS) -> int:
        """Add what was committed to the chain; answers how many chunks."""
        row = await (await conn.execute(self._sql["seal"], {"most": most})).fetchone()
        assert row is not None, "the function always answers"
        sealed: int = row[0]
        if sealed:
            # Whoever keeps this line can tell later whether the chain was made anew.
            self._listen(AuditSealed(sealed, row[1], row[2]))
        return sealed

    async def prune(
        self, conn: Conn, author: Author, before: datetime, only: EntryFilter, limit: int = PRUNE_BATCH
    ) -> int:
        """Let the content of entries older than a moment go, as an operator asks; answers how many."""
        values = asdict(only) | {
            "by": author.by,
            "reason": author.reason,
            "before": before,
            "limit": limit,
        }
        return await self._pruned(conn, "prune", values, author.by)

    async def prune_expired(self, conn: Conn, before: datetime, limit: int = PRUNE_BATCH) -> int:
        """The same for maintenance: every entry older than a moment, under a fixed name and reason."""
        return await self._pruned(conn, "prune_expired", {"before": before, "limit": limit}, CODE)

    async def _pruned(self, conn: Conn, name: str, values: Mapping[str, object], by: str) -> int:
        with _refusals_named():
            row = await (await conn.execute(self._sql[name], values)).fetchone()
        assert row is not None, "the function always answers"
        pruned: int = row[0]
        if pruned:
            self._listen(AuditPruned(pruned, by))
        return pruned

    async def identity(self, conn: Conn) -> Identity:
        """Who is proven to ask on this connection, in this transaction."""
        row = await (await conn.execute(self._sql["identity"])).fetchone()
        assert row is not None, "the function always answers"
        return Identity(*row)

    async def prunable(self, conn: Conn, before: datetime, only: EntryFilter) -> int:
        """How many entries a prune would let go; what that would refuse is refused here too."""
        values = asdict(only) | {"by": "", "reason": "", "before": before, "limit": 0}
        with _refusals_named():
            await conn.execute(self._sql["prune"], values)
        row = await (await conn.execute(self._sql["prunable"], values)).fetchone()
        assert row is not None, "a count always answers"
        count: int = row[0]
        return count


@contextmanager
def _refusals_named() -> Iterator[None]:
    """What the functions refuse, as the exceptions of this package."""
    try:
        yield
    except psycopg.Error as error:
        exception, _ = SQLSTATES.get(error.sqlstate or "", (None, ""))
        if exception is None:
            raise
        parts = (error.diag.message_primary, error.diag.message_hint)
        raise exception(": ".join(part for part in parts if part)) from error


def _entry(
    action: Action, author: Author, batch: str | None, details: Mapping[str, object] | None
) -> dict[str, object]:
    return {
        "action": action,
        "actor": author.by,
        "reason": author.reason,
        "batch": batch,
        "details": None if details is None else json.dumps(details, default=str),
    }
