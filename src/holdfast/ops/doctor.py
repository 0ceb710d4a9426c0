"""Checks the server and the schema for hidden problems, with advice for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import psycopg

from holdfast.config import Settings
from holdfast.core.errors import SchemaError
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn, default_isolation, is_direct
from holdfast.db.migrate import payload_limit, prune_minimum, require_current
from holdfast.db.privileges import differences
from holdfast.db.statements import load
from holdfast.store.schedules import Schedules

SERVER_VERSION_MIN = 150000
CLOCK_SECONDS_MAX = 2.0
SNAPSHOT_SECONDS_MAX = 300.0
DAYS_AHEAD_MIN = 3
# So many wrong rows are looked for at once, and so many of each sort are named.
MISPLACED_MAX = 10_000
MISPLACED_NAMED = 5
GRANTS_NAMED = 5


class Health(StrEnum):
    """How bad it is."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class Misplaced(StrEnum):
    """How the row of a task in ready, blocked or running can be wrong."""

    NO_ROW = "no_row"
    SEVERAL = "several"
    DIFFERENT = "different"
    MARKED = "marked"
    NO_TASK = "no_task"


_MISPLACED = {
    Misplaced.NO_ROW: "live with no row in ready, blocked or running",
    Misplaced.SEVERAL: "live with more than one of these rows",
    Misplaced.DIFFERENT: "whose row in ready differs from tasks",
    Misplaced.MARKED: "failed, cancelled or paused, and still with such a row",
    Misplaced.NO_TASK: "deleted from tasks, and still with such a row",
}


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
        self._sql = load("ops/doctor.sql", self._schema)

    async def examine(self, conn: Conn, seconds_max: float = 0.0) -> list[Finding]:
        """Everything, the server first; without our tables the rest is not asked.

        Reading the tables of tasks takes seconds where there are millions: no longer than `seconds_max`, if that is given.
        """
        findings = [
            *await self._server(conn),
            self._pooler(conn),
            await self._isolation(conn),
            await self._snapshot(conn),
        ]
        # What they read anybody may read.
        rights = [await self._rights(conn), await self._grants(conn)]
        try:
            async with conn.transaction():
                await require_current(conn, self._schema)
        except SchemaError as error:
            return [*findings, Finding("schema", Health.BAD, str(error))]
        except psycopg.errors.InsufficientPrivilege as error:
            # Without its version nobody knows which tables the schema has.
            return [*findings, *rights, _not_examined("schema", error)]
        findings += [*rights, Finding("schema", Health.GOOD, f"{self._schema} is current")]
        for name, look in (
            ("audit prunes", self._prunes),
            ("payload limit", self._payload_limit),
            ("days ahead", self._days),
            ("workers", self._workers),
            ("schedules", self._schedules),
            ("triggers", self._triggers),
            ("api login", self._api_login),
            ("tokens", self._tokens),
        ):
            try:
                async with conn.transaction():
                    findings += await look(conn)
            except psycopg.errors.InsufficientPrivilege as error:
                findings.append(_not_examined(name, error))
        try:
            return [*findings, await self._rows(conn, seconds_max)]
        except psycopg.errors.InsufficientPrivilege as error:
            return [*findings, _not_examined("rows of tasks", error)]

    async def misplaced(self, conn: Conn, seconds_max: float = 0.0) -> Mapping[Misplaced, list[str]]:
        """Tasks whose row in ready, blocked or running is wrong, by how; no more than `MISPLACED_MAX`."""
        async with conn.transaction():
            await conn.execute(self._sql["in_one_pass"], {"milliseconds": round(seconds_max * 1_000)})
            cursor = await conn.execute(self._sql["misplaced"], {"limit": MISPLACED_MAX})
            rows = await cursor.fetchall()
        found: dict[Misplaced, dict[str, None]] = {}
        for id_, how in rows:
            found.setdefault(Misplaced(how), {})[id_] = None
        return {how: sorted(found[how]) for how in Misplaced if how in found}

    async def _rows(self, conn: Conn, seconds_max: float) -> Finding:
        try:
            found = await self.misplaced(conn, seconds_max)
        except psycopg.errors.QueryCanceled:
            return Finding("rows of tasks", Health.WARNING, "not looked at: reading them took too long",
                           "run `holdfast doctor` with a longer statement_timeout")  # fmt: skip
        parts = []
        for how, ids in found.items():
            named = ", ".join(ids[:MISPLACED_NAMED]) + (", …" if len(ids) > MISPLACED_NAMED else "")
            parts.append(f"{len(ids)} {_MISPLACED[how]}: {named}")
        return _judge("rows of tasks", not parts, "; ".join(parts) or "one for each live task",
                      "run `holdfast doctor --repair --reason …`; only Holdfast may write to its tables")  # fmt: skip

    async def _server(self, conn: Conn) -> list[Finding]:
        row = await (await conn.execute(self._sql["server"])).fetchone()
        assert row is not None, "a select without a table always answers"
        version, fsync, commit, pages, vacuum, track, idle, limit, used, clock, standby = row
        skew = abs((datetime.now(UTC) - clock).total_seconds())
        encoding = conn.info.parameter_status("server_encoding")
        return [
            _judge("encoding", encoding == "UTF8", f"{encoding}", "make another database, with encoding 'UTF8'"),
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

    async def _isolation(self, conn: Conn) -> Finding:
        level = await default_isolation(self._settings.database_url)
        if level.startswith("read"):
            return Finding("isolation", Health.GOOD, level)
        advice = "set default_transaction_isolation = 'read committed' for the role"
        if is_direct(conn):
            seen = f"{level}; Holdfast's own connections ask for read committed"
            return Finding(
                "isolation", Health.WARNING, seen, f"{advice}, or repeat your transactions that get 40001"
            )
        return Finding("isolation", Health.BAD, f"{level}: workers refuse to claim", advice)

    async def _snapshot(self, conn: Conn) -> Finding:
        row = await (await conn.execute(self._sql["oldest_snapshot"])).fetchone()
        if row is None:
            return Finding("oldest transaction", Health.GOOD, "none is open")
        pid, user, application, state, seconds = row
        text = f"{seconds:.0f} s, pid {pid} of {user} ({application or 'no name'}, {state})"
        return _judge("oldest transaction", seconds < SNAPSHOT_SECONDS_MAX, text,
                      f"ask its owner, or end it: select pg_terminate_backend({pid})", Health.WARNING)  # fmt: skip

    async def _prunes(self, conn: Conn) -> list[Finding]:
        minimum = await prune_minimum(conn, self._schema)
        kept = f"entries are kept for at least {minimum} day{'s' if minimum != 1 else ''}"
        return [
            _judge("audit prunes", minimum, kept if minimum else "entries of any age can be pruned",
                   "run `holdfast migrate` with HOLDFAST_AUDIT_PRUNE_DAYS_MIN of at least 1", Health.WARNING),
        ]  # fmt: skip

    async def _payload_limit(self, conn: Conn) -> list[Finding]:
        limit, wanted = await payload_limit(conn, self._schema), self._settings.payload_bytes_max
        found = f"{limit} bytes" if limit == wanted else f"{limit} bytes in SQL, {wanted} in Python"
        return [
            _judge("payload limit", limit == wanted, found,
                   "run `holdfast migrate` with HOLDFAST_PAYLOAD_BYTES_MAX as your applications have it", Health.WARNING),
        ]  # fmt: skip

    async def _days(self, conn: Conn) -> list[Finding]:
        (days,) = await self._one(conn, "partitions")
        return [
            _judge("days ahead", days >= DAYS_AHEAD_MIN, f"{days}", "start a worker: maintenance makes them",
                   Health.WARNING),
        ]  # fmt: skip

    async def _workers(self, conn: Conn) -> list[Finding]:
        silent, orphans, parked, kept = await self._one(conn, "stuck")
        return [
            _judge("silent workers", not silent, f"{silent}", "start a worker: maintenance takes their tasks back"),
            _judge("orphans", not orphans, f"{orphans}", "start a worker: maintenance takes them back"),
            _judge("parked kinds", not parked, f"{parked}", "start a worker that knows them", Health.WARNING),
            _judge("maintenance", kept, "someone does it" if kept else "nobody does it", "start a worker",
                   Health.WARNING),
        ]  # fmt: skip

    async def _rights(self, conn: Conn) -> Finding:
        """Which roles this login has; what each of them may do, the grants say."""
        login, owner, roles = await self._one(conn, "login", {"schema": self._schema})
        found = "owner of the schema" if owner else " and ".join(roles) or "none of the roles of Holdfast"
        return _judge("rights", owner or roles, f"{login}: {found}",
                      "grant it a role of `holdfast migrate --grants`", Health.WARNING)  # fmt: skip

    async def _api_login(self, conn: Conn) -> list[Finding]:
        """Whether the database believes running API processes whose token asks."""
        rows = await (await conn.execute(self._sql["api_logins"])).fetchall()
        names = ", ".join(name for (name,) in rows)
        return [
            _judge("api login", not rows, f"{names}: tokens are ignored, approvals refused" if rows else "tokens are believed",
                   "grant it holdfast_api and restart the API", Health.WARNING),
        ]  # fmt: skip

    async def _triggers(self, conn: Conn) -> list[Finding]:
        """Whether the triggers that protect the audit are enabled."""
        rows = await (await conn.execute(self._sql["disabled_triggers"])).fetchall()
        names = ", ".join(name for (name,) in rows)
        return [
            _judge("triggers", not rows, f"disabled: {names}" if rows else "all are enabled",
                   "enable them as the owner: alter table … enable trigger …", Health.WARNING),
        ]  # fmt: skip

    async def _tokens(self, conn: Conn) -> list[Finding]:
        """Whether the name of a token says which one it is; releases before 0.3.0 did not look."""
        try:
            async with conn.transaction():
                rows = await (await conn.execute(self._sql["tokens_of_one_name"])).fetchall()
        except psycopg.errors.InsufficientPrivilege:
            # As it is meant: workers cannot read tokens.
            return [Finding("tokens", Health.GOOD, "not examined: this login may not read them")]
        found = ", ".join(f"{count} are named {name}" for name, count in rows)
        return [
            _judge("tokens", not rows, found or "one for each name",
                   "revoke all but one: `holdfast token list`, `holdfast token revoke TOKEN`", Health.WARNING),
        ]  # fmt: skip

    async def _grants(self, conn: Conn) -> Finding:
        """Whether the roles may do what they are meant to do, and no more."""
        found = await differences(conn, self._schema)
        parts = [f"unexpected: {one}" for one in found.unexpected] + [
            f"missing: {one}" for one in found.missing
        ]
        if len(parts) > GRANTS_NAMED:
            parts = [*parts[:GRANTS_NAMED], f"and {len(parts) - GRANTS_NAMED} more"]
        good = (
            "as `holdfast migrate --grants` has them"
            if found.used
            else "not used: processes log in as the owner"
        )
        return _judge("grants", not parts, "; ".join(parts) or good,
                      "run what `holdfast migrate --grants` prints, as the owner", Health.WARNING)  # fmt: skip

    async def _schedules(self, conn: Conn) -> list[Finding]:
        """Whether each schedule fires at its next tick."""
        now = await read_clock(conn)
        known = [view for view in await Schedules(self._settings).list(conn) if view.paused_at is None]
        failed = [view.name for view in known if view.failed_at is not None]
        if failed:
            return [
                Finding("schedules", Health.WARNING, f"{', '.join(failed)} could not be fired",
                        "the log of a worker says why; a host may lack a time zone: install tzdata there"),
            ]  # fmt: skip
        late = [
            f"{view.name} not before {view.next_at.astimezone(UTC):%Y-%m-%d %H:%M}Z"
            for view in known
            if view.is_delayed(now)
        ]
        return [
            _judge("schedules", not late, ", ".join(late) or f"{len(known)}",
                   "the database's clock was put back, and these ticks were dealt with before; "
                   "to fire them again, pause and resume the schedule", Health.WARNING),
        ]  # fmt: skip

    async def _one(
        self, conn: Conn, name: str, values: Mapping[str, object] | None = None
    ) -> tuple[Any, ...]:
        row = await (await conn.execute(self._sql[name], values)).fetchone()
        assert row is not None, "it always answers"
        return row


def _judge(name: str, good: object, found: str, advice: str, health: Health = Health.BAD) -> Finding:
    return Finding(name, Health.GOOD, found) if good else Finding(name, health, found, advice)


def _not_examined(name: str, error: psycopg.errors.InsufficientPrivilege) -> Finding:
    return Finding(name, Health.WARNING, f"not examined: {str(error).strip().splitlines()[0]}",
                   "run it as the owner, or as a member of holdfast_operator, holdfast_api or holdfast_worker")  # fmt: skip
