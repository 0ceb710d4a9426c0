"""The table of kinds: what workers declare about each, such as secret fields and the payload schema."""

import json
from collections.abc import Collection, Iterable, Mapping

from holdfast.config import Settings
from holdfast.core.handler import Handler
from holdfast.db.connect import Conn
from holdfast.db.statements import load

KEPT_DAYS = 90
# Instead of a field: all of them, because whoever declared the kind may not have the others shown.
ALL = "*"


class Declarations:
    """The declared kinds of one installation."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("store/kinds.sql", settings.schema_name)
        self._release = settings.release

    async def declare(self, conn: Conn, handlers: Iterable[Handler]) -> None:
        """Write down what code says of its kinds; nothing is written where that is known."""
        kinds = [
            {
                "kind": handler.kind,
                "queue": handler.queue,
                "secrets": sorted(set(handler.secrets)),
                "guarded": handler.guard is not None,
                "payload_hash": handler.payload_hash(),
            }
            for handler in handlers
        ]
        await conn.execute(self._sql["declare_kinds"], {"release": self._release, "kinds": json.dumps(kinds)})

    async def declare_secrets(
        self, conn: Conn, queue: str, secrets: Mapping[str, Collection[str]], hidden: Collection[str] = ()
    ) -> None:
        """Write down what a worker in another language says of its kinds; `hidden` ones show no value."""
        kinds = [
            {"kind": kind, "secrets": sorted(set(fields) - {ALL} | ({ALL} if kind in hidden else set()))}
            for kind, fields in secrets.items()
        ]
        await conn.execute(self._sql["declare_secrets"], {"queue": queue, "kinds": json.dumps(kinds)})

    async def count_outside(self, conn: Conn) -> int:
        """How many kinds have no release: those that workers in other languages declare are among them."""
        row = await (await conn.execute(self._sql["count_outside_kinds"])).fetchone()
        assert row is not None, "a count always answers"
        counted: int = row[0]
        return counted

    async def secrets_of(
        self, conn: Conn, kinds: Iterable[str], *, claimed: bool = False
    ) -> dict[str, frozenset[str]]:
        """The secret fields of these kinds in all releases; kinds that nobody has declared are left out.

        `claimed` includes kinds that only workers have declared whose token is not limited to them.
        """
        cursor = await conn.execute(self._sql["secrets_of"], {"kinds": sorted(set(kinds))})
        found = await cursor.fetchall()
        return {kind: frozenset(fields) for kind, fields, declared in found if declared or claimed}

    async def prune(self, conn: Conn, days: int = KEPT_DAYS) -> int:
        """Delete what was last declared so long ago and is not needed any more; answers how many rows."""
        cursor = await conn.execute(self._sql["kinds_unused"], {"days": days})
        unused = {kind for (kind,) in await cursor.fetchall()}
        if unused:
            # This reads the whole table, so it is done only where nothing else speaks for the kinds.
            cursor = await conn.execute(self._sql["kinds_ready"], {"kinds": sorted(unused)})
            unused -= {kind for (kind,) in await cursor.fetchall()}
        values = {"days": days, "kinds": sorted(unused)}
        row = await (await conn.execute(self._sql["prune_kinds"], values)).fetchone()
        assert row is not None, "a count always answers"
        pruned: int = row[0]
        return pruned
