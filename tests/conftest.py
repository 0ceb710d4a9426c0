"""A database per xdist worker, cloned from a migrated template, and the marks that tie tests to promises."""

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from holdfast.config import Settings
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import function_statements, migrate_up, migrations
from holdfast.db.partitions import ensure_partitions
from tests.cluster import postgres
from tests.tree import Tree
from tests.world import World

pytest_plugins = ["tests.marks"]

_servers = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Start a cluster for the whole run, unless a server was named; xdist workers inherit its URL."""
    # Tests prune what they have just written; tests/ops/test_audit_prunes.py has the default.
    os.environ.setdefault("HOLDFAST_AUDIT_PRUNE_DAYS_MIN", "0")
    if "HOLDFAST_TEST_URL" not in os.environ and not config.option.collectonly:
        os.environ["HOLDFAST_TEST_URL"] = _servers.enter_context(postgres(15))


def pytest_unconfigure() -> None:
    _servers.close()


def server() -> str:
    """The server that the tests run on, or the pooler before it."""
    return os.environ["HOLDFAST_TEST_URL"]


def direct() -> str:
    """The server past any pooler: creating databases and migrating need that."""
    return os.environ.get("HOLDFAST_TEST_DIRECT_URL", server())


def _admin() -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(f"{direct()}/postgres", autocommit=True)


@pytest.fixture(scope="session")
def template() -> str:
    """A migrated database, made once for each version of the schema."""
    functions = "".join(function_statements("holdfast", audit_prune_days_min=0))
    schema = "".join(m.up for m in migrations("holdfast")) + functions
    name = f"holdfast_template_{hashlib.sha256(schema.encode()).hexdigest()[:12]}"
    with _admin() as admin:
        # Held until the connection closes, so that the other xdist workers find the template whole.
        admin.execute("select pg_advisory_lock(hashtext('holdfast template'))")
        found = admin.execute("select from pg_database where datname = %s", [name]).fetchone()
        if found is None:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(f"{name}_new")))
            asyncio.run(_migrate(f"{direct()}/{name}_new"))
            admin.execute(
                sql.SQL("alter database {} rename to {}").format(
                    sql.Identifier(f"{name}_new"), sql.Identifier(name)
                )
            )
    return name


async def _migrate(url: str) -> None:
    async with await connect(url) as conn:
        await migrate_up(conn, "holdfast", audit_prune_days_min=0)


@pytest.fixture(scope="session")
def database(template: str) -> Iterator[str]:
    """This xdist worker's own database, by name."""
    name = f"holdfast_test_{os.getpid()}"
    with _admin() as admin:
        drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        admin.execute(drop)
        with suppress(psycopg.errors.DuplicateDatabase):
            admin.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        yield name
        admin.execute(drop)


@pytest.fixture(scope="session")
def url(database: str) -> str:
    """Where this worker's tests run; through the pooler where there is one."""
    return f"{server()}/{database}"


@pytest.fixture(scope="session")
def direct_url(database: str) -> str:
    """The same database, past any pooler."""
    return f"{direct()}/{database}"


@pytest.fixture
def settings() -> Settings:
    return Settings(database_url="", schema_name="holdfast")


@pytest.fixture
async def conn(url: str) -> AsyncIterator[Conn]:
    """A connection to an empty database that has its days, wherever the test before put the clock."""
    async with await connect(url) as opened:
        await World.empty(opened)
        await ensure_partitions(opened, "holdfast")
        yield opened


@pytest.fixture
async def world(conn: Conn, url: str) -> AsyncIterator[World]:
    """The store with its surroundings; whatever a test did, the invariants hold at its end."""
    await World.reset_prunes(conn)
    surroundings = World(conn, url)
    yield surroundings
    await surroundings.close()
    await surroundings.check()


@pytest.fixture
def trees(world: World, url: str, tmp_path: Path) -> Iterator[Callable[..., Tree]]:
    """Makes real workers, and ends them with the test; they run through the pooler where there is one."""
    made: list[Tree] = []

    def make(name: str = "a", at: str = url, app: str = "tests.apps:app", module: str = "holdfast") -> Tree:
        made.append(Tree(at, tmp_path, name, app, module))
        return made[-1]

    yield make
    for tree in made:
        tree.close()
        # Shown beside a failure.
        for line in tree.lines():
            if not str(line["event"]).startswith("task."):
                sys.stdout.write(f"{tree.name}: {line}\n")


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Have `tests.commands` work on this test's database, in a terminal that is wide enough."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    monkeypatch.setenv("COLUMNS", "240")
