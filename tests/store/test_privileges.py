"""What each database role may do is a table in the repository, and nothing else is possible."""

import asyncio
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from benchmarks.releases import revision
from psycopg import sql

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import grants, migrate_down, migrate_up
from holdfast.db.privileges import Privilege, expected, granted
from holdfast.ops.doctor import Doctor, Finding, Health
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.store import Store
from tests.conftest import direct
from tests.world import World

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "src/holdfast/db/privileges.txt"
ROLES = ("holdfast_enqueuer", "holdfast_worker", "holdfast_api", "holdfast_operator")
HEAD = """\
# What the roles of `holdfast migrate --grants` may do; `public` stands for every role. A test compares this
# with a database and tries each line; HOLDFAST_WRITE_SNAPSHOT=1 makes it write this file.
"""
SCHEMA_CHANGES: tuple[LiteralString, ...] = (
    "create table holdfast.mine ()",
    "drop table holdfast.tasks",
    "alter table holdfast.tasks add column x integer",
    "create function holdfast.mine() returns integer language sql as 'select 1'",
    "drop function holdfast.note",
    "alter table holdfast.audit_log disable trigger all",
    "comment on table holdfast.tasks is 'mine'",
    "drop schema holdfast cascade",
    "set session_replication_role = replica",
)
RELEASES = ["0.1.0", "0.3.0"]


def written(privileges: frozenset[Privilege]) -> str:
    lines = [
        " | ".join((one.object_type, one.object, one.role, one.privileges)) for one in sorted(privileges)
    ]
    return HEAD + "\n".join(lines) + "\n"


@pytest.fixture
async def installed(world: World) -> Conn:
    await world.conn.execute(grants("holdfast"))
    return world.conn


@pytest.mark.catches("grants-too-wide", "worker-reads-sessions", "audit-inserts-granted")
async def test_the_roles_have_what_the_table_says(installed: Conn) -> None:
    found = written(await granted(installed, "holdfast"))
    if "HOLDFAST_WRITE_SNAPSHOT" in os.environ:
        TABLE.write_text(found)
    assert found == TABLE.read_text()


async def test_running_the_grants_twice_changes_nothing(installed: Conn) -> None:
    await installed.execute("grant delete on holdfast.tasks to holdfast_enqueuer")
    await installed.execute("grant execute on function holdfast.uuid7 to public")
    await installed.execute("grant select (secret) on holdfast.webhook_keys to holdfast_api")
    await installed.execute(grants("holdfast"))
    assert await granted(installed, "holdfast") == expected()


async def may(conn: Conn, role: str, statement: sql.Composed) -> bool:
    """Whether the role gets past the check of its rights; what the statement does is taken back."""
    try:
        async with conn.transaction(force_rollback=True):
            await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
            # A hostile call must not take long, wherever it waits.
            await conn.execute("set local statement_timeout = 2000")
            await conn.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        return "permission denied" not in str(error)
    except psycopg.Error:
        return True
    return True


async def test_each_role_tries_every_function(installed: Conn) -> None:
    rows = await installed.execute(
        "select p.proname, array(select format_type(t, null) from unnest(p.proargtypes) t)"
        " from pg_proc p"
        " where p.pronamespace = 'holdfast'::regnamespace and p.prorettype <> 'trigger'::regtype"
    )
    allowed = {(one.object, one.role) for one in expected() if one.object_type == "function"}
    tried = 0
    for name, types in await rows.fetchall():
        nulls = sql.SQL(", ").join(sql.SQL("null::{}").format(sql.SQL(type_)) for type_ in types)
        call = sql.SQL("select * from holdfast.{}({})").format(sql.Identifier(name), nulls)
        for role in ROLES:
            tried += 1
            assert await may(installed, role, call) == ((name, role) in allowed), (role, name)
    assert tried >= 75


