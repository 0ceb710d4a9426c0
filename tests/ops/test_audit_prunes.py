"""What may be pruned: nothing below the age that the schema's owner has set."""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql

from holdfast.config import Settings
from holdfast.core.audit import Action, EntryFilter
from holdfast.core.errors import PruneTooRecent
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import grants, migrate_up
from holdfast.ops.doctor import Doctor, Health
from holdfast.store.audit import Author
from tests.commands import run, typed
from tests.conftest import direct
from tests.ops.conftest import Shift

ADA = Author("ada", "because")
NAME = f"holdfast_prunes_{os.getpid()}"


@pytest.fixture
async def kept(shift: Shift) -> AsyncIterator[Conn]:
    """A schema with the minimum age that `holdfast migrate` sets by default, and one sealed entry."""
    name = sql.Identifier(NAME)
    async with await connect(f"{direct()}/postgres") as admin:
        await admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        await admin.execute(sql.SQL("create database {}").format(name))
        async with await connect(f"{direct()}/{NAME}") as conn:
            await migrate_up(conn, "holdfast")
            await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
            await shift.writer.seal(conn)
            yield conn
        await admin.execute(sql.SQL("drop database {} with (force)").format(name))


async def actions(conn: Conn) -> list[str]:
    rows = await conn.execute("select action from holdfast.audit_log order by chunk, place")
    return [action for (action,) in await rows.fetchall()]


@pytest.mark.catches("prune-of-any-age")
async def test_nothing_younger_than_a_day_can_be_pruned_by_default(shift: Shift, kept: Conn) -> None:
    for age in (timedelta(0), timedelta(hours=23), timedelta(days=-400)):
        with pytest.raises(PruneTooRecent, match="younger than 1 day cannot be pruned"):
            await shift.writer.prune(kept, ADA, datetime.now(UTC) - age, EntryFilter())
    with pytest.raises(psycopg.Error) as refused:
        await kept.execute("select holdfast.prune_audit('ada', 'routine', 'infinity', 100000)")
    assert refused.value.sqlstate == "HF009"
    assert await shift.writer.prune(kept, ADA, datetime.now(UTC) - timedelta(days=2), EntryFilter()) == 0
    # Maintenance goes no further either, whatever a worker asks for.
    assert await shift.writer.prune_expired(kept, datetime.now(UTC) + timedelta(days=400)) == 0
    assert await actions(kept) == ["GROUP_NOTE"]


async def test_an_upgrade_opens_no_way_around_the_functions(kept: Conn) -> None:
    # Without the grants of this version.
    rows = await kept.execute(
        "select p.proname from pg_proc p where p.pronamespace = 'holdfast'::regnamespace"
        " and p.proname in ('add_entries', 'prune_entries')"
        " and has_function_privilege('public', p.oid, 'execute')"
    )
    assert await rows.fetchall() == []


@pytest.mark.catches("dry-run-of-any-age")
@pytest.mark.parametrize("how", ["--dry-run", "--yes"])
@pytest.mark.usefixtures("kept")
async def test_a_prune_and_its_dry_run_are_refused_alike(how: str) -> None:
    days = ("audit", "prune", "--reason", "x", how, "--older-than-days")
    done = await typed(f"{direct()}/{NAME}", *days, "0.5")
    assert (done.returncode, "younger than 1 day cannot be pruned" in done.stderr) == (1, True)
    assert (await typed(f"{direct()}/{NAME}", *days, "1")).returncode == 0


@pytest.mark.catches("worker-prunes-with-a-filter")
async def test_workers_prune_without_a_word_of_their_own(shift: Shift, direct_url: str) -> None:
    await shift.writer.note(shift.world.conn, Action.GROUP_NOTE, ADA)
    await shift.writer.seal(shift.world.conn)
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute("set role holdfast_worker")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await shift.writer.prune(conn, ADA, datetime.now(UTC), EntryFilter())
        assert await shift.writer.prune_expired(conn, datetime.now(UTC) + timedelta(hours=1)) == 1
        await conn.execute("reset role")
        await conn.execute("set role holdfast_api")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await shift.writer.prune_expired(conn, datetime.now(UTC))
        assert await shift.writer.prune(conn, ADA, datetime.now(UTC) - timedelta(days=1), EntryFilter()) == 0
    (summary,) = await shift.audit.page(shift.world.conn, EntryFilter())
    found = (summary.actor, summary.reason, summary.token)
    assert found == ("holdfast", "older than HOLDFAST_AUDIT_TTL_DAYS", "holdfast:maintenance")


@pytest.mark.catches("prune-minimum-not-laid-in")
async def test_the_owner_sets_the_minimum_with_migrate_and_doctor_warns_of_none(
    kept: Conn, shift: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{direct()}/{NAME}"
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    monkeypatch.setenv("COLUMNS", "240")

    async def found() -> tuple[Health, str]:
        (one,) = [
            f for f in await Doctor(Settings(database_url=url)).examine(kept) if f.name == "audit prunes"
        ]
        return one.health, one.found

    assert await found() == (Health.GOOD, "entries are kept for at least 1 day")
    monkeypatch.setenv("HOLDFAST_AUDIT_PRUNE_DAYS_MIN", "0")
    assert "minimum age of a prune of the audit: 0 days, was 1 day (HOLD" in await run("migrate")
    assert await found() == (Health.WARNING, "entries of any age can be pruned")
    assert await shift.writer.prune(kept, ADA, datetime.now(UTC) + timedelta(hours=1), EntryFilter()) == 1
    monkeypatch.setenv("HOLDFAST_AUDIT_PRUNE_DAYS_MIN", "90")
    await run("migrate")
    with pytest.raises(PruneTooRecent, match="younger than 90 days"):
        await shift.writer.prune(kept, ADA, datetime.now(UTC) - timedelta(days=89), EntryFilter())
