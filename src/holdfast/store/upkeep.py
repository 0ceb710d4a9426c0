"""What keeps the tables small and the counts right; run by whichever worker has maintenance."""

from datetime import datetime

import psycopg

from holdfast.config import Settings
from holdfast.core.events import Listener, OwnerNeeded, PartitionsChanged, silent
from holdfast.store.followups import Followups
from holdfast.store.operate import Operator
from holdfast.store.partitions import drop_old_partitions, ensure_partitions, index_closed_partitions
from holdfast.store.pool import Conn
from holdfast.store.sql import load

CANCELLED_DAYS = 30


class Upkeep:
    """The chores of a day, each small enough to be cut short; `now` is the database's unless given."""

    def __init__(self, settings: Settings | None = None, listen: Listener = silent) -> None:
        settings = settings or Settings()
        self._schema = settings.schema_name
        self._sql = load("counts.sql", self._schema)
        self._operator = Operator(settings, listen, by="upkeep")
        self._followups = Followups(settings, listen)
        self._listen = listen

    async def run(self, conn: Conn, now: datetime | None = None) -> None:
        """Everything once. What may wait for a reader, or needs the owner's rights, comes last."""
        today = now.date() if now is not None else None
        created = await ensure_partitions(conn, self._schema, today)
        await self._operator.expire(conn)
        await self._operator.reopen(conn)
        await self._operator.prune_keys(conn)
        await self._operator.prune_cancel_requests(conn)
        await self._followups.prune(conn)
        await self._operator.prune_workers(conn)
        await self._operator.prune_cancelled(conn, CANCELLED_DAYS, now=now)
        await self.roll_up(conn, now)
        dropped: list[str] = []
        try:
            dropped = await drop_old_partitions(conn, self._schema, today)
            await index_closed_partitions(conn, self._schema, today)
        except psycopg.errors.InsufficientPrivilege as error:
            self._listen(OwnerNeeded(str(error)))
        if created or dropped:
            self._listen(PartitionsChanged(created, dropped))

    async def roll_up(self, conn: Conn, now: datetime | None = None, limit: int = 10_000) -> int:
        """Add closed minutes to the counts."""
        cursor = await conn.execute(self._sql["roll_up"], {"now": now, "limit": limit})
        row = await cursor.fetchone()
        assert row is not None, "a count always answers"
        rolled: int = row[0]
        return rolled
