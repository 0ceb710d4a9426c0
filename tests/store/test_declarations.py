"""The table of kinds: written by workers, once; kept after them; pruned when nothing of a kind is left."""

from pathlib import Path

import pytest

from holdfast.config import Settings
from holdfast.core.handler import Handler
from holdfast.core.outcome import Complete
from holdfast.db.connect import Conn
from holdfast.db.migrate import grants
from holdfast.db.statements import load
from holdfast.store.kinds import Declarations
from holdfast.store.upkeep import Upkeep
from tests import secret_app
from tests.ops.conftest import shift_of
from tests.tree import Tree, until_true
from tests.world import World

KIND = "mail.send"
OLD = "update holdfast.kinds set declared_at = now() - interval '91 days'"


def a_kind(kind: str = KIND, *secrets: str, queue: str = "default") -> Handler:
    return Handler(kind, lambda _: None, awaits=False, queue=queue, secrets=secrets)


def of_release(world: World, release: str = "") -> Declarations:
    return Declarations(Settings(database_url=world.url, release=release))


async def versions(conn: Conn) -> list[tuple[object, ...]]:
    """By which it is seen whether a row was written, or even locked, again."""
    return await (
        await conn.execute("select kind, ctid::text, xmin::text, xmax::text from holdfast.kinds order by 1")
    ).fetchall()


@pytest.mark.catches("kinds-not-declared")
async def test_a_worker_declares_every_kind_that_it_serves(world: World, url: str, tmp_path: Path) -> None:
    tree = Tree(url, tmp_path, app="tests.secret_app:app")
    tree.start("--queues", "money", clock={"HOLDFAST_RELEASE": "r1"})

    async def registered() -> bool:
        return await world.rows("workers") > 0

    try:
        await until_true(registered, 60, "a worker")
    finally:
        tree.close()
    cursor = await world.conn.execute(
        "select kind, release, queue, secrets, guarded, payload_hash is null"
        " from holdfast.kinds order by kind"
    )
    assert await cursor.fetchall() == [
        ("echo", "r1", "default", [], False, True),
        ("holdfast.plan", "r1", "holdfast", [], False, True),
        ("pay", "r1", "money", ["card"], True, False),
        ("webhook.deliver", "r1", "default", ["body"], False, False),
        ("webhook.publish", "r1", "default", ["data"], False, False),
    ]


async def test_the_hash_tells_whether_the_payload_has_changed() -> None:
    assert (made := secret_app.pay.handler.payload_hash()) is not None
    assert len(made) == 64
    assert made == secret_app.pay.handler.payload_hash()
    assert secret_app.echo.handler.payload_hash() is None


@pytest.mark.catches("kinds-written-again")
async def test_what_is_declared_again_and_is_the_same_writes_nothing(world: World) -> None:
    kinds = of_release(world)
    handlers = [a_kind("b", "pin", "card"), a_kind("a")]
    await kinds.declare(world.conn, handlers)
    before = await versions(world.conn)
    await kinds.declare(world.conn, handlers[::-1])
    await kinds.declare_secrets(world.conn, "default", {"b": ["card"], "a": []})
    assert await versions(world.conn) == before
    await world.conn.execute("update holdfast.kinds set declared_at = now() - interval '61 minutes'")
    before = await versions(world.conn)
    await kinds.declare(world.conn, handlers)
    assert await versions(world.conn) != before, "once an hour it is seen that somebody still declares it"


@pytest.mark.catches("secrets-of-one-release")
async def test_what_one_release_calls_secret_is_secret_in_all(world: World) -> None:
    await of_release(world, "1").declare(world.conn, [a_kind(KIND, "card")])
    await of_release(world, "2").declare(world.conn, [a_kind(KIND, "pin"), a_kind("open")])
    found = await of_release(world).secrets_of(world.conn, [KIND, "open", "unknown"])
    assert found == {KIND: {"card", "pin"}, "open": frozenset()}


