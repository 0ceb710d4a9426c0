"""Every statement is valid SQL for PostgreSQL, and the hot ones use the indexes they were written for."""

import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import LiteralString

import pytest
from psycopg._queries import MAX_CACHED_STATEMENT_LENGTH

import holdfast
from holdfast.core.limit import Limit, Scope
from holdfast.core.task import NewTask
from holdfast.db.bridges import numbered
from holdfast.db.connect import Conn
from holdfast.db.migrate import migrate_up
from holdfast.db.statements import load
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.limits import Limits
from holdfast.store.permits import BlockedRequest, whole_line
from tests.store.outgrown import outgrown
from tests.world import World

FOLDER = Path(holdfast.__file__).parent
FILES = [
    str(path.relative_to(FOLDER))
    for path in FOLDER.rglob("*.sql")
    if path.name not in ("grants.sql", "shared.sql") and path.parent.name != "migrations"
]
_COMMENTED = re.compile(r"^-- name: (?!install_)(\w+)\n((?:-- .*\n)*)", re.MULTILINE)
STATEMENTS = [(file, name) for file in FILES for name in load(file) if not name.startswith("install_")]


@pytest.mark.parametrize(("file", "name"), STATEMENTS)
async def test_every_statement_can_be_prepared(world: World, direct_url: str, file: str, name: str) -> None:
    conn = await world.open_direct(direct_url)
    text, names = numbered(load(file)[name])
    if text.startswith("lock table "):
        # No statement that PostgreSQL prepares.
        async with conn.transaction():
            await conn.execute(text)
        return
    types = ["unknown"] * len(names)
    await conn.execute(
        f"prepare checked({', '.join(types)}) as {text}" if types else f"prepare checked as {text}"
    )


async def test_every_statement_can_be_prepared_in_a_schema_of_another_name(blank: Conn) -> None:
    await migrate_up(blank, "jobs_of_ours")
    for file, name in STATEMENTS:
        text, names = numbered(load(file, "jobs_of_ours")[name])
        if not text.startswith("lock table "):
            types = f"({', '.join(['unknown'] * len(names))})" if names else ""
            await blank.execute(f"prepare elsewhere{types} as {text}")
            await blank.execute("deallocate elsewhere")


def test_only_the_store_writes_tasks() -> None:
    writes = re.compile(r"(insert into|update|delete from)\s+holdfast\.(tasks|ready|blocked|running)\b")
    for path in [*FOLDER.rglob("*.py"), *FOLDER.rglob("*.sql")]:
        if path.parent != FOLDER / "store" or path.suffix != ".sql":
            found = "migrations" not in path.parts and writes.search(path.read_text())
            assert not found, f"{path.name} writes where a task stands"


@pytest.mark.parametrize("name", ["claim", "claim_blocked", "complete"])
def test_the_driver_remembers_the_hot_statements_parsed(name: str) -> None:
    # Parsing a claim anew took a tenth of a millisecond, three hundred times in a second.
    assert len(of_store(name, "holdfast_of_ours")) <= MAX_CACHED_STATEMENT_LENGTH


def test_every_statement_says_why() -> None:
    found = [
        (f"{file}: {name}", comment)
        for file in FILES
        for name, comment in _COMMENTED.findall((FOLDER / file).read_text())
    ]
    assert len(found) == len(STATEMENTS)
    wrong = [statement for statement, comment in found if len(comment.split()) < 5]
    assert not wrong, "without a comment below the name that says why: " + ", ".join(wrong)


def of_store(name: str, schema: str = "holdfast") -> LiteralString:
    """The statement of this name, in whichever file of the store it stands."""
    (file,) = [file for file in FILES if file.startswith("store/") and name in load(file)]
    return load(file, schema)[name]


async def plan(conn: Conn, name: str, values: Mapping[str, object]) -> str:
    cursor = await conn.execute("explain (costs off) " + of_store(name), values)
    return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.mark.parametrize("tasks", [0, 3_000])
async def test_the_hot_statements_read_no_table_whole(world: World, direct_url: str, tasks: int) -> None:
    conn = await world.open_direct(direct_url)
    if tasks:
        await world.store.enqueue_many(conn, [NewTask("mail.send")] * tasks)
    complete = await plan(conn, "complete", {"ids": "{}", "fences": "{}", "results": None, "now": None})
    settle = await plan(conn, "settle", {"verdicts": "[]", "now": None})
    for hot in (complete, settle):
        assert not re.search(r"Seq Scan on (ready|running|tasks)\b", hot), hot


async def reads(conn: Conn, column: str) -> dict[str, int]:
    """How often a table was read whole (`seq_scan`), or rows of it through an index (`idx_tup_fetch`)."""
    cursor = await conn.execute(
        f"select relname, {column} from pg_stat_xact_user_tables"
        " where schemaname = 'holdfast' and relname in ('ready', 'running', 'tasks', 'buckets')"
    )
    return dict(await cursor.fetchall())


