"""Restores the missing row of live tasks for `holdfast doctor --repair`."""

from collections.abc import Sequence

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.events import Listener, silent
from holdfast.core.operator_events import TasksRepaired
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.doctor import Doctor, Misplaced
from holdfast.store.audit import AuditWriter, Author


class Repair:
    """The repairs of one person."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str) -> None:
        self._sql = load("store/repair.sql", settings.schema_name)
        self._looks = load("ops/doctor.sql", settings.schema_name)
        self._doctor = Doctor(settings)
        self._audit = AuditWriter(settings, listen)
        self._listen = listen
        self._by = by

    async def run(self, conn: Conn, reason: str) -> list[str]:
        """Put right whatever the doctor finds, until nothing is left that can be; answers which tasks."""
        repaired: list[str] = []
        while found := await self._doctor.misplaced(conn):
            done = [id_ for how, ids in found.items() for id_ in await self.repair(conn, how, ids, reason)]
            if not done:
                # What is left is being moved by somebody just now.
                break
            repaired += done
        return repaired

    async def repair(self, conn: Conn, how: Misplaced, ids: Sequence[str], reason: str) -> list[str]:
        """Put right those of these tasks that are still wrong, in one transaction; answers which."""
        values = {"ids": list(ids)}
        async with conn.transaction():
            await conn.execute(self._looks["in_one_pass"], {"milliseconds": 0})
            await conn.execute(self._sql["lock_tasks"], values)
            changed = {
                id_ for name in ("remove_rows", "restore") for id_ in await self._changed(conn, name, values)
            }
            repaired = sorted(changed)
            if repaired:
                details = {"found": how}
                author = Author(self._by, reason)
                await self._audit.note_tasks(conn, Action.TASK_REPAIR, author, repaired, details=details)
        if repaired:
            self._listen(TasksRepaired(repaired, self._by, reason))
        return repaired

    async def _changed(self, conn: Conn, name: str, values: dict[str, list[str]]) -> list[str]:
        return [id_ for (id_,) in await (await conn.execute(self._sql[name], values)).fetchall()]
