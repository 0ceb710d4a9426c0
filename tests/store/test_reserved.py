"""Producers cannot make tasks of Holdfast's own kinds, except through the checked function of a feature."""

import json
from collections.abc import AsyncIterator

import psycopg
import pytest

from holdfast.app import Holdfast
from holdfast.config import Settings
from holdfast.core.errors import Misused
from holdfast.core.task import NewTask
from holdfast.db.connect import OWN_PATH, Conn, connect, is_direct
from holdfast.db.migrate import grants, migrate_up
from holdfast.store.store import Store
from tests.world import World

EVENT = {"id": "evt_1", "type": "order.paid", "data": '{"order": 7}', "version": None, "occurred_at": None}
PRODUCER = (
    "do $$ begin create role a_producer login in role holdfast_enqueuer;"
    " exception when duplicate_object or unique_violation then null; end $$"
)


@pytest.fixture
async def producer(world: World) -> AsyncIterator[Conn]:
    """A session whose login is a member of holdfast_enqueuer and of nothing else."""
    await world.conn.execute(grants("holdfast"))
    await world.conn.execute(PRODUCER)
    async with await connect(world.url) as conn:
        await conn.execute("set session authorization a_producer")
        yield conn


async def kinds_enqueued(world: World) -> list[str]:
    rows = await (await world.conn.execute("select kind from holdfast.tasks order by id")).fetchall()
    return [kind for (kind,) in rows]


@pytest.mark.catches("producers-make-own-tasks")
@pytest.mark.parametrize("kind", ["holdfast.plan", "webhook.deliver", "webhook.anything", "holdfast."])
async def test_a_producer_cannot_enqueue_a_reserved_kind(world: World, producer: Conn, kind: str) -> None:
    message = (
        f"'{kind}' cannot be enqueued: kinds that begin with {kind.partition('.')[0]}. are Holdfast's own"
    )
    for call in (
        "select holdfast.enqueue(%s, '{}', 'other')",
        "select holdfast.enqueue(%s, '{}')",
        "select holdfast.enqueue_many(array[gen_random_uuid()], array[%s], array['{}'::jsonb])",
        "select holdfast.enqueue(%s, '{}', key => 'k', uniqueness => 'replace')",
    ):
        with pytest.raises(psycopg.Error) as refused:
            await producer.execute(call, [kind])
        assert refused.value.sqlstate == "HF005"
        assert refused.value.diag.message_primary == message
    with pytest.raises(Misused, match="Holdfast's own"):
        await Store(Settings(database_url=world.url)).enqueue(producer, NewTask(kind))
    assert await kinds_enqueued(world) == []


async def test_a_follow_up_of_a_reserved_kind_is_refused_too(world: World, producer: Conn) -> None:
    first = await world.enqueue()
    with pytest.raises(Misused, match=r"'webhook\.deliver' cannot be enqueued"):
        await Store(Settings(database_url=world.url)).enqueue(
            producer, NewTask("webhook.deliver", after=(first,))
        )


async def test_kinds_that_only_look_alike_are_anybody_s(world: World, producer: Conn) -> None:
    for kind in ("holdfastly.x", "webhooks.send", "webhook", "holdfast"):
        await producer.execute("select holdfast.enqueue(%s, '{}')", [kind])
    assert await kinds_enqueued(world) == ["holdfastly.x", "webhooks.send", "webhook", "holdfast"]


async def test_a_producer_publishes_through_the_checked_function(world: World, producer: Conn) -> None:
    call = "select holdfast.publish_event('order.paid', '{\"order\": 7}', 'evt_1', subject => 'order-7')"
    for _ in range(2):
        assert await (await producer.execute(call)).fetchone() == ("evt_1",)
    (row,) = await (
        await world.conn.execute("select kind, key, subject, payload from holdfast.tasks")
    ).fetchall()
    assert row == ("webhook.publish", "evt_1", "order-7", EVENT)
    made = await (await producer.execute("select holdfast.publish_event('order.paid', '1')")).fetchone()
    assert made is not None
    assert made[0].startswith("evt_")


async def test_a_producer_publishes_from_python_in_its_own_transaction(world: World, producer: Conn) -> None:
    app = Holdfast(settings=Settings(database_url=world.url), webhooks=True)
    async with producer.transaction():
        await app.webhooks.publish("order.paid", {"order": 7}, conn=producer, id="evt_2", version=3)
    assert await kinds_enqueued(world) == ["webhook.publish"]


@pytest.mark.catches("events-not-checked")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "a b"}, "its id has"),
        ({"id": 7}, "its id has"),
        ({"type": ""}, "its type has"),
        (
            {"type": "webhook.endpoint_disabled"},
            "event type 'webhook.endpoint_disabled' is reserved: "
            "types that begin with webhook. are published by Holdfast only",
        ),
        ({"data": {"order": 7}}, "its data is the text of a JSON document"),
        ({"data": "{"}, "its data is no JSON"),
        ({"data": "[" * 100_000}, "its data is no JSON"),
        ({"data": json.dumps("x" * 255_500)}, "it is too large to be delivered"),
        ({"version": "three"}, "its version is a whole number"),
        ({"occurred_at": "yesterday or so"}, "occurred_at no time"),
        ({"endpoint": "e"}, "it has id, type, data, version and occurred_at, and nothing else"),
    ],
)
async def test_what_is_no_event_is_refused(
    world: World, producer: Conn, change: dict[str, object], message: str
) -> None:
    event = EVENT | change
    with pytest.raises(psycopg.Error) as refused:
        await producer.execute("select holdfast.enqueue('webhook.publish', %s)", [json.dumps(event)])
    assert refused.value.sqlstate == "HF005"
    assert message in str(refused.value.diag.message_primary)
    assert await kinds_enqueued(world) == []