@pytest.mark.parametrize("tasks", [0, 3_000])
@pytest.mark.catches("claim-reads-whole-tables")
async def test_a_claim_reads_no_table_whole(world: World, tasks: int) -> None:
    if tasks:
        await world.store.enqueue_many(world.conn, [NewTask("mail.send")] * tasks)
    await world.register(world.worker)
    async with world.conn.transaction():
        # As behind a pooler, where a connection cannot turn whole reads off for itself.
        await world.conn.execute("set local enable_seqscan = on")
        before = await reads(world.conn, "seq_scan")
        claimed = await world.store.claims.claim(
            world.conn, world.worker, 100, ClaimRequest(all_ranges(["default"]))
        )
        assert await reads(world.conn, "seq_scan") == before
    assert len(claimed.claims) == min(tasks, 100)


SLOT_ACCESS = """
select seq_scan, n_tup_ins, n_tup_upd, n_tup_hot_upd, n_tup_del from pg_stat_xact_user_tables
where schemaname = 'holdfast' and relname = 'permits'
"""


@pytest.mark.catches("permits-read-whole", "permits-updated-in-an-index")
async def test_permits_are_found_by_their_key_and_updated_in_place(world: World, limits: Limits) -> None:
    conn, permits = world.conn, world.store.permits
    await limits.set(conn, Scope.KEY, "render/episode=*", Limit(running=9))
    await limits.set(conn, Scope.KIND, "mail.send", Limit(running=9))
    await world.register(world.worker)
    keys = {f"render/episode={n}": 1 for n in range(50)}
    tasks = [NewTask("render", bucket=key) for key in keys] + [NewTask("mail.send")] * 2
    # A table that statistics call empty is read whole, unless the statements forbid it.
    await conn.execute("analyze holdfast.permits")

    async def at_once() -> None:
        await world.store.claims.claim(
            conn, world.worker, 100, ClaimRequest(all_ranges(["default"]), ["render"], at_once=25)
        )

    async def in_line() -> None:
        request = BlockedRequest(whole_line(["default"], ["render", "mail.send"]), ["default"])
        await permits.claim_blocked(conn, world.worker, 100, request)

    async def freed() -> None:
        await permits.free_permits(conn, world.worker, 0, keys)

    async def accesses(act: Callable[[], Awaitable[None]]) -> tuple[int, ...]:
        # A row is updated in place where its page has room, and dead rows take that away.
        await conn.execute("vacuum holdfast.permits")
        async with conn.transaction():
            # As behind a pooler, where a connection cannot turn whole reads off for itself.
            await conn.execute("set local enable_seqscan = on")
            (before,) = await (await conn.execute(SLOT_ACCESS)).fetchall()
            await act()
            (after,) = await (await conn.execute(SLOT_ACCESS)).fetchall()
        return tuple(b - a for a, b in zip(before, after, strict=True))

    found = []
    for act in (at_once, in_line, at_once, in_line, freed, freed):
        if act is at_once:
            await world.store.enqueue_many(conn, tasks)
        found.append(await accesses(act))
    # Whole reads; inserted, updated, of these without a new entry in an index; deleted.
    assert found == [
        (0, 25, 0, 0, 0),
        (0, 26, 0, 0, 0),
        (0, 0, 25, 25, 0),
        (0, 0, 26, 26, 0),
        (0, 0, 50, 50, 0),
        (0, 0, 0, 0, 50),
    ]


@pytest.mark.catches("claim-sorts-all-that-waits", "block-heads-sorts-all-that-waits")
@pytest.mark.parametrize("statement", ["claim", "block_heads"])
async def test_a_burst_on_a_queue_that_was_counted_as_empty_is_not_sorted(
    world: World, statement: str
) -> None:
    await world.register(world.worker)
    async with outgrown(world.conn, 30_000), world.conn.transaction():
        before = (await reads(world.conn, "idx_tup_fetch"))["ready"]
        if statement == "claim":
            claimed = await world.store.claims.claim(
                world.conn, world.worker, 10, ClaimRequest(all_ranges(["default"]))
            )
            assert len(claimed.claims) == 10
        else:
            await world.store.claims.block_heads(world.conn, all_ranges(["default"]), limit=10)
        after = (await reads(world.conn, "idx_tup_fetch"))["ready"]
        assert 10 <= after - before < 100, "the first few, along the index"


@pytest.mark.catches("running-read-for-each-lost")
async def test_what_takes_back_reads_running_once_however_many_were_lost(
    world: World, direct_url: str
) -> None:
    conn = await world.open_direct(direct_url)
    await world.store.enqueue_many(conn, [NewTask("mail.send")] * 3_000)
    await world.claim(1_000)
    await conn.execute("update holdfast.workers set lost_at = now()")
    await conn.execute("analyze holdfast.tasks, holdfast.running, holdfast.workers")
    cursor = await conn.execute(
        "explain (analyze, timing off, costs off) " + of_store("lapsed"),
        {"grace": 30.0, "limit": 50, "before": None, "forward": None},
    )
    found = "\n".join(row[0] for row in await cursor.fetchall())
    assert "rows=1000" in found, "all that the worker held"
    loops = re.findall(r"on running \w+ \(actual rows=\S+ loops=(\d+)\)", found)
    assert loops == ["1", "1"], found
    # Each task by its key; by how many pages the statistics find in `tasks`, with a bitmap or without.
    assert re.search(r"Index Scan (using|on) tasks_pkey", found), found
