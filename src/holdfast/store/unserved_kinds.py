"""Marks kinds that no live worker serves, and fails their tasks after a grace period.

A claim blocks tasks of kinds that its worker does not know, and only workers that serve them find them
there. So a rolling deploy passes unnoticed. A kind that no live worker serves is marked: people are
told, and its tasks fail as unroutable once the grace period is over.
"""

from holdfast.config import Settings
from holdfast.core.events import KindStatusChanged, Listener, TasksMoved, silent
from holdfast.core.state import Move
from holdfast.db.connect import Conn
from holdfast.db.statements import load

UNROUTE_LIMIT = 1_000
_WHY = {"unserved": "no live worker serves it", "served": "a worker serves it again"}


class UnservedKinds:
    """What maintenance does about kinds without a worker."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str = "maintenance") -> None:
        self._sql = load("store/unserved_kinds.sql", settings.schema_name)
        self._listen = listen
        self._by = by

    async def restart(self, conn: Conn) -> None:
        """Begin every grace period anew, because nobody watched meanwhile."""
        await conn.execute(self._sql["restart_graces"])

    async def tend(self, conn: Conn, grace_seconds: float) -> list[str]:
        """Mark and unmark kinds, and fail what waited too long; the ids of those tasks."""
        found = await (await conn.execute(self._sql["mark_unserved"])).fetchall()
        for kind, status in found:
            if status in _WHY:
                self._listen(KindStatusChanged(kind, status, self._by, _WHY[status]))
        if all(status == "served" for _, status in found):
            return []
        values = {"grace": grace_seconds, "limit": UNROUTE_LIMIT}
        ids = [id_ for (id_,) in await (await conn.execute(self._sql["unroute"], values)).fetchall()]
        if ids:
            self._listen(TasksMoved(Move.UNROUTE, ids, self._by, "no worker has a handler"))
        return ids
