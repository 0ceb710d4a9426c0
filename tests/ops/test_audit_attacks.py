"""Attempts to remove, change, forge, reorder or block entries, generated from the catalogue, as each role.

An attempt must be refused, or reported by `verify`, or do no harm: every entry is as it was, new ones carry
the login of whoever made them, and the audit can still be read, added to and sealed.
"""

import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import sql

from holdfast.core.audit import Action, EntryFilter
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import function_statements, grants
from holdfast.store.audit import Author
from tests.ops.conftest import Shift
from tests.world import World, proven

ADA = Author("ada", "because")
ROLES = ("holdfast_enqueuer", "holdfast_worker", "holdfast_api", "owner")
ATTEMPTS_MIN = 50
# What earlier releases granted; the grants of this one must take it back.
GRANTED_BEFORE = """
grant insert on holdfast.audit_log, holdfast.audit_unsealed to holdfast_worker, holdfast_api;
grant usage on sequence holdfast.audit_chunk to holdfast_worker, holdfast_api;
grant execute on function holdfast.prune_audit to holdfast_worker;
"""
TABLES = """
select c.relname, array_agg(a.attname::text order by a.attnum),
    array_agg(format_type(a.atttypid, null) order by a.attnum)
from pg_class c join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = 'holdfast'::regnamespace and c.relkind = 'r' and c.relname ~ '^audit_'
    and a.attnum > 0 and not a.attisdropped
group by 1 order by 1
"""
# Those that lead to the tables of the audit, by themselves or through others.
FUNCTIONS = """
select p.proname, array(
    select format_type(t, null) from unnest(p.proargtypes) with ordinality as x (t, n) order by n
)
from pg_proc p
where p.pronamespace = 'holdfast'::regnamespace and p.prorettype <> 'trigger'::regtype
    and p.prosrc ~ 'audit_|add_entries|prune_entries'
    and has_function_privilege(session_user, p.oid, 'execute')
order by 1
"""
# Entries of somebody else, put where the next seal would take them for genuine.
FORGED = """
with c as (insert into holdfast.audit_unsealed values (888888) returning chunk)
insert into holdfast.audit_log (chunk, place, at, action, actor, reason, login)
select c.chunk, 1, now(), 'TASK_RETRY', 'ada', 'forged', 'somebody_else' from c
"""
ADDED = """
insert into holdfast.audit_log (chunk, place, at, action, actor, reason, login)
select u.chunk, 999, now(), 'TASK_RETRY', 'ada', 'forged', 'somebody_else' from holdfast.audit_unsealed u
"""
# Entries in the name of somebody else, by the functions that make them.
SIGNED_BY_OTHERS = (
    "select holdfast.note('TASK_RETRY', 'ada', 'because')",
    "select holdfast.note('PLAN_APPROVE', 'ada', 'because', code => 'holdfast:plan')",
    "select holdfast.note_tasks('TASK_FORGET', 'ada', 'because', array[gen_random_uuid()])",
    "select holdfast.note_items('forget', 'ada', 'because', gen_random_uuid(), '{ITEM}',"
    " array[gen_random_uuid()], '{k}', '{s}', '{t}', array[null::jsonb])",
)
CHANCES = 6
OTHER = {
    "bigint": "{0} + 1000",
    "integer": "{0} + 1000",
    "text": "'forged'",
    "timestamp with time zone": "{0} + interval '1 second'",
    "uuid": "gen_random_uuid()",
    "bytea": "'\\x00'",
    "jsonb": """'{{"forged": true}}'""",
}
HOSTILE = {
    "text": (
        "'TASK_AUDIT_PRUNE_SUMMARY'",
        "'TASK_RETRY'",
        "''",
        "null",
        "repeat('x', 200000)",
        "E'\\x1b[2J\\r\\n=cmd'",
    ),
    "integer": ("2147483647", "-1", "null", "0"),
    "bigint": ("9223372036854775807", "-1", "null"),
    "timestamp with time zone": ("'infinity'", "'-infinity'", "now() + interval '1 year'", "null"),
    "uuid": ("(select batch_id from holdfast.audit_pruned limit 1)", "null", "gen_random_uuid()"),
    "uuid[]": (
        "array(select gen_random_uuid() from generate_series(1, 3))",
        "'{}'",
        "null",
        "array[null::uuid]",
    ),
    "text[]": (
        "array['AUDIT_PRUNE_SUMMARY', 'ITEM', 'ITEM']",
        "array['ITEM']",
        "'{}'",
        "null",
        "array[null::text]",
    ),
    "jsonb": (
        """'{"count": ' || repeat('9', 5000) || '}'""",
        "repeat('[', 3000) || repeat(']', 3000)",
        """'{"a": "\\u001b[2J"}'""",
        "null",
    ),
    "jsonb[]": (
        "array['{}'::jsonb, '1', 'null']",
        "'{}'",
        "null",
        "array[(repeat('[', 99) || repeat(']', 99))::jsonb]",
    ),
    "audit_log": ("(select a from holdfast.audit_log a limit 1)", "null"),
}
# What is done in a transaction that stays open while others note and seal.
HELD = (
    "select pg_advisory_xact_lock(hashtextextended('holdfast.audit', 0))",
    "lock table holdfast.audit_log, holdfast.audit_seals, holdfast.audit_unsealed in access share mode",
    "select holdfast.note('TASK_RETRY', 'mallory', 'never committed')",
    "select holdfast.seal_audit(0)",
)


