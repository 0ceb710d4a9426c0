"""The database's clock: the only one that decides when something runs, ends or is kept."""

from datetime import datetime

from holdfast.db.connect import Conn


async def read_clock(conn: Conn) -> datetime:
    """What the database's clock says now."""
    row = await (await conn.execute("select clock_timestamp()")).fetchone()
    assert row is not None, "a select without a table always answers"
    now: datetime = row[0]
    return now
