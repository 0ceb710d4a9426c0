"""The schema comes and goes by migrations, matches its snapshot, and gives each role its own rights."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from holdfast.cli.main import program
from holdfast.config import Settings
from holdfast.core.errors import Misused, SchemaError
from holdfast.core.events import Event, OwnerNeeded, PartitionsChanged
from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.db import migrate
from holdfast.db.connect import Conn, where
from holdfast.db.migrate import (
    grants,
    migrate_down,
    migrate_up,
    migrations,
    require_current,
)
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.operate import Operator
from holdfast.store.store import Store
from holdfast.store.upkeep import Upkeep
from tests.commands import run
from tests.conftest import direct

SNAPSHOT = Path(migrate.__file__).parent / "schema.txt"

COLUMNS = """
select format('%%s.%%s %%s%%s%%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
    case when a.attnotnull then ' not null' else '' end,
    coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
from pg_attribute a join pg_class c on c.oid = a.attrelid
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'p', 'v') and a.attnum > 0
    and not a.attisdropped and c.relname !~ '_[0-9]{8}$'
order by c.relname, a.attnum
"""
OTHERS = """
select format('%%s %%s %%s', c.relname, x.conname, pg_get_constraintdef(x.oid))
from pg_constraint x join pg_class c on c.oid = x.conrelid
where c.relnamespace = %(s)s::regnamespace and c.relname !~ '_[0-9]{8}$' and x.contype <> 'n'
union all
select pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indrelid
where c.relnamespace = %(s)s::regnamespace and c.relname !~ '_[0-9]{8}$'
union all
select format('%%s %%s', p.oid::regprocedure, md5(p.prosrc)) from pg_proc p
where p.pronamespace = %(s)s::regnamespace
union all
select format('%%s options %%s', c.relname, c.reloptions) from pg_class c
where c.relnamespace = %(s)s::regnamespace and c.reloptions is not null and c.relname !~ '_[0-9]{8}'
union all
select format('sequence %%s', c.relname) from pg_class c
where c.relnamespace = %(s)s::regnamespace and c.relkind = 'S'
order by 1
"""


async def described(conn: Conn, schema: str) -> str:
    lines = [row[0] for row in await (await conn.execute(COLUMNS, [schema])).fetchall()]
    lines += [row[0] for row in await (await conn.execute(OTHERS, {"s": schema})).fetchall()]
    return "\n".join(lines).replace(f"{schema}.", "holdfast.") + "\n"


@pytest.mark.requirement("F5")
@pytest.mark.catches("migration-keeps-no-way-back")
async def test_up_down_and_up_again_ends_where_it_began(blank: Conn) -> None:
    assert [m.number for m in await migrate_up(blank, "holdfast")] == [
        m.number for m in migrations("holdfast")
    ]
    first = await described(blank, "holdfast")
    assert await migrate_up(blank, "holdfast") == []
    await migrate_down(blank, "holdfast")
    left = await described(blank, "holdfast")
    assert "tasks" not in left
    assert "enqueue" not in left
    await migrate_up(blank, "holdfast")
    assert await described(blank, "holdfast") == first


@pytest.mark.requirement("F5")
@pytest.mark.catches("migration-keeps-no-way-back")
async def test_a_migration_that_runs_again_keeps_existing_rows(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await blank.execute("select holdfast.enqueue('mail.send')")
    await migrate_up(blank, "holdfast")
    assert await (await blank.execute("select count(*) from holdfast.tasks")).fetchone() == (1,)


async def test_the_schema_is_its_snapshot_under_any_name(blank: Conn) -> None:
    await migrate_up(blank, "jobs_of_ours")
    found = await described(blank, "jobs_of_ours")
    if not SNAPSHOT.exists() or os.environ.get("HOLDFAST_WRITE_SNAPSHOT"):
        SNAPSHOT.write_text(found)
    assert found == SNAPSHOT.read_text(), "HOLDFAST_WRITE_SNAPSHOT=1 pytest tests/store/test_migrate.py"
    await blank.execute("select jobs_of_ours.enqueue('mail.send')")
    assert await (await blank.execute("select count(*) from jobs_of_ours.ready")).fetchone() == (1,)


async def test_a_schema_that_is_not_current_is_refused_with_what_to_do(blank: Conn) -> None:
    with pytest.raises(SchemaError, match=r"has no tables yet: run `holdfast migrate`"):
        await require_current(blank, "holdfast")
    await migrate_up(blank, "holdfast")
    await require_current(blank, "holdfast")
    await blank.execute("insert into holdfast.migrations values (9999, 'future', '')")
    with pytest.raises(SchemaError, match="newer than this package's"):
        await require_current(blank, "holdfast")
    await blank.execute("update holdfast.migrations set checksum = 'x' where number = 1")
    with pytest.raises(SchemaError, match=r"0001 .tasks. was changed after it had been applied"):
        await migrate_up(blank, "holdfast")


async def test_going_down_is_refused_while_tasks_are_there(
    blank: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"{direct()}/holdfast_blank_{os.getpid()}")

    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(program, ["migrate", *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        return done.output

    names = [f"{m.number:04} {m.name}" for m in migrations("holdfast")]
    here = where(os.environ["HOLDFAST_DATABASE_URL"])
    planned = "".join(f"to apply: {name}\n" for name in names)
    assert await asyncio.to_thread(run, "--plan") == f"{planned}in {here}\n"
    down = await asyncio.to_thread(run, "--down", "--to", "9")
    assert down == f"nothing to do in {here}: nothing above 0009 is applied\n"
    applied = "".join(f"applied: {name}\n" for name in names)
    assert await asyncio.to_thread(run) == f"{applied}in {here}\n"
    assert await asyncio.to_thread(run) == f"nothing to do in {here}: the schema is as it should be\n"
    with pytest.raises(Misused, match="--to is where --down goes back to"):
        await asyncio.to_thread(run, "--to", "3")
    assert "holdfast_worker" in await asyncio.to_thread(run, "--grants")
    await blank.execute("select holdfast.enqueue('mail.send')")
    with pytest.raises(
        SchemaError, match="holds 1 tasks and 0 that completed, which going down removes: add --yes"
    ):
        await asyncio.to_thread(run, "--down")
    taken = "".join(f"taken back: {name}\n" for name in reversed(names))
    assert await asyncio.to_thread(run, "--down", "--yes") == f"{taken}in {here}\n"


@pytest.mark.catches("limit-not-laid-in")
async def test_the_limit_on_payloads_in_sql_is_that_of_the_last_migrate(
    blank: Conn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"{direct()}/holdfast_blank_{os.getpid()}")
    for limit in (5_000, 300_000, 20):
        monkeypatch.setenv("HOLDFAST_PAYLOAD_BYTES_MAX", str(limit))
        await run("migrate")
        enqueue = "select holdfast.enqueue('render', to_jsonb(repeat('x', %s)))"
        await blank.execute(enqueue, [limit - 2])
        with pytest.raises(
            psycopg.Error, match=f"has {limit + 1} bytes, the limit is {limit}: store"
        ) as refused:
            await blank.execute(enqueue, [limit - 1])
        assert refused.value.sqlstate == "HF003"
        assert "when `holdfast migrate` ran last" in str(refused.value.diag.message_hint)


async def test_upkeep_runs_with_a_worker_s_rights(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await blank.execute(grants("holdfast"))
    await blank.execute("drop table holdfast.task_history_" + datetime.now(UTC).strftime("%Y%m%d"))
    told: list[Event] = []
    await blank.execute("set role holdfast_worker")
    await Upkeep(listen=told.append).run(blank)
    assert any(isinstance(event, PartitionsChanged) for event in told), "a worker may make days"
    await Upkeep(listen=told.append).run(blank, datetime.now(UTC) + timedelta(days=10))
    assert any(isinstance(event, OwnerNeeded) for event in told), "only the owner lets them go"


async def test_each_role_can_do_its_work_and_no_more(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await blank.execute(grants("holdfast"))

    async def allowed(role: str, statement: str) -> bool:
        try:
            async with blank.transaction(force_rollback=True):
                await blank.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
                await blank.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            return False
        return True

    enqueue = "select holdfast.enqueue('mail.send', key => 'k')"
    assert [await allowed(f"holdfast_{role}", enqueue) for role in ("enqueuer", "worker", "api")] == [
        True
    ] * 3
    assert not await allowed("holdfast_enqueuer", "select * from holdfast.tasks")
    assert not await allowed("holdfast_enqueuer", "insert into holdfast.ready select * from holdfast.ready")
    assert await allowed("holdfast_worker", "delete from holdfast.running")
    assert not await allowed("holdfast_worker", "delete from holdfast.task_history")
    assert not await allowed("holdfast_api", "delete from holdfast.task_history")
    assert await allowed("holdfast_api", "update holdfast.cancel_requests set reason = 'x'")
    for role in ("enqueuer", "worker", "api"):
        assert not await allowed(f"holdfast_{role}", "drop table holdfast.tasks")


async def test_what_an_operator_does_needs_no_more_than_the_rights_of_the_api(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await blank.execute(grants("holdfast"))
    operator = Operator(Settings(database_url=""))
    store = Store(Settings(database_url=""))
    worker = str(uuid4())
    await store.workers.register(blank, worker, "test", 30)
    await store.enqueue_many(blank, [NewTask("mail.send")] * 2)
    running = (await store.claims.claim(blank, worker, 1, ClaimRequest(all_ranges(["default"])))).claims[0].id
    ((waiting,),) = await (await blank.execute("select id::text from holdfast.ready")).fetchall()
    async with blank.transaction():
        await blank.execute("set local role holdfast_api")
        assert await operator.wake(blank, [running]) == [running]
        assert await operator.cancel(blank, running, "not wanted") is State.RUNNING
        await operator.pause(blank, waiting, "later")
        await operator.resume(blank, waiting)
        assert await operator.cancel(blank, waiting, "not wanted") is State.CANCELLED
        assert await operator.redrive(blank, [waiting], "after all") == [waiting]
        await operator.pause_kind(blank, "mail.send", "the provider is down")
        await operator.pause_queue(blank, "default", "a deploy")


@pytest.mark.requirement("F5")
@pytest.mark.catches("migration-drops-rows")
async def test_f5_a_later_migration_keeps_every_row_and_goes_back(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await migrate_down(blank, "holdfast", to=1)
    insert = (
        "insert into holdfast.tasks (id, enqueued_at, run_at, priority, kind, queue, payload, mark,"
        " marked_at, dead_reason) values (gen_random_uuid(), now(), now(), 2, 'old', 'default', '{}',"
        " 'failed', now(), 'non_retryable')"
    )
    await blank.execute(insert)
    await migrate_up(blank, "holdfast")
    kept = await (await blank.execute("select kind, replay_count from holdfast.tasks")).fetchall()
    assert kept == [("old", 0)]
    await migrate_down(blank, "holdfast", to=1)
    assert await (await blank.execute("select kind from holdfast.tasks")).fetchall() == [("old",)]
    await migrate_up(blank, "holdfast")


@pytest.mark.requirement("F5")
@pytest.mark.catches("migration-forgets-missed-ticks")
async def test_schedules_keep_what_they_missed_over_the_migration(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await migrate_down(blank, "holdfast", 6)
    now = datetime.now(UTC)
    missed, pushed = now - timedelta(hours=3), now + timedelta(minutes=88)
    for name, next_at in (("missed", missed), ("pushed", pushed)):
        await blank.execute(
            "insert into holdfast.schedules (name, kind, queue, version, expression, zone, payload, missed,"
            " most, jitter_seconds, next_at, last_tick_at, declared_at)"
            " values (%s, 'report', 'default', 1, '* * * * *', 'UTC', '{}', 'one', 100, 0, %s, %s, now())",
            [name, next_at, next_at - timedelta(minutes=1)],
        )
    await migrate_up(blank, "holdfast")
    rows = await (await blank.execute("select name, caught_up_to from holdfast.schedules")).fetchall()
    found: dict[str, datetime] = dict(rows)
    assert missed - timedelta(minutes=1) < found["missed"] < missed, "three hours are made up for"
    assert abs(found["pushed"] - datetime.now(UTC)) < timedelta(minutes=1), "its ticks begin now"
    await migrate_down(blank, "holdfast", 6)
    assert await (await blank.execute("select count(*) from holdfast.schedules")).fetchone() == (2,)


@pytest.mark.requirement("F5")
@pytest.mark.catches("migration-lets-leased-permits-go")
async def test_leased_permits_outlive_the_migration_both_ways(blank: Conn) -> None:
    await migrate_up(blank, "holdfast")
    await migrate_down(blank, "holdfast", 10)
    leased = "insert into holdfast.slots (worker, slots, epoch, number, bucket) values (%s, 3, 7, 700, 'a')"
    await blank.execute(leased, [uuid4()])
    numbered = "select slots, epoch, bucket from holdfast.slots"
    held = "select permits, generation, bucket from holdfast.permits"
    await migrate_up(blank, "holdfast")
    assert await (await blank.execute(held)).fetchall() == [(3, 7, "a")]
    await migrate_down(blank, "holdfast", 10)
    # A release that has the floor counts slots of this number wherever its floor is.
    assert await (await blank.execute(f"{numbered} where number = 9223372036854775807")).fetchall() == [
        (3, 7, "a")
    ]
