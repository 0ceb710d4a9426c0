"""Sets tasks aside whose kind no live worker serves, and fails them after a grace period.

A worker that meets a kind it does not know puts a gate before it: tasks of that kind step aside to
where only those look who serve it. A rolling deploy passes unnoticed, and a kind that nobody serves
waits, is told about, and fails after a grace.
"""

from holdfast.config import Settings
from holdfast.core.events import KindGateChanged, Listener, TasksMoved, silent
from holdfast.core.state import Move
from holdfast.db.connect import Conn
from holdfast.db.statements import load

UNROUTE_LIMIT = 1_000


class UnservedKinds:
    """What maintenance and workers do about kinds without a handler."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str = "maintenance") -> None:
        self._sql = load("store/unserved_kinds.sql", settings.schema_name)
        self._listen = listen
        self._by = by

    async def gate(self, conn: Conn, kind: str) -> None:
        """Let only those take tasks of this kind who say that they serve it."""
        await conn.execute(self._sql["gate_kind"], {"kind": kind})
        self._listen(KindGateChanged(kind, "gated", self._by, "a worker does not know it"))

    async def restart(self, conn: Conn) -> None:
        """Begin every grace anew, because nobody watched meanwhile."""
        await conn.execute(self._sql["restart_gates"])

    async def tend(self, conn: Conn, grace_seconds: float) -> list[str]:
        """Mark gates that nobody passes, open those that everybody does, fail what waited too long."""
        found = await (await conn.execute(self._sql["tend_gates"])).fetchall()
        for kind, what in found:
            if what == "parked":
                self._listen(KindGateChanged(kind, "parked", self._by, "no live worker serves it"))
            elif what == "returned":
                self._listen(KindGateChanged(kind, "gated", self._by, "it is served again"))
        if all(what == "returned" for _, what in found):
            return []
        values = {"grace": grace_seconds, "limit": UNROUTE_LIMIT}
        ids = [id_ for (id_,) in await (await conn.execute(self._sql["unroute"], values)).fetchall()]
        if ids:
            self._listen(TasksMoved(Move.UNROUTE, ids, self._by, "no worker has a handler"))
        return ids
