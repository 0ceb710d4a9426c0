"""Reads the database's clock, which decides when tasks run, expire and are pruned."""

from datetime import datetime

from holdfast.db.connect import Conn


async def read_clock(conn: Conn) -> datetime:
    """What the database's clock says now."""
    row = await (await conn.execute("select clock_timestamp()")).fetchone()
    assert row is not None, "a select without a table always answers"
    now: datetime = row[0]
    return now
