"""The audit: one commit with its effect, only added to, sealed, proven, pruned without losing the proof."""

import csv
import io
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from holdfast.config import Settings
from holdfast.core.audit import Action, EntryFilter
from holdfast.core.limit import Limit, Scope
from holdfast.core.operator_events import AuditSealed
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import grants
from holdfast.store.audit import Author
from holdfast.store.limits import Limits
from tests.ops.conftest import Shift

ADA = Author("ada", "because")
LATER = timedelta(hours=1)


async def noted(shift: Shift, count: int) -> None:
    for number in range(count):
        await shift.writer.note(shift.world.conn, Action.GROUP_NOTE, ADA, details={"number": number})


@pytest.fixture
async def untriggered(direct_url: str) -> AsyncIterator[Conn]:
    """Somebody with every right over the server, who wants to change the past."""
    async with await connect(direct_url) as conn:
        await conn.execute("set session_replication_role = replica")
        yield conn


@pytest.mark.requirement("T12")
@pytest.mark.catches("audit-can-be-changed")
async def test_t12_nobody_changes_or_removes_an_entry(shift: Shift) -> None:
    await noted(shift, 1)
    conn = shift.world.conn
    for statement in (
        "update holdfast.audit_log set actor = 'nobody'",
        "delete from holdfast.audit_log",
        "truncate holdfast.audit_log",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            await conn.execute(statement)
    await shift.writer.seal(conn)
    for table in ("audit_seals", "audit_pruned"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            await conn.execute(f"delete from holdfast.{table}")


@pytest.mark.catches("audit-granted-to-all")
async def test_the_role_of_operators_adds_to_the_audit_and_does_nothing_else_to_it(
    shift: Shift, direct_url: str
) -> None:
    (task,) = await shift.fail()
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute("set role holdfast_api")
        await shift.dead.retry(conn, [task], "as an operator")
        await shift.writer.seal(conn)
        for statement in ("update holdfast.audit_log set actor = 'x'", "delete from holdfast.audit_log"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="permission denied"):
                await conn.execute(statement)
    assert await shift.actions() == ["TASK_RETRY"]


CHANGES = {
    "an entry changed": "update holdfast.audit_log set reason = 'another' where chunk = %(c)s",
    "its time changed": "update holdfast.audit_log set at = at + interval '1 us' where chunk = %(c)s",
    "its details changed": "update holdfast.audit_log set details = '{}' where chunk = %(c)s",
    "an entry removed": "delete from holdfast.audit_log where chunk = %(c)s",
    "an entry added to a chunk": (
        "insert into holdfast.audit_log select chunk, place + 1, at, action, actor, reason"
        " from holdfast.audit_log where chunk = %(c)s"
    ),
    "an entry added beside all": (
        "insert into holdfast.audit_log (chunk, place, at, action, actor, reason)"
        " values (0, 1, now(), 'X', 'x', 'x')"
    ),
    "two swapped": (
        "update holdfast.audit_log a set chunk = case a.chunk when %(c)s then %(d)s else %(c)s end"
        " where a.chunk in (%(c)s, %(d)s)"
    ),
    "a seal removed": "delete from holdfast.audit_seals where chunk = %(c)s",
    "entry and seal removed": (
        "with s as (delete from holdfast.audit_seals where chunk = %(c)s)"
        " delete from holdfast.audit_log where chunk = %(c)s"
    ),
    "a theft called a prune": (
        "with p as (insert into holdfast.audit_pruned (chunk, place, batch_id, hash)"
        " select chunk, place, gen_random_uuid(), holdfast.audit_hash(a) from holdfast.audit_log a"
        " where chunk = %(c)s) delete from holdfast.audit_log where chunk = %(c)s"
    ),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.catches("verify-counts-only", "prunes-are-believed")
async def test_whatever_is_done_to_a_sealed_entry_is_found(
    shift: Shift, untriggered: Conn, change: str
) -> None:
    await noted(shift, 5)
    conn = shift.world.conn
    assert await shift.writer.seal(conn) == 5
    assert (await shift.audit.verify(conn)).wrong == []
    cursor = await conn.execute("select chunk from holdfast.audit_log order by chunk")
    chunks = [chunk for (chunk,) in await cursor.fetchall()]
    # Swapping two rows of a unique key needs a third place in between.
    if change == "two swapped":
        for old, new in ((chunks[1], -1), (chunks[2], chunks[1]), (-1, chunks[2])):
            await untriggered.execute("update holdfast.audit_log set chunk = %s where chunk = %s", [new, old])
    else:
        await untriggered.execute(CHANGES[change], {"c": chunks[2], "d": chunks[1]})
    assert (await shift.audit.verify(conn)).wrong != []


async def test_a_chain_that_was_made_anew_is_found_by_a_head_that_was_noted(
    shift: Shift, untriggered: Conn
) -> None:
    await noted(shift, 3)
    conn = shift.world.conn
    await shift.writer.seal(conn)
    (sealed,) = [event for event in shift.world.events if isinstance(event, AuditSealed)]
    head = sealed.number, sealed.hash
    assert (await shift.audit.verify(conn, head)).wrong == []
    await untriggered.execute("delete from holdfast.audit_seals")
    await untriggered.execute("update holdfast.audit_log set actor = 'nobody' where place = 1")
    await untriggered.execute(
        "insert into holdfast.audit_unsealed select distinct chunk from holdfast.audit_log"
    )
    await shift.writer.seal(conn)
    assert (await shift.audit.verify(conn)).wrong == []
    assert (await shift.audit.verify(conn, head)).wrong == [
        f"seal {head[0]}: it is not the one that was noted"
    ]


@pytest.mark.requirement("T12")
@pytest.mark.catches("prune-forgets-hashes", "prune-takes-prunes")
async def test_t12_a_prune_lets_content_go_and_the_rest_can_still_be_proven(shift: Shift) -> None:
    conn = shift.world.conn
    await noted(shift, 4)
    await shift.writer.note(conn, Action.KIND_PAUSE, Author("bob", "x"), kind="mail.send")
    assert await shift.writer.prune(conn, ADA, datetime.now(UTC) + LATER, EntryFilter()) == 0, (
        "not sealed yet"
    )
    await shift.writer.seal(conn)
    only = EntryFilter(actor="ada")
    assert await shift.writer.prunable(conn, datetime.now(UTC) + LATER, only) == 4
    assert await shift.writer.prunable(conn, datetime.now(UTC) - LATER, only) == 0
    assert await shift.writer.prune(conn, ADA, datetime.now(UTC) + LATER, only, limit=3) == 3
    await shift.writer.seal(conn)
    assert await shift.actions() == ["GROUP_NOTE", "KIND_PAUSE", "TASK_AUDIT_PRUNE_SUMMARY"]
    assert (await shift.audit.verify(conn)).wrong == []
    # Its own entries are never pruned.
    everything = EntryFilter()
    while await shift.writer.prune(conn, ADA, datetime.now(UTC) + LATER, everything):
        await shift.writer.seal(conn)
    assert set(await shift.actions()) == {"TASK_AUDIT_PRUNE_SUMMARY"}
    found = await shift.audit.verify(conn)
    assert (found.wrong, found.pruned, found.unsealed) == ([], 5, 0)


@pytest.mark.requirement("T12")
@pytest.mark.catches("audit-kept-for-ever")
async def test_t12_upkeep_prunes_what_is_older_than_the_setting(shift: Shift) -> None:
    await noted(shift, 2)
    await shift.writer.seal(shift.world.conn)
    await shift.upkeep.run(shift.world.conn, datetime.now(UTC) + timedelta(days=29))
    assert await shift.actions() == ["GROUP_NOTE"] * 2
    await shift.upkeep.run(shift.world.conn, datetime.now(UTC) + timedelta(days=31))
    assert await shift.actions() == ["TASK_AUDIT_PRUNE_SUMMARY"]


@pytest.mark.requirement("T12")
@pytest.mark.catches("formulas-run")
async def test_t12_the_audit_is_filtered_paged_and_exported(shift: Shift) -> None:
    conn = shift.world.conn
    (task,) = await shift.fail(kind="mail.send", subject="=cmd|' /C calc'!A0", trace_id="t-9")
    await shift.dead.retry(conn, [task], "+1+1")
    await shift.writer.note(conn, Action.KIND_PAUSE, Author("bob", "x"), kind="mail.send")
    assert [one.action for one in await shift.audit.page(conn, EntryFilter())] == ["KIND_PAUSE", "TASK_RETRY"]
    assert [one.actor for one in await shift.audit.page(conn, EntryFilter(actor="bob"))] == ["bob"]
    assert [one.task_id for one in await shift.audit.page(conn, EntryFilter(trace="t-9"))] == [task]
    assert await shift.audit.count(conn, EntryFilter(kind="mail.send")) == (2, True)
    first = await shift.audit.page(conn, EntryFilter(), limit=1)
    second = await shift.audit.page(conn, EntryFilter(), limit=1, offset=1)
    assert first != second
    texts = {
        how: "".join([piece async for piece in shift.audit.export(conn, EntryFilter(), how)])
        for how in ("json", "jsonl", "csv")
    }
    assert [one["action"] for one in json.loads(texts["json"])] == ["KIND_PAUSE", "TASK_RETRY"]
    assert [json.loads(line)["actor"] for line in texts["jsonl"].splitlines()] == ["bob", "ada"]
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert rows[1]["reason"] == "'+1+1"
    assert rows[1]["subject"].startswith("'=")


async def test_what_operators_do_to_queues_kinds_limits_and_tasks_is_in_the_audit(shift: Shift) -> None:
    world, conn = shift.world, shift.world.conn
    operator = world.operator
    await operator.pause_queue(conn, "default", "deploy")
    await operator.resume_queue(conn, "default")
    await operator.pause_kind(conn, "mail.send", "provider down")
    await operator.resume_kind(conn, "mail.send")
    limits = Limits(Settings(database_url=world.url), by="ada")
    await limits.set(conn, Scope.KIND, "mail.send", Limit(running=3))
    await limits.clear(conn, Scope.KIND, "mail.send")
    task = await world.enqueue()
    await operator.pause(conn, task, "look at it")
    await operator.resume(conn, task)
    await operator.cancel(conn, task, "not needed")
    assert await shift.actions() == [
        "QUEUE_PAUSE", "QUEUE_RESUME", "KIND_PAUSE", "KIND_RESUME", "LIMIT_SET", "LIMIT_CLEAR",
        "TASK_PAUSE", "TASK_RESUME", "TASK_CANCEL",
    ]  # fmt: skip


async def test_what_is_not_committed_is_not_sealed_and_holds_up_nobody(shift: Shift) -> None:
    world = shift.world
    other = await world.open()
    async with other.transaction():
        await shift.writer.note(other, Action.GROUP_NOTE, ADA)
        await noted(shift, 1)
        assert await shift.writer.seal(world.conn) == 1
    assert await shift.writer.seal(world.conn) == 1
    assert (await shift.audit.verify(world.conn)).wrong == []
