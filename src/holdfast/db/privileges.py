"""Compares the privileges of the database roles with the table in `privileges.txt`."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from holdfast.db.connect import Conn
from holdfast.db.statements import PACKAGE, load


@dataclass(frozen=True, slots=True, order=True)
class Privilege:
    """What one role was granted on one function, table, column or sequence."""

    object_type: str
    object: str
    role: str
    privileges: str

    def __str__(self) -> str:
        return f"{self.object_type} {self.object}: {self.role} {self.privileges}"


@dataclass(frozen=True, slots=True)
class Differences:
    """Where the database differs from the table."""

    used: bool
    unexpected: list[Privilege]
    missing: list[Privilege]


@cache
def expected() -> frozenset[Privilege]:
    """The table: what `holdfast migrate --grants` grants, and nothing else."""
    text = (files(PACKAGE) / "db/privileges.txt").read_text(encoding="utf-8")
    return frozenset(
        Privilege(*line.split(" | ")) for line in text.splitlines() if line and not line.startswith("#")
    )


async def granted(conn: Conn, schema: str) -> frozenset[Privilege]:
    """What the roles, and everybody, were granted in this database."""
    rows = await (
        await conn.execute(load("db/privileges.sql", schema)["privileges"], {"schema": schema})
    ).fetchall()
    return frozenset(Privilege(*row) for row in rows)


async def differences(conn: Conn, schema: str) -> Differences:
    """What was granted beyond the table, and what of it is missing, unless the roles are not used at all."""
    found = await granted(conn, schema)
    used = any(one.role != "public" for one in found)
    return Differences(used, sorted(found - expected()), sorted(expected() - found) if used else [])
