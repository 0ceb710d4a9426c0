"""Finds the sessions that hold the locks our statements wait for, as far as our role may see them."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from holdfast.db.connect import Conn
from holdfast.db.statements import load


class Blocker(NamedTuple):
    """A session that statements wait for: `locked` is what they want, `waiting` whose statements they are."""

    pid: int
    transaction: str | None
    application: str | None
    user: str | None
    state: str | None
    transaction_seconds: float | None
    waits_for: Sequence[int]
    locked: Sequence[str]
    waiting: Sequence[str]


async def blockers(conn: Conn, applications: Collection[str]) -> list[Blocker]:
    """The sessions that connections of these names wait for, the one with the most of them first."""
    values = {"applications": list(applications)}
    rows = await (await conn.execute(load("db/locks.sql")["blockers"], values)).fetchall()
    return [Blocker(*row) for row in rows]


async def open_transactions(conn: Conn, found: Collection[Blocker]) -> set[tuple[int, str | None]]:
    """The pids and transactions of those that have not ended."""
    values = {
        "pids": [blocker.pid for blocker in found],
        "transactions": [blocker.transaction for blocker in found],
    }
    return set(await (await conn.execute(load("db/locks.sql")["open_transactions"], values)).fetchall())


async def abandoned_waits(conn: Conn) -> bool:
    """Whether a statement of a connection of the same name, given up by its client, waits for a lock."""
    row = await (await conn.execute(load("db/locks.sql")["abandoned_waits"])).fetchone()
    assert row is not None, "a select without a table always answers"
    waits: bool = row[0]
    return waits
