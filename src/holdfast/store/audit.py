"""Writes the audit: entries in the transaction of their effect, seals after it, prunes by one door."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.audit import PRUNE_BATCH, Action, EntryFilter
from holdfast.core.events import Listener, silent
from holdfast.core.operated import AuditPruned, AuditSealed
from holdfast.store.pool import Conn
from holdfast.store.sql import load

SEAL_CHUNKS = 1_000


@dataclass(frozen=True, slots=True)
class Author:
    """Who does something, and why."""

    by: str
    reason: str


class AuditWriter:
    """The only hand that adds to the audit."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._sql = load("audit.sql", settings.schema_name)
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
        await conn.execute(self._sql["note"], _entry(action, author, batch, details) | {"kind": kind})

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
        """Let the content of entries older than a moment go; answers how many."""
        values = asdict(only) | {
            "by": author.by,
            "reason": author.reason,
            "before": before,
            "limit": limit,
        }
        row = await (await conn.execute(self._sql["prune"], values)).fetchone()
        assert row is not None, "the function always answers"
        pruned: int = row[0]
        if pruned:
            self._listen(AuditPruned(pruned, author.by))
        return pruned

    async def prunable(self, conn: Conn, before: datetime, only: EntryFilter) -> int:
        """How many entries a prune would let go."""
        values = asdict(only) | {"before": before}
        row = await (await conn.execute(self._sql["prunable"], values)).fetchone()
        assert row is not None, "a count always answers"
        count: int = row[0]
        return count


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
