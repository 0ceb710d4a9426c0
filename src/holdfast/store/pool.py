"""Connections for workers: plans pinned to the indexes where the server lets us say so.

A prepared statement's plan is made once. If the narrow tables happen to be empty at that moment, the
planner prefers to read them whole, and goes on doing so when they have grown (measured: a third of
the rate within seconds). So a direct connection turns whole reads off for itself when it starts. A
pooler in transaction mode refuses or drops that; then nothing is prepared, plans are made for the tables
as they are (those of claims, in functions, are pinned there too), and only some speed is lost. No `set` is
ever sent that would outlive its transaction: behind a pooler it would leak.
"""

from typing import TypeAlias

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import Conninfo
from psycopg.rows import TupleRow

from holdfast.core.errors import DatabaseAway

Conn: TypeAlias = AsyncConnection[TupleRow]

# With whole reads off, one that cannot be avoided is priced so high that the server would compile it:
# measured, 1.5 s for a query of a millisecond. Nothing here gains from that, nor from remembering places
# that come up once each (measured, 3 µs of the server's 22 for each task that completes).
PINNED = "-c enable_seqscan=off -c jit=off -c enable_memoize=off"
_PREPARE_AFTER = 2


async def connect(url: str, *, application: str = "holdfast") -> Conn:
    """Open a connection that commits each statement by itself."""
    try:
        conn = await AsyncConnection.connect(
            url, autocommit=True, options=PINNED, application_name=application
        )
    except psycopg.OperationalError as error:
        if "startup parameter" not in str(error):
            raise
        conn = await AsyncConnection.connect(url, autocommit=True, application_name=application)
    shown = await (await conn.execute("show enable_seqscan")).fetchone()
    pinned = shown is not None and shown[0] == "off"
    conn.prepare_threshold = _PREPARE_AFTER if pinned else None
    return conn


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


def away(url: str, error: psycopg.Error) -> DatabaseAway:
    """The error that says where the database was looked for, without its password."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # Its message would repeat the address, and the password with it.
        return DatabaseAway(where(url), "write postgresql://user@host:5432/name, without a driver’s name")
    return DatabaseAway(where(url), str(error).strip().splitlines()[0])
