"""What logins without all rights are told: by the doctor, by commands, and by a worker that cannot start."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from holdfast.app import Holdfast
from holdfast.config import Settings
from holdfast.core.errors import NotAllowed
from holdfast.core.events import silent
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect
from holdfast.db.link import Link
from holdfast.db.migrate import grants
from holdfast.ops.doctor import Doctor, Finding, Health
from holdfast.store.store import Store
from holdfast.worker.executor.registration import register
from holdfast.worker.options import WorkerOptions
from tests.commands import typed
from tests.world import World

LOGIN = f"holdfast_doctor_{os.getpid()}"
ROLES = ("holdfast_enqueuer", "holdfast_worker", "holdfast_api")


@pytest.fixture
async def owner(world: World, direct_url: str) -> AsyncIterator[Conn]:
    """The owner of a schema with grants, beside a login that has none of its roles."""
    name = sql.Identifier(LOGIN)
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute(sql.SQL("drop role if exists {}").format(name))
        await conn.execute(sql.SQL("create role {} login").format(name))
        yield conn
        await conn.execute(sql.SQL("drop owned by {}").format(name))
        await conn.execute(sql.SQL("drop role {}").format(name))


async def give(owner: Conn, role: str) -> None:
    await owner.execute(sql.SQL("grant {} to {}").format(sql.Identifier(role), sql.Identifier(LOGIN)))


def of_login(url: str) -> str:
    return psycopg.conninfo.make_conninfo(url, user=LOGIN)


async def examined(url: str) -> dict[str, Finding]:
    async with await connect(url) as conn:
        return {one.name: one for one in await Doctor(Settings(database_url=url)).examine(conn)}


@pytest.mark.catches("doctor-stops-at-a-missing-right")
async def test_each_missing_right_is_a_finding_and_the_others_are_examined(
    owner: Conn, direct_url: str
) -> None:
    await give(owner, "holdfast_worker")
    await owner.execute("revoke select on holdfast.schedules, holdfast.ready from holdfast_worker")
    found = await examined(of_login(direct_url))
    for name, table in (("schedules", "schedules"), ("rows of tasks", "ready")):
        assert found[name].health is Health.WARNING
        assert found[name].found == f"not examined: permission denied for table {table}"
    assert "missing: table schedules: holdfast_worker" in found["grants"].found
    assert found["days ahead"].health is Health.GOOD


async def test_a_login_without_any_right_is_told_so(owner: Conn, direct_url: str) -> None:
    found = await examined(of_login(direct_url))
    assert found["rights"].found == f"{LOGIN}: none of the roles of Holdfast"
    assert found["rights"].health is Health.WARNING
    assert found["grants"].health is Health.GOOD
    assert found["schema"].found == "not examined: permission denied for schema holdfast"


@pytest.mark.parametrize("role", ROLES)
async def test_a_login_with_one_of_the_roles_is_right(owner: Conn, direct_url: str, role: str) -> None:
    await give(owner, role)
    found = await examined(of_login(direct_url))
    assert (found["rights"].health, found["rights"].found) == (Health.GOOD, f"{LOGIN}: {role}")
    if role != "holdfast_enqueuer":
        denied = [one for one in found.values() if "permission denied" in one.found]
        assert not denied
    assert (await examined(direct_url))["rights"].found.endswith(": owner of the schema")


@pytest.mark.catches("doctor-blind-to-equal-names")
async def test_tokens_of_one_name_are_found(owner: Conn, direct_url: str) -> None:
    for token, revoked in (("t1", None), ("t2", None), ("t3", "now")):
        await owner.execute(
            "insert into holdfast.api_tokens"
            " (id, name, role, secret_hash, created_at, created_by, revoked_at, revoked_by)"
            " values (%s, 'ada', 'operator', sha256(%s), now(), 'ada', %s, %s)",
            [token, token.encode(), revoked, revoked and "ada"],
        )
    assert (await examined(direct_url))["tokens"].found == "2 are named ada"
    await give(owner, "holdfast_worker")
    tokens = (await examined(of_login(direct_url)))["tokens"]
    assert (tokens.health, tokens.found) == (Health.GOOD, "not examined: this login may not read them")
    await owner.execute(
        "update holdfast.api_tokens set revoked_at = now(), revoked_by = 'ada' where id = 't1'"
    )
    assert (await examined(direct_url))["tokens"].health is Health.GOOD


async def test_an_api_whose_tokens_are_not_believed_is_named(owner: Conn, direct_url: str) -> None:
    async with await connect(of_login(direct_url), application="holdfast api"):
        found = (await examined(direct_url))["api login"]
        assert (found.health, found.found) == (
            Health.WARNING, f"{LOGIN}: tokens are ignored, approvals refused",
        )  # fmt: skip
        await give(owner, "holdfast_api")
        assert (await examined(direct_url))["api login"].health is Health.GOOD


async def test_a_command_names_the_login_the_database_and_what_is_needed(
    owner: Conn, direct_url: str
) -> None:
    await give(owner, "holdfast_enqueuer")
    done = await typed(of_login(direct_url), "task", "list")
    assert done.returncode == 2
    assert f"the database login {LOGIN} may not do this in " in done.stderr
    assert (
        "permission denied for table migrations. Commands need a member of holdfast_operator" in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.catches("worker-starts-without-rights")
async def test_a_worker_that_cannot_declare_its_kinds_ends_at_its_start(owner: Conn, direct_url: str) -> None:
    await give(owner, "holdfast_worker")
    await owner.execute("revoke insert, update, delete on holdfast.kinds from holdfast_worker")
    done = await typed(of_login(direct_url), "worker", "tests.apps:app", "--until-empty")
    assert done.returncode == 2
    assert "permission denied for table kinds" in done.stderr
    assert "workers of holdfast_worker" in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_an_application_waits_for_results_with_the_rights_of_the_page(
    owner: Conn, world: World, direct_url: str
) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/roles.md").read_text()
    (statements,) = re.findall(r"```sql\ncreate role shop_results;\n(.*?)```", page, re.DOTALL)
    for line in statements.splitlines():
        if line != "grant shop_results to shop;":
            await owner.execute(line.replace("shop_results", LOGIN))
    await give(owner, "holdfast_enqueuer")
    url = of_login(direct_url)
    app = Holdfast(url)
    async with app:
        (handle,) = await app.enqueue_many([NewTask("mail.send")])
        await world.complete(await world.claim_one())
        assert await handle.result(timeout=5) is None


@pytest.mark.catches("executor-waits-for-rights")
async def test_an_executor_does_not_wait_for_a_right(owner: Conn, world: World, direct_url: str) -> None:
    await give(owner, "holdfast_enqueuer")
    url = of_login(direct_url)
    link = Link(url, "test", silent)
    try:
        async with asyncio.timeout(20):
            with pytest.raises(NotAllowed, match="workers of holdfast_worker"):
                await register(link, Store(Settings(database_url=url)), world.worker, WorkerOptions(url), {})
    finally:
        await link.close()
