"""A database that cannot keep every text is refused, in a line that says what to do."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from holdfast.config import Settings
from holdfast.core.errors import SchemaError
from holdfast.db.connect import connect
from holdfast.db.migrate import function_statements, migrate_up, migrations
from holdfast.ops.doctor import Doctor
from tests.commands import typed
from tests.conftest import direct

LINE = "the database has the encoding {encoding}, and Holdfast needs UTF8: create another one"


@pytest.fixture(params=["SQL_ASCII", "LATIN1"])
def encoding(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def narrow(encoding: str) -> Iterator[str]:
    """The address of an empty database with that encoding."""
    name = f"holdfast_narrow_{uuid4().hex}"
    identifier = sql.Identifier(name)
    create = "create database {} encoding {} lc_collate 'C' lc_ctype 'C' template template0"
    with psycopg.connect(f"{direct()}/postgres", autocommit=True) as admin:
        admin.execute(sql.SQL(create).format(identifier, encoding))
        yield f"{direct()}/{name}"
        admin.execute(sql.SQL("drop database {} with (force)").format(identifier))


@pytest.mark.catches("any-encoding-migrated")
@pytest.mark.parametrize("arguments", [["migrate"], ["migrate", "--plan"]], ids=" ".join)
async def test_migrate_refuses_an_encoding_other_than_utf8_in_one_line(
    narrow: str, encoding: str, arguments: list[str]
) -> None:
    done = await typed(narrow, *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"holdfast: {LINE.format(encoding=encoding)}")
    async with await connect(narrow) as conn:
        assert await (await conn.execute("select to_regnamespace('holdfast')")).fetchone() == (None,)


async def as_migrated_before(url: str) -> None:
    """The schema as an earlier version left it there, which did not look at the encoding."""
    async with await connect(url) as conn, conn.transaction():
        await conn.execute("create schema holdfast")
        await conn.execute(
            "create table holdfast.migrations (number integer primary key, name text not null,"
            " checksum text not null, applied_at timestamptz not null default now())"
        )
        for migration in migrations("holdfast"):
            await conn.execute(migration.up)
            await conn.execute(
                "insert into holdfast.migrations values (%s, %s, %s)",
                [migration.number, migration.name, migration.checksum],
            )
        for statement in function_statements("holdfast"):
            await conn.execute(statement)


@pytest.mark.catches("any-encoding-worked-with")
@pytest.mark.parametrize(
    "arguments",
    [["worker", "tests.apps:app", "--until-empty"], ["task", "enqueue", "noop"], ["status"]],
    ids=" ".join,
)
async def test_where_tables_are_there_already_a_command_says_the_same(
    narrow: str, encoding: str, arguments: list[str]
) -> None:
    if encoding == "SQL_ASCII":
        await as_migrated_before(narrow)
    done = await typed(narrow, *arguments)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"holdfast: {LINE.format(encoding=encoding)}")


@pytest.mark.catches("doctor-blind-to-encodings")
async def test_the_doctor_names_the_encoding(narrow: str, encoding: str) -> None:
    if encoding == "SQL_ASCII":
        await as_migrated_before(narrow)
    async with await connect(narrow) as conn:
        found = {one.name: one for one in await Doctor(Settings(database_url=narrow)).examine(conn)}
    assert (found["encoding"].health, found["encoding"].found) == ("bad", encoding)
    assert (found["schema"].health, found["version"].health) == ("bad", "good")
    assert found["schema"].found.startswith(LINE.format(encoding=encoding))


async def test_whoever_migrates_from_code_is_refused_too(narrow: str, encoding: str) -> None:
    async with await connect(narrow) as conn:
        with pytest.raises(SchemaError, match=LINE.format(encoding=encoding)):
            await migrate_up(conn, "holdfast")