def on_tables(tables: list[tuple[str, list[str], list[str]]], *, owner: bool) -> list[str]:
    """What can be tried with plain statements."""
    found = [
        "select setval('holdfast.audit_chunk', 1)",
        "select setval('holdfast.audit_chunk', 9223372036854775800)",
    ]
    for table, columns, types in tables:
        name = f"holdfast.{table}"
        listed = ", ".join(columns)
        shifted = ", ".join(
            f"{column} + 1000" if kind == "bigint" else column
            for column, kind in zip(columns, types, strict=True)
        )
        found += [
            f"insert into {name} ({listed}) select {listed} from {name}",
            f"insert into {name} ({listed}) select {shifted} from {name}",
            f"insert into {name} ({listed}) select {listed} from {name} on conflict do nothing",
            f"insert into {name} default values",
            f"delete from {name}",
            f"delete from {name} where ctid in (select max(ctid) from {name})",
            f"truncate {name}",
        ]
        found += [
            f"update {name} set {column} = {OTHER[kind].format(column)}"
            for column, kind in zip(columns, types, strict=True)
        ]
        if not owner:
            modes = ("row exclusive", "share", "share row exclusive", "exclusive", "access exclusive")
            found += [f"lock table {name} in {mode} mode" for mode in modes]
            found += [
                f"select * from {name} for update",
                f"alter table {name} disable trigger user",
                f"drop table {name}",
            ]
    found += [FORGED, ADDED]
    found.append(
        "insert into holdfast.audit_unsealed select chunk from holdfast.audit_seals on conflict do nothing"
    )
    found.append("insert into holdfast.audit_unsealed values (999999999)")
    return found


def on_functions(functions: list[tuple[str, list[str]]]) -> list[str]:
    """Each function with hostile arguments: every value of its richest argument, and some by chance."""
    found, chance = [], random.Random(7)
    for name, types in functions:
        choices = [HOSTILE[kind.removeprefix("holdfast.")] for kind in types]
        turns = range(max((len(some) for some in choices), default=1))
        calls = [[some[(turn + place) % len(some)] for place, some in enumerate(choices)] for turn in turns]
        calls += [[chance.choice(some) for some in choices] for _ in range(CHANCES)]
        for call in calls:
            given = ", ".join(f"({one})::{of}" for one, of in zip(call, types, strict=True))
            found.append(f"select holdfast.{name}({given})")
    return [*found, *SIGNED_BY_OTHERS]


