"""Migrates the schema up and down with numbered plain SQL files."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import LiteralString

from psycopg import sql

from holdfast.config import AUDIT_PRUNE_DAYS_MIN, PAYLOAD_BYTES_MAX
from holdfast.core.errors import SchemaError
from holdfast.db.connect import Conn
from holdfast.db.partitions import ensure_partitions
from holdfast.db.statements import PACKAGE, in_schema, load

_FILE = re.compile(r"^(\d{4})_(\w+)\.up\.sql$")
# Files with functions; a feature brings its own.
_FUNCTION_FILES = (
    "store/bounds.sql",
    "store/enqueue.sql",
    "store/keys.sql",
    "store/followups.sql",
    "store/settle.sql",
    "store/line.sql",
    "store/permits.sql",
    "store/claim.sql",
    "store/claim_blocked.sql",
    "db/partitions.sql",
    "store/audit.sql",
    "webhooks/webhooks.sql",
)
# Two runners wait for each other until one commits. Nobody but the owner can hold the lock of the table; any
# login can hold the other one, which is only for the first run of all.
_LOCK = "lock table holdfast.migrations in share row exclusive mode"
_FIRST_LOCK = "select pg_advisory_xact_lock(hashtextextended('holdfast.migrate', 0))"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered change of the schema, with the way back."""

    number: int
    name: str
    up: LiteralString
    down: LiteralString

    @property
    def checksum(self) -> str:
        """Tells whether the file is still the one that was applied."""
        return hashlib.sha256(self.up.encode()).hexdigest()


def migrations(schema: str) -> list[Migration]:
    """Every migration of this package, in order."""
    folder = files(PACKAGE) / "db/migrations"
    found = []
    for entry in folder.iterdir():
        match = _FILE.match(entry.name)
        if match is None:
            continue
        number, name = match.groups()
        up = entry.read_text(encoding="utf-8")
        down = (folder / f"{number}_{name}.down.sql").read_text(encoding="utf-8")
        found.append(Migration(int(number), name, in_schema(up, schema), in_schema(down, schema)))
    return sorted(found, key=lambda migration: migration.number)


async def migrate_up(
    conn: Conn,
    schema: str,
    *,
    payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    audit_prune_days_min: int = AUDIT_PRUNE_DAYS_MIN,
) -> list[Migration]:
    """Apply what is missing, then lay down the functions of this version; returns what was applied."""
    async with conn.transaction():
        if not await _applied(conn, schema):
            await conn.execute(_FIRST_LOCK)
        await conn.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))
        await conn.execute(
            in_schema(
                "create table if not exists holdfast.migrations (number integer primary key, "
                "name text not null, checksum text not null, applied_at timestamptz not null default now())",
                schema,
            )
        )
        await conn.execute(in_schema(_LOCK, schema))
        missing = await pending(conn, schema)
        for migration in missing:
            await conn.execute(migration.up)
            await conn.execute(
                in_schema("insert into holdfast.migrations values (%s, %s, %s)", schema),
                [migration.number, migration.name, migration.checksum],
            )
        for statement in function_statements(schema, payload_bytes_max, audit_prune_days_min):
            await conn.execute(statement)
        for signature in await _outlived(conn, schema):
            await conn.execute(in_schema(f"drop function {signature}", schema))
        # PostgreSQL lets everybody call a new function: here only whom the grants name.
        await conn.execute(in_schema("revoke all on all functions in schema holdfast from public", schema))
    await ensure_partitions(conn, schema)
    return missing


async def payload_limit(conn: Conn, schema: str) -> int | None:
    """The largest payload that the functions in the database take; None before they are there."""
    return await _installed_setting(conn, schema, "payload_bytes_max")


async def prune_minimum(conn: Conn, schema: str) -> int | None:
    """The age in days below which the functions in the database prune no entry of the audit."""
    return await _installed_setting(conn, schema, "audit_prune_days_min")


async def _installed_setting(conn: Conn, schema: str, name: str) -> int | None:
    """A setting as it was when `migrate_up` ran last; None before that."""
    cursor = await conn.execute("select to_regprocedure(%s)", [f"{schema}.{name}()"])
    row = await cursor.fetchone()
    if row is None or row[0] is None:
        return None
    row = await (await conn.execute(in_schema(f"select holdfast.{name}()", schema))).fetchone()
    assert row is not None, "the function always answers"
    value: int = row[0]
    return value


async def migrate_down(conn: Conn, schema: str, to: int = 0) -> list[Migration]:
    """Take back the migrations above a number, newest first; returns what was taken back."""
    async with conn.transaction():
        if await _applied(conn, schema):
            await conn.execute(in_schema(_LOCK, schema))
        undone = await above(conn, schema, to)
        if undone and to == 0:
            for signature in await _functions(conn, schema):
                await conn.execute(in_schema(f"drop function if exists {signature}", schema))
        for migration in undone:
            await conn.execute(migration.down)
            await conn.execute(
                in_schema("delete from holdfast.migrations where number = %s", schema),
                [migration.number],
            )
    return undone


