"""Opens connections with query plans pinned to the indexes where the server allows it.

A prepared statement's plan is made once. If the narrow tables happen to be empty at that moment, the
planner prefers to read them whole, and goes on doing so when they have grown (measured: a third of
the rate within seconds). So a direct connection turns whole reads off for itself when it starts. A
pooler in transaction mode refuses or drops that; then nothing is prepared, plans are made for the tables
as they are (those of claims, in functions, are pinned there too), and only some speed is lost. No `set` is
ever sent that would outlive its transaction: behind a pooler it would leak.

In the same way a direct connection asks for transactions that read what is committed, whatever the server,
the database or the role has as its default. Transactions of several statements name that level when they
begin, which works behind a pooler too; the functions of claims refuse any other.
"""

import os
from datetime import UTC, datetime
from typing import TypeAlias

import psycopg
from psycopg import AsyncConnection, IsolationLevel
from psycopg.abc import Buffer
from psycopg.pq import Conninfo
from psycopg.rows import TupleRow
from psycopg.types.datetime import TimestamptzLoader

from holdfast.core.errors import DatabaseAway, NotAllowed

Conn: TypeAlias = AsyncConnection[TupleRow]

# With whole reads off, one that cannot be avoided is priced so high that the server would compile it:
# measured, 1.5 s for a query of a millisecond. Nothing here gains from that, nor from remembering places
# that come up once each (measured, 3 µs of the server's 22 for each task that completes).
PINNED = "-c enable_seqscan=off -c jit=off -c enable_memoize=off"
# A backend that waits for a lock does not notice by itself that its client has gone, and goes on waiting.
CLIENT_CHECKED = "-c client_connection_check_interval=2s"
COMMITTED = r"-c default_transaction_isolation=read\ committed"
# For connections on which only our own statements run: a function in a schema that others may create in is
# not found, also where its arguments match better than those of PostgreSQL's own.
OWN_PATH = "-c search_path=pg_catalog,pg_temp"
# Whatever the role or the database has as its default: texts are not ASCII alone.
ENCODING = "UTF8"
_PREPARE_AFTER = 2


async def connect(
    url: str, *, application: str = "holdfast", lock_seconds: float | None = None, path: str = ""
) -> Conn:
    """Open a connection that commits each statement by itself and waits so long for a lock.

    `path` is `OWN_PATH` where no statement of a user's runs on it.
    """
    waits = "" if lock_seconds is None else f"-c lock_timeout={lock_seconds * 1_000:.0f}"
    try:
        conn = await AsyncConnection.connect(
            url,
            autocommit=True,
            options=options_for(url, PINNED, COMMITTED, CLIENT_CHECKED, waits, path),
            client_encoding=ENCODING,
            application_name=application,
        )
    except psycopg.OperationalError as error:
        if not refuses_options(error):
            raise
        conn = await AsyncConnection.connect(
            url, autocommit=True, client_encoding=ENCODING, application_name=application
        )
    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    shown = await (await conn.execute("show enable_seqscan")).fetchone()
    pinned = shown is not None and shown[0] == "off"
    conn.prepare_threshold = _PREPARE_AFTER if pinned else None
    return conn


def connect_sync(url: str, *, application: str) -> "psycopg.Connection[TupleRow]":
    """The same for calls that block; nothing is prepared, because a pooler may stand between."""
    try:
        conn = psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            options=options_for(url, COMMITTED, CLIENT_CHECKED),
            client_encoding=ENCODING,
            application_name=application,
        )
    except psycopg.OperationalError as error:
        if not refuses_options(error):
            raise
        conn = psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            client_encoding=ENCODING,
            application_name=application,
        )
    conn.set_isolation_level(IsolationLevel.READ_COMMITTED)
    return conn


class ReadableTimes(TimestamptzLoader):
    """Reads times that Python has no years for as the first or the last that it has.

    Otherwise one row, such as a task that is due in the year 12000, makes every list fail that it is in.
    """

    def load(self, data: Buffer) -> datetime:
        """The time, or the nearest that can be shown."""
        written = bytes(data)
        try:
            return super().load(data)
        except psycopg.DataError:
            is_past = written.startswith(b"-") or written.endswith(b"BC")
            return datetime(1, 1, 1, tzinfo=UTC) if is_past else datetime(9999, 12, 31, tzinfo=UTC)


def options_for(url: str, *ours: str) -> str:
    """The options of an address, or those of PGOPTIONS, followed by ours, because the last one holds."""
    given = psycopg.conninfo.conninfo_to_dict(url).get("options")
    theirs = os.environ.get("PGOPTIONS", "") if given is None else str(given)
    return " ".join(part for part in (theirs, *ours) if part)


def refuses_options(error: psycopg.OperationalError) -> bool:
    """Whether our startup options were refused: by a pooler, or on a platform that cannot check sockets."""
    return "startup parameter" in str(error) or "client_connection_check_interval" in str(error)


async def default_isolation(url: str) -> str:
    """The level of transactions that ask for none: those of others, and ours behind a pooler."""
    async with await AsyncConnection.connect(url, autocommit=True) as plain:
        row = await (await plain.execute("show default_transaction_isolation")).fetchone()
        assert row is not None, "a setting always has a value"
        return str(row[0])


def is_direct(conn: Conn) -> bool:
    """Whether it took its startup options, which no pooler in transaction mode passes on."""
    return conn.prepare_threshold is not None


def where(url: str) -> str:
    """Which database an address means, without its password."""
    try:
        named = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "an address that cannot be read"
    # What an address leaves out is taken from libpq's variables and files.
    usual = {one.keyword.decode(): one.val.decode() for one in Conninfo.get_defaults() if one.val}
    parts = usual | {name: str(value) for name, value in named.items()}
    name = parts.get("dbname") or parts.get("user", "")
    shown = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}/{name}"
    return shown if url else f"{shown} (by libpq’s own settings, as HOLDFAST_DATABASE_URL is not set)"


def not_allowed(conn: Conn, url: str, error: psycopg.errors.InsufficientPrivilege) -> NotAllowed:
    """The error that says which login lacks a right, and where."""
    return NotAllowed(conn.info.user, where(url), str(error).strip().splitlines()[0])


def login_of(url: str) -> str:
    """The database login that an address means."""
    usual = {one.keyword.decode(): one.val.decode() for one in Conninfo.get_defaults() if one.val}
    return str(psycopg.conninfo.conninfo_to_dict(url).get("user") or usual.get("user", ""))


def away(url: str, error: psycopg.Error) -> DatabaseAway:
    """The error that says where the database was looked for, without its password."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # Its message would repeat the address, and the password with it.
        return DatabaseAway(where(url), "write postgresql://user@host:5432/name, without a driver’s name")
    return DatabaseAway(where(url), str(error).strip().splitlines()[0])
