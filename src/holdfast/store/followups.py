"""Releases tasks that wait for other tasks; maintenance does it, so that settling costs nothing more."""

from holdfast.config import Settings
from holdfast.core.events import FollowupsReleased, Listener, silent
from holdfast.db.connect import Conn
from holdfast.db.statements import load

RELEASE_LIMIT = 100


class Followups:
    """The follow-ups of one installation."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._sql = load("store/followups.sql", settings.schema_name)
        self._listen = listen

    async def release(self, conn: Conn) -> bool:
        """Let those start whose tasks have all ended; whether any are still waiting."""
        while True:
            row = await (
                await conn.execute(self._sql["release_followups"], {"limit": RELEASE_LIMIT})
            ).fetchone()
            assert row is not None, "a function always answers"
            released, looked, waiting = row
            if released:
                self._listen(FollowupsReleased(released))
            if looked < RELEASE_LIMIT:
                return bool(waiting)

    async def prune(self, conn: Conn) -> int:
        """Forget what was before tasks that are gone."""
        return len(await (await conn.execute(self._sql["prune_followups"])).fetchall())
