"""Finds in one query which maintenance is due soon."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.db.statements import load


class DueWork(NamedTuple):
    """Follow-ups, seals, plans, leases, what is held, what is blocked, what is over."""

    followups: bool
    unsealed: bool
    undriven: Sequence[str]
    lease_ends_seconds: float | None
    # Not known where it was not asked for.
    held: bool | None
    blocked: bool
    over: bool


async def look(conn: Conn, settings: Settings, *, held: bool = True) -> DueWork:
    """What there is to do; `held` may cost something beside an old snapshot, and need not be asked."""
    statement = load("store/due.sql", settings.schema_name)["pending"]
    row = await (await conn.execute(statement, {"held": held})).fetchone()
    assert row is not None, "a select without a table always answers"
    return DueWork(*row)
