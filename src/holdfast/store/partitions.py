"""Day partitions of history and attempts: made ahead, let go by detaching, never by deleting rows.

Measured: with one reader open, `create table … partition of`, `drop` and plain `detach` stop every
settle for seconds, because they want the parent for themselves. So a partition is created apart and
attached, and detached concurrently; each tries for its lock for 100 ms and comes back later. There is
no default partition: PostgreSQL refuses to detach concurrently beside one. A settle that finds no
partition for its day makes it and goes on (store/tasks.py).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

import psycopg
from psycopg import sql

from holdfast.store.pool import Conn

DAYS_AHEAD = 14
HISTORY_DAYS = 7
ATTEMPT_DAYS = 90

PARTITIONED: dict[LiteralString, LiteralString] = {
    "task_history": "finished_at",
    "task_attempts": "ended_at",
}
RETENTION_DAYS = {"task_history": HISTORY_DAYS, "task_attempts": ATTEMPT_DAYS}
_CLOSED_INDEXES: dict[LiteralString, tuple[LiteralString, ...]] = {
    "task_history": ("subject", "trace_id"),
    "task_attempts": (),
}


async def ensure_partitions(conn: Conn, schema: str, today: date | None = None) -> list[str]:
    """Make the partitions from today to two weeks ahead; returns the new ones."""
    first = today or datetime.now(UTC).date()
    created = []
    for table, column in PARTITIONED.items():
        present = {day for day, _ in await _partitions(conn, schema, table)}
        for ahead in range(DAYS_AHEAD + 1):
            day = first + timedelta(days=ahead)
            if day not in present and await _attach(conn, schema, table, column, day):
                created.append(_name(table, day))
    return created


async def drop_old_partitions(conn: Conn, schema: str, today: date | None = None) -> list[str]:
    """Let go of the days whose retention is over; returns the ones that are gone."""
    now = today or datetime.now(UTC).date()
    gone = []
    for table in PARTITIONED:
        oldest = now - timedelta(days=RETENTION_DAYS[table])
        for day, pending in await _partitions(conn, schema, table):
            if day < oldest and await _detach(conn, schema, table, day, pending=pending):
                gone.append(_name(table, day))
        for name in await _detached(conn, schema, table, oldest):
            await conn.execute(sql.SQL("drop table {}").format(sql.Identifier(schema, name)))
    return gone


async def index_closed_partitions(conn: Conn, schema: str, today: date | None = None) -> list[str]:
    """Give the days that take no more rows the indexes that only readers need."""
    now = today or datetime.now(UTC).date()
    made = []
    for table, columns in _CLOSED_INDEXES.items():
        for day, _ in await _partitions(conn, schema, table):
            made += [
                f"{_name(table, day)}_{column}"
                for column in columns
                if day < now and await _index(conn, schema, _name(table, day), column)
            ]
    return made


def _name(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


async def _partitions(conn: Conn, schema: str, table: str) -> list[tuple[date, bool]]:
    rows = await conn.execute(
        "select c.relname, i.inhdetachpending from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = %s::regclass order by c.relname",
        [f"{schema}.{table}"],
    )
    return [(_day(name), pending) async for name, pending in rows]


def _day(partition: str) -> date:
    return datetime.strptime(partition[-8:], "%Y%m%d").replace(tzinfo=UTC).date()


async def _detached(conn: Conn, schema: str, table: str, oldest: date) -> Sequence[str]:
    """Partitions that were detached by someone who died before dropping them."""
    rows = await conn.execute(
        "select c.relname from pg_class c where c.relnamespace = %s::regnamespace and c.relkind = 'r' "
        "and c.relname ~ %s and not exists (select from pg_inherits i where i.inhrelid = c.oid)",
        [schema, f"^{table}_[0-9]{{8}}$"],
    )
    return [name async for (name,) in rows if _day(name) < oldest]


def _bounds(day: date) -> tuple[str, str]:
    return f"{day} 00:00:00+00", f"{day + timedelta(days=1)} 00:00:00+00"


async def _attach(conn: Conn, schema: str, table: str, column: str, day: date) -> bool:
    partition = sql.Identifier(schema, _name(table, day))
    names = {
        "parent": sql.Identifier(schema, table),
        "partition": partition,
        "column": sql.Identifier(column),
        "start": sql.Literal(_bounds(day)[0]),
        "end": sql.Literal(_bounds(day)[1]),
    }
    try:
        async with conn.transaction():
            await conn.execute("set local lock_timeout = '100ms'")
            await conn.execute("select pg_advisory_xact_lock(hashtextextended('holdfast.partitions', 0))")
            await conn.execute(
                sql.SQL(
                    "create table if not exists {partition} "
                    "(like {parent} including defaults including constraints, "
                    "check ({column} >= {start} and {column} < {end})) "
                    "with (autovacuum_vacuum_insert_scale_factor = 0.5)"
                ).format(**names)
            )
            await conn.execute(
                sql.SQL(
                    "alter table {parent} attach partition {partition} for values from ({start}) to ({end})"
                ).format(**names)
            )
    except (psycopg.errors.LockNotAvailable, psycopg.errors.WrongObjectType):
        # Someone holds the parent, or made this partition since we looked: the next round will see.
        return False
    return True


async def _detach(conn: Conn, schema: str, table: str, day: date, *, pending: bool) -> bool:
    names = {
        "parent": sql.Identifier(schema, table),
        "partition": sql.Identifier(schema, _name(table, day)),
    }
    how = "finalize" if pending else "concurrently"
    try:
        await conn.execute(
            sql.SQL("alter table {parent} detach partition {partition} " + how).format(**names)
        )
    except psycopg.errors.LockNotAvailable:
        return False
    await conn.execute(sql.SQL("drop table {partition}").format(**names))
    return True


async def _index(conn: Conn, schema: str, partition: str, column: str) -> bool:
    name = f"{partition}_{column}"
    cursor = await conn.execute("select to_regclass(%s)", [f"{schema}.{name}"])
    found = await cursor.fetchone()
    if found is not None and found[0] is not None:
        return False
    await conn.execute(
        sql.SQL("create index concurrently {} on {} ({}) where {} is not null").format(
            sql.Identifier(name),
            sql.Identifier(schema, partition),
            sql.Identifier(column),
            sql.Identifier(column),
        )
    )
    return True