@pytest.mark.catches("secrets-forgotten")
async def test_a_row_that_several_share_only_gains_secret_fields(world: World) -> None:
    kinds = of_release(world)
    await kinds.declare(world.conn, [a_kind(KIND, "card", queue="mails")])
    await kinds.declare_secrets(world.conn, "outside", {KIND: ["pin"], "render": ["token"]})
    await kinds.declare(world.conn, [a_kind(KIND, queue="letters")])
    cursor = await world.conn.execute("select kind, queue, secrets from holdfast.kinds order by kind")
    assert await cursor.fetchall() == [(KIND, "letters", ["card", "pin"]), ("render", "outside", ["token"])]


@pytest.mark.parametrize("left", ["nothing", "worker", "failed", "ready", "blocked", "running", "history"])
@pytest.mark.catches("kinds-pruned-in-use")
async def test_a_kind_is_pruned_after_90_days_unless_something_of_it_is_left(world: World, left: str) -> None:
    kinds = of_release(world)
    await kinds.declare(world.conn, [a_kind(), a_kind("other")])
    await world.conn.execute(f"{OLD} where kind = %s", [KIND])
    match left:
        case "worker":
            await world.store.workers.register(world.conn, world.worker, "w", 30, kinds=[KIND])
        case "ready":
            await world.enqueue(queue="nobody serves it")
        case "blocked":
            await world.operator.pause_kind(world.conn, KIND, "the provider is down")
            await world.enqueue()
            assert await world.claim() == []
            assert await world.rows("blocked") == 1
        case "running":
            await world.enqueue()
            await world.claim_one()
        case "failed":
            await shift_of(world).fail()
        case "history":
            await world.enqueue()
            await world.settle((await world.claim_one(), Complete()))
        case _:
            assert left == "nothing"
    await Upkeep(world.store.settings).run(world.conn)
    kept = {
        kind for (kind,) in await (await world.conn.execute("select kind from holdfast.kinds")).fetchall()
    }
    assert kept == ({"other"} if left in {"nothing", "history"} else {KIND, "other"})


async def test_old_releases_go_once_a_newer_one_hides_as_much(world: World) -> None:
    for release, fields in (("1", ["card"]), ("2", ["pin"]), ("3", ["card", "note"])):
        await of_release(world, release).declare(world.conn, [a_kind(KIND, *fields)])
    await world.conn.execute(f"{OLD} where release < '3'")
    await world.store.workers.register(world.conn, world.worker, "w", 30, kinds=[KIND])
    assert await of_release(world).prune(world.conn) == 1
    cursor = await world.conn.execute("select release from holdfast.kinds order by 1")
    assert await cursor.fetchall() == [("2",), ("3",)]
    assert (await of_release(world).secrets_of(world.conn, [KIND]))[KIND] == {"card", "pin", "note"}


async def test_looking_for_unused_kinds_reads_no_table_of_tasks_whole(world: World, direct_url: str) -> None:
    conn = await world.open_direct(direct_url)
    await world.enqueue()
    statement = load("store/kinds.sql")["kinds_unused"]
    cursor = await conn.execute("explain (costs off) " + statement, {"days": 90})
    plan = "\n".join(row[0] for row in await cursor.fetchall())
    assert "Seq Scan on tasks" not in plan, plan
    assert "Seq Scan on blocked" not in plan, plan


@pytest.mark.parametrize("role", ["holdfast_worker", "holdfast_api"])
async def test_each_role_may_do_its_part(world: World, direct_url: str, role: str) -> None:
    conn = await world.open_direct(direct_url)
    async with conn.transaction(force_rollback=True):
        await conn.execute(grants("holdfast"))
        await conn.execute(f"set local role {role}")
        kinds = of_release(world)
        await kinds.declare_secrets(conn, "default", {KIND: ["card"]})
        assert await kinds.secrets_of(conn, [KIND]) == {KIND: {"card"}}
        if role == "holdfast_worker":
            await kinds.declare(conn, [a_kind(KIND, "pin")])
            await kinds.prune(conn)