@dataclass(slots=True)
class Scene:
    """An audit that was sealed and pruned, and a login that attacks it."""

    shift: Shift
    role: str
    attacker: Conn
    login: str

    async def set_up(self) -> None:
        conn = self.shift.world.conn
        await World.empty(conn)
        await conn.execute(
            "select setval('holdfast.audit_chunk', greatest(100, nextval('holdfast.audit_chunk')) % 1000000)"
        )
        # A token that holds, so that whether it is believed depends on the login alone.
        async with proven(conn, "of-the-boss"):
            pass
        for number in range(4):
            await self.shift.writer.note(conn, Action.GROUP_NOTE, ADA, details={"number": number})
        await self.shift.writer.note_tasks(
            conn, Action.TASK_RETRY, ADA, ["0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f"] * 2
        )
        await self.shift.writer.seal(conn)
        await conn.execute(
            "select holdfast.prune_entries('ada', 'old', null, now(), 1, null, null, null, null, null, null)"
        )
        await self.shift.writer.seal(conn)
        assert (await self.verified()) == []
        await self.shift.writer.note(conn, Action.GROUP_NOTE, ADA)

    async def verified(self) -> list[str]:
        return list((await self.shift.audit.prove(self.shift.world.conn, self.shift.writer)).wrong)

    async def entries(self) -> dict[tuple[int, int], tuple[str, str | None, str | None]]:
        cursor = await self.shift.world.conn.execute(
            "select chunk, place, audit_log::text, login, token from holdfast.audit_log"
        )
        return {(chunk, place): tuple(rest) for chunk, place, *rest in await cursor.fetchall()}

    async def attempt(self, statement: str) -> str:
        """What became of it: refused, reported, or without harm; anything else is what went unnoticed."""
        before = await self.entries()
        try:
            async with self.attacker.transaction():
                if self.role != "owner":
                    # They may set what they like.
                    await self.attacker.execute(
                        "select set_config('holdfast_audit.token', 'of-the-boss', true),"
                        " set_config('holdfast_audit.address', '192.0.2.1', true)"
                    )
                await self.attacker.execute(statement)
        except psycopg.Error:
            return "refused"
        found = await self.judge(before)
        await self.set_up()
        return found

    async def judge(self, before: dict[tuple[int, int], tuple[str, str | None, str | None]]) -> str:
        conn = self.shift.world.conn
        after = await self.entries()
        wrong = []
        for key, entry in before.items():
            if after.get(key) != entry:
                wrong.append(f"entry {key} was {entry[0]}, and is {after.get(key)}")
        for key in after.keys() - before.keys():
            _, login, token = after[key]
            if login != self.login:
                wrong.append(f"entry {key} has the login {login}")
            if self.role == "holdfast_worker" and not (token is None or token.startswith("holdfast:")):
                wrong.append(f"entry {key} has the token {token}")
        try:
            await self.shift.writer.note(conn, Action.GROUP_NOTE, ADA)
            if not await self.shift.writer.seal(conn):
                wrong.append("nothing is sealed any more")
            await self.shift.audit.page(conn, EntryFilter())
        except psycopg.Error as error:
            wrong.append(f"the audit cannot be used: {error}")
        if await self.verified():
            return "reported"
        return "; ".join(wrong) or "without harm"

    async def hold(self, statement: str) -> str:
        """Whether others can go on while this is held."""
        conn = self.shift.world.conn
        try:
            async with self.attacker.transaction(force_rollback=True):
                await self.attacker.execute(statement)
                await conn.execute("set lock_timeout = '2s'")
                await self.shift.writer.note(conn, Action.GROUP_NOTE, ADA)
                try:
                    return "without harm" if await self.shift.writer.seal(conn) else "nothing is sealed"
                except psycopg.errors.LockNotAvailable as error:
                    # Only whoever may seal can hold up sealing, and not in secret.
                    seals = "seal_audit" in statement and await self.verified()
                    return "reported" if seals else f"it blocks: {error}"
        except psycopg.Error:
            return "refused"
        finally:
            await conn.execute("set lock_timeout = 0")


@pytest.fixture
async def scene(request: pytest.FixtureRequest, shift: Shift, direct_url: str) -> AsyncIterator[Scene]:
    role = request.param
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute(GRANTED_BEFORE)
        await conn.execute(grants("holdfast"))
        for statement in function_statements("holdfast", audit_prune_days_min=1):
            await conn.execute(statement)
        login = f"{role}_{os.getpid()}"
        if role == "owner":
            ((login,),) = await (await conn.execute("select session_user::text")).fetchall()
        else:
            name = sql.Identifier(login)
            await conn.execute(sql.SQL("drop role if exists {}").format(name))
            await conn.execute(sql.SQL("create role {} login in role {}").format(name, sql.Identifier(role)))
        address = psycopg.conninfo.make_conninfo(direct_url, user=login)
        async with await connect(address) as attacker:
            await attacker.execute("set statement_timeout = '10s'")
            found = Scene(shift, role, attacker, login)
            await found.set_up()
            yield found
        if role != "owner":
            await conn.execute(sql.SQL("drop role {}").format(sql.Identifier(login)))
        for statement in function_statements("holdfast", audit_prune_days_min=0):
            await conn.execute(statement)
        await World.empty(shift.world.conn)


@pytest.mark.parametrize("scene", ROLES, indirect=True)
@pytest.mark.requirement("T12")
@pytest.mark.catches(
    "audit-inserts-by-hand",
    "seal-lock-of-anybody",
    "settings-of-anybody-believed",
)
async def test_whatever_a_role_tries_is_refused_or_reported_or_does_no_harm(scene: Scene) -> None:
    tables = await (await scene.attacker.execute(TABLES)).fetchall()
    assert len(tables) == 4
    owner = scene.role == "owner"
    attempts = on_tables(tables, owner=owner)
    if not owner:
        functions = await (await scene.attacker.execute(FUNCTIONS)).fetchall()
        assert bool(functions) is (scene.role != "holdfast_enqueuer")
        attempts += on_functions(functions)
    found = {statement: await scene.attempt(statement) for statement in attempts}
    if not owner:
        found |= {f"held: {statement}": await scene.hold(statement) for statement in HELD}
    print(f"{scene.role}: {len(found)} attempts, {dict(Counter(found.values()))}")  # noqa: T201
    unnoticed = {
        one: what for one, what in found.items() if what not in {"refused", "reported", "without harm"}
    }
    assert unnoticed == {}
    assert len(found) >= ATTEMPTS_MIN