async def test_each_role_tries_every_table(installed: Conn) -> None:
    rows = await installed.execute(
        "select c.relname, a.attname from pg_class c"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum = 1"
        " where c.relnamespace = 'holdfast'::regnamespace and c.relkind in ('r', 'p')"
    )
    tables = await rows.fetchall()
    allowed: dict[tuple[str, str], set[str]] = {}
    for one in expected():
        if one.object_type == "table":
            allowed[one.object, one.role] = set(one.privileges.split(", "))
    children = await installed.execute(
        "select relname from pg_class where relispartition and relnamespace = 'holdfast'::regnamespace"
    )
    partitions = {name for (name,) in await children.fetchall()}
    tried = 0
    for table, column in tables:
        names = {"table": sql.Identifier("holdfast", table), "column": sql.Identifier(column)}
        attempts = {
            "insert": "insert into {table} default values",
            "update": "update {table} set {column} = default",
            "delete": "delete from {table}",
            "truncate": "truncate {table} cascade",
            "select": "select * from {table}",
        }
        for role in ROLES:
            for privilege, text in attempts.items():
                tried += 1
                meant = privilege in allowed.get((table, role), set())
                if table in partitions and privilege == "select":
                    # Days that were there when the grants ran may be read, as their table may.
                    continue
                done = await may(installed, role, sql.SQL(text).format(**names))
                assert done == meant, (role, privilege, table)
    assert tried >= 500


async def test_no_role_changes_the_schema(installed: Conn) -> None:
    for role, statement in product(ROLES, SCHEMA_CHANGES):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await _run_as(installed, role, statement)


async def _run_as(conn: Conn, role: str, statement: LiteralString) -> None:
    async with conn.transaction(force_rollback=True):
        await conn.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        await conn.execute(statement)


