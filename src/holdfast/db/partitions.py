"""Creates day partitions ahead of time and detaches expired ones; it never deletes rows.

Measured: with one reader open, `create table … partition of`, `drop` and plain `detach` stop every
settle for seconds, because they want the parent for themselves. So a partition is created apart and
attached (`make_partition` in partitions.sql, which tries for its locks for 100 ms), and detached
concurrently, which waits for readers and holds up nobody. There is no default partition: PostgreSQL
refuses to detach concurrently beside one. A settle that finds no partition for its day makes it and
goes on (store/settle.py).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

import psycopg
from psycopg import sql

from holdfast.db.connect import Conn
from holdfast.db.statements import in_schema

DAYS_AHEAD = 14
HISTORY_DAYS = 7
ATTEMPT_DAYS = 90
DELIVERY_DAYS = 30

RETENTION_DAYS = {
    "task_history": HISTORY_DAYS,
    "task_attempts": ATTEMPT_DAYS,
    "webhook_attempts": DELIVERY_DAYS,
}
PARTITIONED = tuple(RETENTION_DAYS)
_CLOSED_INDEXES: dict[LiteralString, tuple[LiteralString, ...]] = {
    "task_history": ("subject", "trace_id"),
    "task_attempts": (),
}


async def ensure_partitions(conn: Conn, schema: str, today: date | None = None) -> list[str]:
    """Make the partitions from today to two weeks ahead; returns the new ones."""
    first = today or await _today(conn)
    make = in_schema("select holdfast.make_partition(%s, %s)", schema)
    created = []
    for table in PARTITIONED:
        present = {day for day, _ in await _partitions(conn, schema, table)}
        for ahead in range(DAYS_AHEAD + 1):
            day = first + timedelta(days=ahead)
            if day in present:
                continue
            row = await (await conn.execute(make, [table, day])).fetchone()
            if row is not None and row[0]:
                created.append(_name(table, day))
    return created


async def drop_old_partitions(conn: Conn, schema: str, today: date | None = None) -> list[str]:
    """Let go of the days whose retention is over; returns the ones that are gone."""
    now = today or await _today(conn)
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
    now = today or await _today(conn)
    made = []
    for table, columns in _CLOSED_INDEXES.items():
        for day, _ in await _partitions(conn, schema, table):
            made += [
                f"{_name(table, day)}_{column}"
                for column in columns
                if day < now and await _index(conn, schema, _name(table, day), column)
            ]
    return made


async def _today(conn: Conn) -> date:
    """The database's day: no worker's clock decides what is dropped."""
    row = await (await conn.execute("select (now() at time zone 'UTC')::date")).fetchone()
    assert row is not None, "the clock always answers"
    day: date = row[0]
    return day


def _name(table: str, day: date) -> str:
    return f"{table}_{day:%Y%m%d}"


async def _partitions(conn: Conn, schema: str, table: str) -> list[tuple[date, bool]]:
    rows = await conn.execute(
        "select c.relname, i.inhdetachpending from pg_inherits i join pg_class c on c.oid = i.inhrelid "
        "where i.inhparent = %s::regclass and c.relname ~ '_[0-9]{8}$' order by c.relname",
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
        await conn.execute(sql.SQL("drop table {partition}").format(**names))
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.UndefinedTable):
        # Someone else is letting this day go.
        return False
    return True


async def _index(conn: Conn, schema: str, partition: str, column: str) -> bool:
    name = f"{partition}_{column}"
    cursor = await conn.execute(
        "select indisvalid from pg_index where indexrelid = to_regclass(%s)", [f"{schema}.{name}"]
    )
    found = await cursor.fetchone()
    if found is not None and found[0]:
        return False
    building = await conn.execute(
        "select from pg_stat_progress_create_index p where p.index_relid = to_regclass(%s)",
        [f"{schema}.{name}"],
    )
    if await building.fetchone() is not None:
        return False
    if found is not None:
        # What a maker that died half way left behind is of no use to anyone.
        await conn.execute(sql.SQL("drop index concurrently {}").format(sql.Identifier(schema, name)))
    await conn.execute(
        sql.SQL("create index concurrently {} on {} ({}) where {} is not null").format(
            sql.Identifier(name),
            sql.Identifier(schema, partition),
            sql.Identifier(column),
            sql.Identifier(column),
        )
    )
    return True
