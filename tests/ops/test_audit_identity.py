"""The proven identity beside the name: in entries, under their seals, and for the second person of a plan."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg import sql

from holdfast.core.audit import Action, Entry, EntryFilter
from holdfast.core.errors import Misused, PlanRefused
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import grants, migrate_down, migrate_up
from holdfast.ops.dead_letters import DeadFilter
from holdfast.store.audit import Author
from tests.conftest import direct
from tests.ops.conftest import Shift
from tests.world import World, proven

ADA = Author("ada", "because")
BOB = "of-bob"
LOGIN = "holdfast_test_second_login"


@pytest.fixture
async def second(shift: Shift, direct_url: str) -> AsyncIterator[Conn]:
    """A second login, which may do what the API may."""
    name = sql.Identifier(LOGIN)
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute(sql.SQL("drop role if exists {}").format(name))
        await conn.execute(sql.SQL("create role {} login in role holdfast_api").format(name))
        async with await connect(psycopg.conninfo.make_conninfo(direct_url, user=LOGIN)) as opened:
            yield opened
        await conn.execute(sql.SQL("drop role {}").format(name))


async def test_an_entry_says_login_token_and_address_and_keeps_the_name_for_filters(
    shift: Shift, second: Conn
) -> None:
    ((owner,),) = await (await shift.world.conn.execute("select session_user::text")).fetchall()
    async with proven(second, "t1", "192.0.2.7"):
        await shift.writer.note(second, Action.GROUP_NOTE, ADA)
    await shift.writer.note(second, Action.GROUP_NOTE, ADA)
    found = await shift.audit.page(shift.world.conn, EntryFilter(actor="ada"))
    assert [(one.login, one.token) for one in found] == [(LOGIN, None), (LOGIN, "t1")]
    assert found[1].address == "192.0.2.7"
    assert found[1].proven == f"token t1, login {LOGIN} from 192.0.2.7"
    assert found[0].proven.startswith(f"login {LOGIN}")
    assert owner != LOGIN


async def test_code_says_that_it_was_code(shift: Shift) -> None:
    await shift.fail(2)
    plan = await shift.start()
    await shift.drive(plan)
    await shift.writer.seal(shift.world.conn)
    tokens = {one.action: one.token for one in await shift.audit.page(shift.world.conn, EntryFilter())}
    assert tokens["TASK_RETRY_BATCH_ITEM"] == tokens["TASK_RETRY_BATCH_SUMMARY"] == "holdfast:plan"
    assert tokens["PLAN_START"] is None


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("holdfast:plan", "code holdfast:plan, login x from ::1"),
        ("proxy:ada", "proxy ada, login x from ::1"),
        ("5f0c", "token 5f0c, login x from ::1"),
        (None, "login x from ::1"),
    ],
)
def test_an_identity_in_a_few_words(token: str | None, shown: str) -> None:
    given = (1, 1, datetime.now(UTC), "A", "ada", "", *[None] * 6, "x", token, "::1")
    entry = Entry(*given)  # type: ignore[arg-type]
    assert entry.proven == shown


@pytest.mark.catches("identity-not-sealed")
@pytest.mark.parametrize("column", ["login", "token", "address"])
async def test_an_identity_that_was_changed_is_found(shift: Shift, direct_url: str, column: str) -> None:
    conn = shift.world.conn
    async with proven(conn, "t1", "192.0.2.7"):
        await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
    await shift.writer.seal(conn)
    async with await connect(direct_url) as untriggered:
        await untriggered.execute("set session_replication_role = replica")
        await untriggered.execute(f"update holdfast.audit_log set {column} = 'another'")
    assert (await shift.audit.verify(conn)).wrong != []


async def test_entries_that_were_sealed_before_the_migration_keep_their_hash(shift: Shift) -> None:
    name = sql.Identifier("holdfast_test_before_identity")
    async with await connect(f"{direct()}/postgres") as admin:
        await admin.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        await admin.execute(sql.SQL("create database {}").format(name))
        async with await connect(f"{direct()}/holdfast_test_before_identity") as conn:
            await migrate_up(conn, "holdfast")
            await migrate_down(conn, "holdfast", to=8)
            # As 0.2.0 wrote and sealed it.
            await conn.execute(
                "insert into holdfast.audit_log (chunk, place, at, action, actor, reason, details)"
                """ values (1, 1, '2026-11-01 10:00:00.5+00', 'GROUP_NOTE', 'ada', 'x', '{"n": 1}')"""
            )
            await conn.execute(
                "insert into holdfast.audit_seals (number, chunk, entries, hash, sealed_at)"
                " select 1, 1, 1, sha256(int8send(1) || sha256(convert_to(jsonb_build_array("
                "  a.chunk, a.place, (extract(epoch from a.at) * 1000000)::bigint, a.action, a.actor,"
                "  a.reason,"
                "  a.batch_id, a.task_id, a.kind, a.subject, a.trace_id, a.details)::text, 'UTF8'))), now()"
                " from holdfast.audit_log a"
            )
            await conn.execute("select setval('holdfast.audit_chunk', 1)")
            await migrate_up(conn, "holdfast")
            await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
            assert (await shift.audit.prove(conn, shift.writer)).wrong == []
        await admin.execute(sql.SQL("drop database {} with (force)").format(name))


@pytest.mark.catches("approval-by-name-only")
async def test_another_name_is_no_second_person(shift: Shift, second: Conn) -> None:
    await shift.fail(1)
    conn = shift.world.conn

    async def asked_for(token: str) -> str:
        async with proven(conn, token):
            return (await shift.plans.freeze(conn, DeadFilter(), "post-mortem done", action="forget")).id

    plan = await asked_for("of-ada")
    with pytest.raises(PlanRefused, match=r"with the same token, of-ada"):
        await shift.approve(plan, identity="of-ada")
    with pytest.raises(PlanRefused, match="approve it there, with a token of your own"):
        await shift.others_plans.approve(conn, plan)
    assert (await shift.approve(plan, identity="of-bob")).approved_token == BOB
    # Without tokens it must be another login.
    plan = await asked_for("")
    with pytest.raises(PlanRefused, match="through the HTTP API with a token of your own"):
        await shift.others_plans.approve(conn, plan)
    approved = await shift.others_plans.approve(second, plan)
    assert (approved.approved_login, approved.approved_token) == (LOGIN, None)


@pytest.mark.catches("approval-unconstrained", "identity-as-the-statement-says")
async def test_no_statement_gets_around_the_second_person(shift: Shift, second: Conn) -> None:
    await shift.fail(1)
    plan = await shift.plans.freeze(second, DeadFilter(), "post-mortem done", action="forget")
    approve = "update holdfast.plans set approved_by = 'bob', approved_at = now()"
    for statement in (approve, f"{approve}, approved_login = 'bob', approved_token = 'of-bob'"):
        with pytest.raises(psycopg.errors.CheckViolation, match="plans_two_identities"):
            await second.execute(statement)
    for change in ("needs_approval = false", "created_login = 'x'", "items = 7", "created_by = 'bob'"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is frozen"):
            await second.execute(f"update holdfast.plans set {change}")
    assert (await shift.approve(plan.id)).approved_token == BOB
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is frozen"):
        await second.execute("update holdfast.plans set approved_token = 'of-carol'")


async def test_an_entry_that_nobody_could_read_is_refused(shift: Shift) -> None:
    for details in ({"nested": _nested(80)}, {"long": "x" * 5_000_000}):
        with pytest.raises(Misused, match="cannot be an entry of the audit"):
            await shift.writer.note(shift.world.conn, Action.GROUP_NOTE, ADA, details=details)
    number = "9" * 5_000
    await shift.world.conn.execute(
        "select holdfast.note('GROUP_NOTE', 'ada', '', details => %s::jsonb)", [f'{{"n": {number}}}']
    )
    (entry,) = await shift.audit.page(shift.world.conn, EntryFilter())
    assert list(entry.details or {}) == ["unreadable"]


def _nested(depth: int) -> object:
    # Long enough to be looked at.
    found: object = "x" * 600
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.catches("seal-is-jammed")
async def test_hostile_rows_are_findings_and_sealing_goes_on(shift: Shift, direct_url: str) -> None:
    conn = shift.world.conn
    await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
    await shift.writer.seal(conn)
    entry = "insert into holdfast.audit_log (chunk, place, at, action, actor, reason) values"
    async with await connect(direct_url) as untriggered:
        await untriggered.execute("set session_replication_role = replica")
        for statement in HOSTILE:
            await untriggered.execute(statement.replace("ENTRY", entry))
            await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
            assert await shift.writer.seal(conn) >= 1, statement
            assert (await shift.audit.prove(conn, shift.writer)).wrong != [], statement
            await World.empty(conn)
            await shift.writer.note(conn, Action.GROUP_NOTE, ADA)
            await shift.writer.seal(conn)


HOSTILE = (
    "insert into holdfast.audit_unsealed select chunk from holdfast.audit_seals",
    "insert into holdfast.audit_unsealed values (-5)",
    "ENTRY (-5, 1, 'infinity', 'X', 'x', 'x')",
    "ENTRY (-5, 1, '-infinity', E'\\x1b[2J', E'\\n', '')",
    "ENTRY (-5, 1, '294276-12-31 23:59:59', 'X', 'x', 'x')",
    "ENTRY ((select max(chunk) from holdfast.audit_seals), 7, now(), 'X', 'x', 'x')",
)


async def test_a_token_that_nobody_has_is_not_believed(shift: Shift, second: Conn) -> None:
    async with second.transaction():
        await second.execute("select set_config('holdfast_audit.token', 'made-up', true)")
        await shift.writer.note(second, Action.GROUP_NOTE, ADA)
    (found,) = await shift.audit.page(shift.world.conn, EntryFilter(actor="ada"))
    assert (found.login, found.token) == (LOGIN, None)


@pytest.mark.parametrize(
    "entry",
    [
        "holdfast.note('TASK_RETRY', 'ada', repeat('x', 20000))",
        "holdfast.note('TASK_RETRY', 'ada', 'x', details => to_jsonb(repeat('x', 70000)))",
        "holdfast.note_tasks('TASK_RETRY', 'ada', 'x', array_fill(gen_random_uuid(), array[100001]))",
    ],
)
async def test_an_entry_that_is_too_large_is_refused(shift: Shift, second: Conn, entry: str) -> None:
    with pytest.raises(psycopg.Error, match="this cannot be an entry of the audit"):
        await second.execute(f"select {entry}".encode())


async def test_a_long_kind_is_cut_and_its_entry_sealed(shift: Shift, second: Conn) -> None:
    """One of 190 MB could not be hashed, so that nothing was sealed any more."""
    await second.execute("select holdfast.note('TASK_RETRY', 'ada', 'x', kind => repeat(chr(1), 1000000))")
    assert await shift.writer.seal(shift.world.conn) == 1
    assert (await shift.audit.prove(shift.world.conn, shift.writer)).wrong == []