def package_of(release: str, folder: Path) -> Path:
    """The sources of a release, from the history of this repository."""
    packed = subprocess.run(
        ["git", "-C", ROOT, "archive", revision(release), "src"], capture_output=True, check=True
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


def run_release(release: str, folder: Path, url: str, *arguments: str) -> str:
    """What a command of a release prints."""
    environment = os.environ | {
        "PYTHONPATH": f"{package_of(release, folder)}:{ROOT}",
        "HOLDFAST_DATABASE_URL": url,
    }
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


# Tables that releases before 0.4.0 called otherwise; a table keeps its grants when it is renamed.
RENAMED = {"slots": "permits", "guards": "bucket_locks", "waiting": "blocked", "turns": "line"}


@pytest.mark.catches("upgrade-opens-functions")
@pytest.mark.parametrize("before", RELEASES)
async def test_an_upgrade_opens_nothing(blank: Conn, tmp_path: Path, before: str) -> None:
    """An older release installs itself with its grants; then this one migrates, and then its grants run."""
    url = f"{direct()}/{blank.info.dbname}"
    await asyncio.to_thread(run_release, before, tmp_path, url, "migrate")
    await blank.execute(await asyncio.to_thread(run_release, before, tmp_path, url, "migrate", "--grants"))
    had = {
        (one.object_type, RENAMED.get(one.object, one.object), one.role)
        for one in await granted(blank, "holdfast")
    }
    await migrate_up(blank, "holdfast")
    opened = {
        one
        for one in await granted(blank, "holdfast") - expected()
        if (one.object_type, one.object, one.role) not in had or one.role == "public"
    }
    assert not opened, "a migration lets somebody do more than before, and more than the table says"
    await blank.execute(grants("holdfast"))
    assert await granted(blank, "holdfast") == expected()


# Functions of 0.4.0 that 0.3.0 does not have.
NEWER = ["claim_blocked", "free_permits", "enlist", "enlist_heads", "block_heads"]


@pytest.mark.catches("down-leaves-functions-behind")
async def test_the_release_before_works_after_going_down(blank: Conn, tmp_path: Path) -> None:
    url = f"{direct()}/{blank.info.dbname}"
    await migrate_up(blank, "holdfast")
    await migrate_down(blank, "holdfast", 10)
    await asyncio.to_thread(run_release, "0.3.0", tmp_path, url, "migrate")
    await blank.execute("select holdfast.enqueue('effect')")
    await asyncio.to_thread(run_release, "0.3.0", tmp_path, url, "worker", "tests.apps:app", "--once")
    assert await (await blank.execute("select count(*) from holdfast.task_history")).fetchone() == (1,)
    cursor = await blank.execute("select to_regproc('holdfast.' || u) from unnest(%s::text[]) u", [NEWER])
    assert set(await cursor.fetchall()) == {(None,)}, "functions that it does not have are gone"


async def test_the_doctor_names_what_differs(installed: Conn) -> None:
    doctor = Doctor(Settings(database_url=""))

    async def finding() -> Finding:
        (found,) = [one for one in await doctor.examine(installed) if one.name == "grants"]
        return found

    assert (await finding()).health is Health.GOOD
    await installed.execute("grant execute on function holdfast.seal_audit to public")
    await installed.execute("revoke insert on holdfast.ready from holdfast_api")
    await installed.execute("grant create on schema holdfast to public")
    found = await finding()
    await installed.execute("revoke create on schema holdfast from public")
    await installed.execute(grants("holdfast"))
    assert found.health is Health.WARNING
    assert "unexpected: function seal_audit: public execute" in found.found
    assert "unexpected: schema own: public create" in found.found
    assert "missing: table ready: holdfast_api delete, insert, select, update" in found.found
    assert "holdfast migrate --grants" in found.advice
    assert (await finding()).health is Health.GOOD


async def test_the_doctor_names_triggers_that_were_disabled(installed: Conn) -> None:
    async def finding() -> Finding:
        examined = await Doctor(Settings(database_url="")).examine(installed)
        (found,) = [one for one in examined if one.name == "triggers"]
        return found

    assert (await finding()).health is Health.GOOD
    rows = await installed.execute(
        "select tgname from pg_trigger where tgrelid = 'holdfast.audit_log'::regclass and not tgisinternal"
    )
    names = {f"audit_log.{name}" for (name,) in await rows.fetchall()}
    await installed.execute("alter table holdfast.audit_log disable trigger user")
    found = await finding()
    await installed.execute("alter table holdfast.audit_log enable trigger user")
    assert found.health is Health.WARNING
    assert names
    assert names <= set(found.found.removeprefix("disabled: ").split(", "))


@pytest.mark.catches("migration-needs-a-superuser")
@pytest.mark.parametrize("before", [None, *RELEASES])
async def test_an_owner_who_is_no_superuser_migrates_up_and_down(
    blank: Conn, tmp_path: Path, before: str | None
) -> None:
    """As on every managed server: the owner of the schema is an ordinary login."""
    await blank.execute(
        "do $$ begin create role an_owner login nosuperuser nocreaterole;"
        " exception when duplicate_object or unique_violation then null; end $$"
    )
    database = sql.Identifier(blank.info.dbname)
    await blank.execute(sql.SQL("grant create on database {} to an_owner").format(database))
    url = f"{direct()}/{blank.info.dbname}".replace("postgres@", "an_owner@")
    if before is not None:
        await asyncio.to_thread(run_release, before, tmp_path, url, "migrate")
    async with await connect(url) as owner:
        await migrate_up(owner, "holdfast")
        store = Store(Settings(database_url=url))
        (task,) = await store.enqueue_many(owner, [NewTask("mail.send")])
        await AuditWriter(Settings(database_url=url)).note_tasks(
            owner, Action.TASK_CANCEL, Author("ada", "not wanted"), [task.id]
        )
        assert await AuditWriter(Settings(database_url=url)).seal(owner) == 1
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is written by functions only"):
            await owner.execute("insert into holdfast.audit_unsealed values (7)")
        await migrate_down(owner, "holdfast", 7)
