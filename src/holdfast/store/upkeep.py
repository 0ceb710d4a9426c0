"""Maintenance of the tables: retention, pruning, counts."""

import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import psycopg

from holdfast.config import Settings
from holdfast.core.audit import PRUNE_BATCH
from holdfast.core.events import Listener, OwnerNeeded, PartitionsChanged, silent
from holdfast.core.operator_events import GroupRegressed
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn
from holdfast.db.partitions import drop_old_partitions, ensure_partitions, index_closed_partitions
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter
from holdfast.store.followups import Followups
from holdfast.store.idempotency import KeptAnswers
from holdfast.store.kinds import Declarations
from holdfast.store.operate import Operator
from holdfast.views.counts import Samples
from holdfast.views.dashboard import note_queues

CANCELLED_DAYS = 30
MINUTES_DAYS = 90
FAILURE_HOURS_DAYS = 90
PRUNE_LIMIT = 1_000
ROLL_LIMIT = 10_000
# In a round no longer is spent on one chore: what is left then is done in the next.
CHORE_SECONDS = 5.0
# What nobody has declared for months need not be looked at more often.
KINDS_SECONDS = 86_400.0


class Upkeep:
    """The chores of a day, each small enough to be cut short; `now` is the database's unless given."""

    def __init__(self, settings: Settings | None = None, listen: Listener = silent) -> None:
        self._settings = settings = settings or Settings()
        self._schema = settings.schema_name
        self._sql = load("views/counts.sql", self._schema)
        self._failures = load("store/failures.sql", self._schema)
        self._answers = KeptAnswers(settings)
        self._declarations = Declarations(settings)
        self._kinds_at = 0.0
        self._samples = Samples(settings)
        self._audit = AuditWriter(settings, listen)
        self._audit_days = settings.audit_ttl_days
        self._operator = Operator(settings, listen, by="upkeep")
        self._followups = Followups(settings, listen)
        self._listen = listen

    async def run(self, conn: Conn, now: datetime | None = None) -> None:
        """Everything once. What may wait for a reader, or needs the owner's rights, comes last."""
        today = now.date() if now is not None else None
        created = await ensure_partitions(conn, self._schema, today)
        await self.often(conn, now)
        await self._operator.prune_cancel_requests(conn)
        await self._operator.prune_workers(conn)
        await conn.execute(self._sql["prune_minutes"], {"now": now, "days": MINUTES_DAYS})
        await conn.execute(self._failures["prune_failure_hours"], {"days": FAILURE_HOURS_DAYS})
        await self._answers.prune_sessions(conn)
        await self._prune_kinds(conn)
        if self._audit_days:
            old = (now or await read_clock(conn)) - timedelta(days=self._audit_days)
            await _all(lambda: self._audit.prune_expired(conn, old), PRUNE_BATCH)
        dropped: list[str] = []
        try:
            dropped = await drop_old_partitions(conn, self._schema, today)
            await index_closed_partitions(conn, self._schema, today)
        except psycopg.errors.InsufficientPrivilege as error:
            self._listen(OwnerNeeded(str(error)))
        if created or dropped:
            self._listen(PartitionsChanged(created, dropped))

    async def often(self, conn: Conn, now: datetime | None = None) -> None:
        """What is counted by the minute, and what comes in such numbers that it must go as fast."""
        operator = self._operator
        await _all(lambda: operator.prune_keys(conn, PRUNE_LIMIT), PRUNE_LIMIT)
        await _all(lambda: operator.prune_rates(conn, PRUNE_LIMIT), PRUNE_LIMIT)
        await _all(
            lambda: operator.prune_cancelled(conn, CANCELLED_DAYS, now=now, limit=PRUNE_LIMIT), PRUNE_LIMIT
        )
        await self._followups.prune(conn)
        await _all(lambda: self.roll_up(conn, now, ROLL_LIMIT), ROLL_LIMIT)
        await _all(lambda: self.roll_up_failures(conn, ROLL_LIMIT), ROLL_LIMIT)
        await _all(lambda: self._answers.prune(conn, PRUNE_LIMIT), PRUNE_LIMIT)
        await self._samples.take(conn)
        await note_queues(conn, self._settings)

    async def _prune_kinds(self, conn: Conn) -> None:
        if time.monotonic() >= self._kinds_at:
            await self._declarations.prune(conn)
            self._kinds_at = time.monotonic() + KINDS_SECONDS

    async def roll_up(self, conn: Conn, now: datetime | None = None, limit: int = ROLL_LIMIT) -> int:
        """Add closed minutes to the counts."""
        cursor = await conn.execute(self._sql["roll_up"], {"now": now, "limit": limit})
        row = await cursor.fetchone()
        assert row is not None, "a count always answers"
        rolled: int = row[0]
        return rolled

    async def roll_up_failures(self, conn: Conn, limit: int = ROLL_LIMIT) -> int:
        """Add failures to the counts of their causes, and tell which causes came back."""
        row = await (await conn.execute(self._failures["roll_up_failures"], {"limit": limit})).fetchone()
        assert row is not None, "a count always answers"
        for fingerprint in row[1]:
            self._listen(GroupRegressed(fingerprint))
        rolled: int = row[0]
        return rolled


async def _all(work: Callable[[], Awaitable[int]], limit: int) -> None:
    """Again and again while there is as much as fits into one go, and time."""
    until = time.monotonic() + CHORE_SECONDS
    while await work() >= limit and time.monotonic() < until:
        pass