async def above(conn: Conn, schema: str, to: int) -> list[Migration]:
    """What migrating down to a number would take back, newest first."""
    applied = await _applied(conn, schema)
    return [m for m in reversed(migrations(schema)) if m.number in applied and m.number > to]


def function_statements(
    schema: str,
    payload_bytes_max: int = PAYLOAD_BYTES_MAX,
    audit_prune_days_min: int = AUDIT_PRUNE_DAYS_MIN,
) -> list[LiteralString]:
    """The functions of this version, with the settings in them; each replaces what an earlier one left."""
    return [
        text.replace("{payload_bytes_max}", f"{payload_bytes_max:d}").replace(
            "{audit_prune_days_min}", f"{audit_prune_days_min:d}"
        )
        for file in _FUNCTION_FILES
        for name, text in load(file, schema).items()
        if name.startswith("install_")
    ]


def grants(schema: str) -> LiteralString:
    """Least-privilege roles, as SQL to read and run."""
    return load("db/grants.sql", schema)["grants"]


def require_utf8(conn: Conn) -> None:
    """Refuse a database that cannot keep every text."""
    encoding = conn.info.parameter_status("server_encoding")
    if encoding not in (None, "UTF8"):
        raise SchemaError(
            f"the database has the encoding {encoding}, and Holdfast needs UTF8: create another one with "
            "`create database … encoding 'UTF8' locale 'C.UTF-8' template template0`"
        )


async def require_read_committed(conn: Conn) -> None:
    """Refuse a session whose transactions are repeatable read or serializable."""
    row = await (await conn.execute("select current_setting('transaction_isolation')")).fetchone()
    if row is not None and row[0] in ("repeatable read", "serializable"):
        raise SchemaError(
            f"transactions on this connection are {row[0]}, and a pooler drops the option that asks for "
            "read committed: set default_transaction_isolation = 'read committed' for the role"
        )


async def require_current(conn: Conn, schema: str) -> None:
    """Refuse to work on a schema that is older or newer than this package, or on another encoding."""
    require_utf8(conn)
    cursor = await conn.execute("select to_regclass(%s)", [f"{schema}.migrations"])
    exists = await cursor.fetchone()
    if exists is None or exists[0] is None:
        raise SchemaError(f"the schema {schema} has no tables yet: run `holdfast migrate`")
    newest = max(migration.number for migration in migrations(schema))
    at = max(await _applied(conn, schema), default=0)
    if at < newest:
        raise SchemaError(
            f"the schema {schema} is at {at}, this package needs {newest}: run `holdfast migrate`"
        )
    if at > newest:
        raise SchemaError(
            f"the schema {schema} is at {at}, newer than this package's {newest}: upgrade holdfast"
        )


async def _applied(conn: Conn, schema: str) -> dict[int, str]:
    cursor = await conn.execute("select to_regclass(%s)", [f"{schema}.migrations"])
    row = await cursor.fetchone()
    if row is None or row[0] is None:
        return {}
    rows = await conn.execute(in_schema("select number, checksum from holdfast.migrations", schema))
    return {number: checksum async for number, checksum in rows}


async def pending(conn: Conn, schema: str) -> list[Migration]:
    """What migrating up would apply."""
    require_utf8(conn)
    applied = await _applied(conn, schema)
    for migration in migrations(schema):
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise SchemaError(
                f"migration {migration.number:04} ({migration.name}) was changed after it had been "
                "applied: restore the file and write a new migration"
            )
    return [migration for migration in migrations(schema) if migration.number not in applied]


async def require_no_tasks(conn: Conn, schema: str) -> None:
    """Refuse to go down while tasks are there."""
    if 1 not in await _applied(conn, schema):
        return
    cursor = await conn.execute(
        in_schema(
            "select (select count(*) from holdfast.tasks), (select count(*) from holdfast.task_history)",
            schema,
        )
    )
    row = await cursor.fetchone()
    if row is not None and (row[0] or row[1]):
        raise SchemaError(
            f"the schema {schema} holds {row[0]} tasks and {row[1]} that completed, "
            "which going down removes: add --yes"
        )


async def _outlived(conn: Conn, schema: str) -> Sequence[str]:
    """Functions of an earlier version that took other arguments: a call would not know which one is meant."""
    rows = await conn.execute(
        "select x.signature from ("
        " select p.oid::regprocedure::text as signature,"
        " row_number() over (partition by p.proname order by p.oid desc) as nth"
        " from pg_proc p where p.pronamespace = %s::regnamespace) x where x.nth > 1",
        [schema],
    )
    return [signature async for (signature,) in rows]


async def _functions(conn: Conn, schema: str) -> Sequence[str]:
    rows = await conn.execute(
        # Those of triggers come and go with the tables that have them.
        "select p.oid::regprocedure::text from pg_proc p where p.pronamespace = %s::regnamespace"
        " and p.prorettype <> 'trigger'::regtype",
        [schema],
    )
    return [signature async for (signature,) in rows]
