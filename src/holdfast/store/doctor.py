"""What silently hurts: questions to the server and the schema, each with its answer and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from holdfast.config import Settings
from holdfast.core.errors import SchemaError
from holdfast.store.migrate import require_current
from holdfast.store.pool import Conn, is_direct
from holdfast.store.sql import load

SERVER_VERSION_MIN = 150000
CLOCK_SECONDS_MAX = 2.0
SNAPSHOT_SECONDS_MAX = 300.0
DAYS_AHEAD_MIN = 3


class Health(StrEnum):
    """How bad it is."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    name: str
    health: Health
    found: str
    advice: str = ""


class Doctor:
    """Looks at one installation."""

    def __init__(self, settings: Settings) -> None:
        self._schema = settings.schema_name
        self._settings = settings
        self._sql = load("doctor.sql", self._schema)

    async def examine(self, conn: Conn) -> list[Finding]:
        """Everything, the server first; without our tables the rest is not asked."""
        findings = [*await self._server(conn), self._pooler(conn), await self._snapshot(conn)]
        try:
            await require_current(conn, self._schema)
        except SchemaError as error:
            return [*findings, Finding("schema", Health.BAD, str(error))]
        findings.append(Finding("schema", Health.GOOD, f"{self._schema} is current"))
        return [*findings, *await self._tables(conn)]

    async def _server(self, conn: Conn) -> list[Finding]:
        row = await (await conn.execute(self._sql["server"])).fetchone()
        assert row is not None, "a select without a table always answers"
        version, fsync, commit, pages, vacuum, track, idle, limit, used, clock, standby = row
        skew = abs((datetime.now(UTC) - clock).total_seconds())
        return [
            _judge("version", version >= SERVER_VERSION_MIN, f"PostgreSQL {version // 10_000}", "15 or later is needed"),
            _judge("primary", not standby, "writable" if not standby else "a standby", "use the primary's address"),
            _judge("fsync", fsync == pages == "on", f"fsync {fsync}, full_page_writes {pages}",
                   "turn both on: without them a crash can lose tasks that were acknowledged"),
            _judge("synchronous_commit", commit != "off", commit,
                   "off means that a crash loses the last acknowledged tasks", Health.WARNING),
            _judge("autovacuum", vacuum == track == "on", vacuum, "turn it on: claims slow down without it"),
            _judge("idle transactions", idle != "0", f"ended after {idle}" if idle != "0" else "never ended",
                   "set idle_in_transaction_session_timeout, so that a lost client holds no locks", Health.WARNING),
            _judge("connections", used < limit * 0.8, f"{used} of {limit}", "raise max_connections, or pool",
                   Health.WARNING),
            _judge("clock", skew < CLOCK_SECONDS_MAX, f"{skew:.1f} s apart",
                   "only the database's clock decides, but people will be confused: synchronise them", Health.WARNING),
        ]  # fmt: skip

    def _pooler(self, conn: Conn) -> Finding:
        if is_direct(conn):
            return Finding("connection", Health.GOOD, "direct: plans are pinned, hints are heard")
        advice = "" if self._settings.direct_url else "set HOLDFAST_DIRECT_URL for hints, else workers poll"
        health = Health.GOOD if self._settings.direct_url else Health.WARNING
        return Finding("connection", health, "through a pooler in transaction mode", advice)

    async def _snapshot(self, conn: Conn) -> Finding:
        row = await (await conn.execute(self._sql["oldest_snapshot"])).fetchone()
        if row is None:
            return Finding("oldest transaction", Health.GOOD, "none is open")
        pid, user, application, state, seconds = row
        text = f"{seconds:.0f} s, pid {pid} of {user} ({application or 'no name'}, {state})"
        return _judge("oldest transaction", seconds < SNAPSHOT_SECONDS_MAX, text,
                      f"ask its owner, or end it: select pg_terminate_backend({pid})", Health.WARNING)  # fmt: skip

    async def _tables(self, conn: Conn) -> Sequence[Finding]:
        days = await self._one(conn, "partitions")
        usage, tables = await self._one(conn, "rights")
        silent, orphans, parked, maintained = await self._one(conn, "stuck")
        kept = maintained is not None and maintained > datetime.now(UTC)
        return [
            _judge("days ahead", days[0] >= DAYS_AHEAD_MIN, f"{days[0]}", "start a worker: maintenance makes them",
                   Health.WARNING),
            _judge("rights", usage and tables, "enough for a worker" if usage and tables else "not enough for a worker",
                   "grant the role of `holdfast migrate --grants`", Health.WARNING),
            _judge("silent workers", not silent, f"{silent}", "start a worker: maintenance takes their tasks back"),
            _judge("orphans", not orphans, f"{orphans}", "start a worker: maintenance takes them back"),
            _judge("parked kinds", not parked, f"{parked}", "start a worker that knows them", Health.WARNING),
            _judge("maintenance", kept, "someone does it" if kept else "nobody does it", "start a worker",
                   Health.WARNING),
        ]  # fmt: skip

    async def _one(self, conn: Conn, name: str) -> tuple[Any, ...]:
        row = await (await conn.execute(self._sql[name])).fetchone()
        assert row is not None, "it always answers"
        return row


def _judge(name: str, good: object, found: str, advice: str, health: Health = Health.BAD) -> Finding:
    return Finding(name, Health.GOOD, found) if good else Finding(name, health, found, advice)