@pytest.mark.parametrize("role", ["holdfast_worker", "holdfast_api"])
async def test_workers_and_the_api_make_tasks_of_their_own(world: World, producer: Conn, role: str) -> None:
    await world.conn.execute(f"grant {role} to a_producer")
    try:
        await producer.execute("select holdfast.enqueue('holdfast.plan', '{}', 'holdfast')")
    finally:
        await world.conn.execute(f"revoke {role} from a_producer")
    assert await kinds_enqueued(world) == ["holdfast.plan"]


async def test_an_event_of_our_own_types_cannot_be_published(world: World) -> None:
    app = Holdfast(settings=Settings(database_url=world.url), webhooks=True)
    with pytest.raises(Misused, match=r"types that begin with webhook\. are published by Holdfast only"):
        await app.webhooks.publish("webhook.endpoint_disabled", {"endpoint": "e"})


async def test_kinds_are_reserved_whatever_the_schema_is_called(blank: Conn) -> None:
    await migrate_up(blank, "jobs_2")
    await blank.execute(grants("jobs_2"))
    await blank.execute(PRODUCER)
    await blank.execute("set session authorization a_producer")
    for kind in ("holdfast.plan", "webhook.deliver"):
        with pytest.raises(psycopg.Error, match="are Holdfast's own"):
            await blank.execute("select jobs_2.enqueue(%s, '{}')", [kind])
    with pytest.raises(psycopg.Error, match="the queue holdfast is for Holdfast's own tasks"):
        await blank.execute("select jobs_2.enqueue('holdfast', '{}', queue => 'holdfast')")


@pytest.mark.catches("ids-may-be-given-twice")
async def test_a_key_cannot_be_made_to_stand_for_the_task_of_another(world: World, producer: Conn) -> None:
    """One id for two tasks of a call left a key that pointed at a task which the call did not make."""
    victim = "0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f"
    await producer.execute("select holdfast.enqueue('shop.a', '{}', key => 'k1')")
    await producer.execute(
        "select holdfast.enqueue('webhook.publish', %s, id => %s, run_at => now() + interval '1 hour')",
        [json.dumps(EVENT), victim],
    )
    call = (
        "select * from holdfast.enqueue_many(array[%(id)s, %(id)s]::uuid[], array['shop.a', 'shop.b'],"
        " array['{}', '{}']::jsonb[], keys => array['k1', 'mine'], uniques => array['key', 'queued'])"
    )
    with pytest.raises(psycopg.Error, match="an id is given twice"):
        await producer.execute(call, {"id": victim})
    # A row of task_keys that already points there, such as one from before.
    await world.conn.execute(
        "insert into holdfast.task_keys (kind, key, task_id, payload_hash, expires_at)"
        " values ('shop.b', 'mine', %s, md5('x')::uuid, now() + interval '1 day')",
        [victim],
    )
    with pytest.raises(psycopg.Error, match="which is another one"):
        await producer.execute(
            "select holdfast.enqueue('shop.b', '{\"forged\": 1}', key => 'mine', uniqueness => 'replace')"
        )
    assert (EVENT,) in await world.rows_of("tasks", "payload")


async def test_a_reserved_kind_is_refused_although_its_key_is_known(world: World, producer: Conn) -> None:
    """Otherwise the answer would tell which task has the key."""
    await world.conn.execute("select holdfast.enqueue('webhook.deliver', '{}', key => 'evt_1/e')")
    for uniqueness in ("key", "queued", "replace"):
        with pytest.raises(psycopg.Error, match="are Holdfast's own"):
            await producer.execute(
                "select holdfast.enqueue('webhook.deliver', '{}', key => 'evt_1/e', uniqueness => %s)",
                [uniqueness],
            )


async def test_a_task_comes_after_ten_thousand_others_at_most(world: World, producer: Conn) -> None:
    first = await world.enqueue()
    with pytest.raises(psycopg.Error, match="at most 10000 others, and this one after 10001"):
        await producer.execute(
            "select * from holdfast.enqueue_after("
            "gen_random_uuid(), array_fill(%s::uuid, array[10001]), 'a', '{}')",
            [first],
        )
    with pytest.raises(Misused, match="at most 10000 others"):
        await world.store.enqueue(world.conn, NewTask("a", after=(first,) * 10_001))


@pytest.mark.catches("functions-of-others-found")
async def test_functions_of_others_are_not_called_by_our_connections(world: World, url: str) -> None:
    """In `public`, which everybody may create in where a database is older than PostgreSQL 15."""
    async with await connect(url, path=OWN_PATH) as ours:
        if not is_direct(ours):
            pytest.skip("a pooler passes on no search_path: `holdfast doctor` warns of such a schema")
        await world.conn.execute(
            "create function public.make_interval(days smallint) returns interval language sql"
            " as $$ select (1 / 0) * interval '1 s' $$"
        )
        try:
            await ours.execute("select make_interval(days => %s)", [7])
        finally:
            await world.conn.execute("drop function public.make_interval(smallint)")
