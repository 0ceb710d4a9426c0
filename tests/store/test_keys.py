"""Idempotency and coalescing: what a key promises, also to two producers at once."""

import asyncio
import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest

from holdfast.core.errors import KeyConflict, TaskStranded
from holdfast.core.outcome import Release, Released
from holdfast.core.state import State
from holdfast.core.task import Enqueued, NewTask, Unique
from holdfast.db.connect import Conn
from holdfast.ops.repair import Repair
from tests.world import World


async def blocked(world: World, conn: Conn) -> None:
    """Return once the connection's statement waits for a lock."""
    pid = conn.info.backend_pid
    for _ in range(2_000):
        cursor = await world.conn.execute(
            "select from pg_stat_activity where pid = %s and wait_event_type = 'Lock'", [pid]
        )
        if await cursor.fetchone() is not None:
            return
        await asyncio.sleep(0.001)
    raise TimeoutError("it never waited")


@pytest.mark.requirement("T7")
@pytest.mark.catches("key-taken-over-at-once")
async def test_a_second_enqueue_of_a_key_answers_with_the_first_task(world: World) -> None:
    task = NewTask("refund", '{"order": 7}', key="order:7")
    first = await world.store.enqueue(world.conn, task)
    second = await world.store.enqueue(world.conn, task)
    assert (first.created, second) == (True, Enqueued(first.id, created=False))
    assert await world.complete(await world.claim_one())
    assert await world.store.enqueue(world.conn, task) == Enqueued(first.id, created=False)
    await world.elapse(25 * 3600)
    assert (await world.store.enqueue(world.conn, task)).created


@pytest.mark.catches("key-payload-not-compared")
async def test_the_same_key_with_another_payload_is_an_error_that_names_the_task(world: World) -> None:
    first = await world.store.enqueue(world.conn, NewTask("refund", '{"order": 7}', key="order:7"))
    with pytest.raises(KeyConflict, match=f"'order:7' of kind 'refund' belongs to task {first.id}"):
        await world.store.enqueue(world.conn, NewTask("refund", '{"order": 8}', key="order:7"))
    other = await world.store.enqueue(world.conn, NewTask("invoice", '{"order": 8}', key="order:7"))
    assert other.created


@pytest.mark.catches("key-taken-over-at-once")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_two_producers_with_one_key_make_one_task(world: World, direct_url: str, ending: str) -> None:
    task = NewTask("refund", '{"order": 7}', key="order:7")
    one, two = await world.open_direct(direct_url), await world.open_direct(direct_url)
    await one.execute("begin")
    first = await world.store.enqueue(one, task)
    pending = asyncio.create_task(world.store.enqueue(two, task))
    await blocked(world, two)
    await one.execute(ending)
    second = await pending
    assert second == (
        Enqueued(first.id, created=False) if ending == "commit" else Enqueued(second.id, created=True)
    )
    assert await world.rows("tasks") == 1


@pytest.mark.catches("keys-in-given-order")
async def test_eight_producers_with_overlapping_keys_never_deadlock(world: World) -> None:
    producers = [await world.open() for _ in range(8)]

    async def produce(conn: Conn, seed: int) -> list[Enqueued]:
        shuffled = random.Random(seed)
        made: list[Enqueued] = []
        for _ in range(10):
            keys = shuffled.sample(range(120), 40)
            made += await world.store.enqueue_many(
                conn, [NewTask("refund", json.dumps({"n": key}), key=f"k{key}") for key in keys]
            )
        return made

    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(produce(conn, seed) for seed, conn in enumerate(producers)))
    ids = {one.id for answer in answers for one in answer}
    assert len(ids) == await world.rows("tasks") <= 120
    assert sum(one.created for answer in answers for one in answer) == len(ids)


@pytest.mark.catches("follow-up-lost")
async def test_while_queued_a_key_coalesces_and_while_running_leaves_one_follow_up(world: World) -> None:
    task = NewTask("index", '{"page": 1}', key="page:1", unique=Unique.QUEUED)
    first = await world.store.enqueue(world.conn, task)
    assert await world.store.enqueue(world.conn, task) == Enqueued(first.id, created=False)
    running = await world.claim_one()
    follow_up = await world.store.enqueue(world.conn, task)
    assert follow_up.created
    assert await world.store.enqueue(world.conn, task) == Enqueued(follow_up.id, created=False)
    await world.complete(running)
    assert [claim.id for claim in await world.claim()] == [follow_up.id]


async def test_a_coalescing_key_also_finds_tasks_behind_buckets_and_paused_ones(world: World) -> None:
    task = NewTask("index", "{}", key="page:1", unique=Unique.QUEUED)
    first = await world.store.enqueue(world.conn, task)
    await world.operator.pause_kind(world.conn, "index", "down")
    await world.claim()
    assert await world.store.enqueue(world.conn, task) == Enqueued(first.id, created=False)
    await world.operator.pause(world.conn, first.id, "wait")
    assert await world.store.enqueue(world.conn, task) == Enqueued(first.id, created=False)


@pytest.mark.catches("coalesced-task-not-held")
async def test_a_coalesced_task_cannot_start_before_its_second_caller_commits(
    world: World, direct_url: str
) -> None:
    task = NewTask("index", "{}", key="page:1", unique=Unique.QUEUED)
    first = await world.store.enqueue(world.conn, task)
    caller = await world.open_direct(direct_url)
    await caller.execute("begin")
    assert not (await world.store.enqueue(caller, task)).created
    assert await world.claim() == []
    await caller.execute("commit")
    assert [claim.id for claim in await world.claim()] == [first.id]


@pytest.mark.catches("replaced-in-part")
async def test_replace_replaces_all_that_was_said_of_a_queued_task(world: World) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=1)
    first = NewTask(
        "index",
        '{"v": 1}',
        key="page:1",
        unique=Unique.REPLACE,
        expires_at=soon,
        bucket="index/of=a",
        version=1,
    )
    second = NewTask("index", '{"w": 2}', key="page:1", unique=Unique.REPLACE, version=2, max_attempts=7)
    task = (await world.store.enqueue(world.conn, first)).id
    assert (await world.store.enqueue(world.conn, second)).id == task
    claim = await world.claim_one()
    assert (claim.version, claim.bucket, claim.expires_at, claim.max_attempts) == (2, None, None, 7)
    await world.operator.cancel(world.conn, task, "x")
    await world.settle((claim, Released(Release.DRAINED)))
    with pytest.raises(KeyConflict):
        await world.store.enqueue(world.conn, NewTask("index", '{"v": 1}', key="page:1"))


async def test_replace_moves_time_and_payload_of_a_queued_task(world: World) -> None:
    def asked(payload: str) -> NewTask:
        return NewTask("index", payload, key="page:1", unique=Unique.REPLACE)

    first = await world.store.enqueue(world.conn, asked('{"v": 1}'))
    assert await world.store.enqueue(world.conn, asked('{"v": 2}')) == Enqueued(first.id, created=False)
    running = await world.claim_one()
    assert running.payload == '{"v": 2}'
    follow_up = await world.store.enqueue(world.conn, asked('{"v": 3}'))
    assert follow_up.created
    await world.settle((running, Released(Release.DRAINED)))
    assert sorted(claim.payload for claim in await world.claim()) == ['{"v": 2}', '{"v": 3}']


@pytest.mark.parametrize("second", [Unique.REPLACE, Unique.QUEUED])
async def test_two_who_replace_at_once_leave_one_task(world: World, direct_url: str, second: Unique) -> None:
    first = await world.store.enqueue(world.conn, NewTask("index", "{}", key="k", unique=Unique.REPLACE))
    one, two = await world.open_direct(direct_url), await world.open_direct(direct_url)
    await one.execute("begin")
    await world.store.enqueue(one, NewTask("index", '{"v": 1}', key="k", unique=Unique.REPLACE))
    pending = asyncio.create_task(
        world.store.enqueue(two, NewTask("index", '{"v": 2}', key="k", unique=second))
    )
    await blocked(world, two)
    await one.execute("commit")
    assert await pending == Enqueued(first.id, created=False)
    assert await world.rows("tasks") == 1


@pytest.mark.catches("replaced-task-taken-for-started")
@pytest.mark.parametrize("second", [Unique.REPLACE, Unique.QUEUED])
async def test_a_task_that_moves_while_its_key_is_asked_for_is_not_taken_for_started(
    world: World, direct_url: str, second: Unique
) -> None:
    first = await world.store.enqueue(world.conn, NewTask("index", "{}", key="k", unique=Unique.QUEUED))
    one, two = await world.open_direct(direct_url), await world.open_direct(direct_url)
    # An operator's moves touch no key: only the row of the queue is another one afterwards.
    await one.execute("begin")
    await world.operator.pause(one, first.id, "look")
    await world.operator.resume(one, first.id)
    pending = asyncio.create_task(
        world.store.enqueue(two, NewTask("index", '{"v": 2}', key="k", unique=second))
    )
    await blocked(world, two)
    await one.execute("commit")
    assert await pending == Enqueued(first.id, created=False)
    assert await world.rows("tasks") == 1


@pytest.mark.catches("key-taken-from-a-waiting-task")
async def test_a_key_is_not_taken_from_a_task_that_still_waits(world: World) -> None:
    task = NewTask("refund", "{}", key="order:7", run_at=datetime.now(UTC) + timedelta(days=3))
    first = await world.store.enqueue(world.conn, task)
    await world.elapse(25 * 3600)
    assert await world.store.enqueue(world.conn, task) == Enqueued(first.id, created=False)


async def test_an_unknown_uniqueness_is_refused(world: World) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="one of key, queued, replace"):
        await world.conn.execute("select holdfast.enqueue('k', key => 'x', uniqueness => 'replaced')")


async def test_a_batch_with_one_key_twice_makes_one_task(world: World) -> None:
    for unique, payload in (
        (Unique.KEY, '{"v": 1}'),
        (Unique.QUEUED, '{"v": 1}'),
        (Unique.REPLACE, '{"v": 2}'),
    ):
        second = '{"v": 1}' if unique is Unique.KEY else '{"v": 2}'
        answers = await world.store.enqueue_many(
            world.conn,
            [
                NewTask(unique, '{"v": 1}', key="k", unique=unique),
                NewTask(unique, second, key="k", unique=unique),
                NewTask(unique, "{}"),
            ],
        )
        assert answers[0].id == answers[1].id
        assert [answer.created for answer in answers].count(True) == 2
        assert (await world.show(answers[0].id)).payload == payload


async def test_keys_are_pruned_when_over_and_not_while_their_task_waits(world: World) -> None:
    await world.enqueue(key="done")
    await world.complete(await world.claim_one())
    waiting = await world.enqueue(key="waiting")
    await world.elapse(25 * 3600)
    assert await world.operator.prune_keys(world.conn) == 1
    assert await world.state(waiting) is State.QUEUED


async def test_a_trigger_or_another_language_enqueues_by_the_sql_function(world: World) -> None:
    cursor = await world.conn.execute(
        "select holdfast.enqueue('mail.send', '{\"to\": 7}', key => 'mail:7', subject => 'order:7')::text"
        " from generate_series(1, 2)"
    )
    ids = {row[0] for row in await cursor.fetchall()}
    claim = await world.claim_one()
    assert ids == {claim.id}
    assert (claim.subject, claim.payload, claim.priority) == ("order:7", '{"to": 7}', 2)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("unique", [Unique.QUEUED, Unique.REPLACE])
@pytest.mark.parametrize("done", ["delete from holdfast.ready", "update holdfast.tasks set priority = 0"])
@pytest.mark.catches("stranded-key-looked-for-ever")
async def test_a_key_whose_task_was_lost_to_a_write_from_outside_is_refused_and_not_waited_for(
    world: World, unique: Unique, done: LiteralString
) -> None:
    task = await world.enqueue(key="one", unique=unique)
    await world.conn.execute(done)
    with pytest.raises(
        TaskStranded, match=f"stands for task {task}, .* run `holdfast doctor --repair --reason …`"
    ):
        await world.enqueue(key="one", unique=unique)
    assert await Repair(world.store.settings, by="ada").run(world.conn, "somebody wrote") == [task]
    assert await world.enqueue(key="one", unique=unique) == task
    assert (await world.claim_one()).id == task


def keyed(count: int) -> dict[str, object]:
    return {
        "ids": [str(uuid4()) for _ in range(count)],
        "keys": [f"order:{n}" for n in range(count)],
        "payloads": [json.dumps({"order": n}) for n in range(count)],
    }


async def seconds_for(world: World, count: int) -> float:
    """How long a call with so many keys takes; every call but the first finds them all there."""
    began = time.monotonic()
    cursor = await world.conn.execute(
        "select count(*) from holdfast.enqueue_many(%(ids)b::uuid[], array['refund'], %(payloads)b::jsonb[],"
        " keys => %(keys)b::text[])",
        keyed(count),
    )
    assert await cursor.fetchone() is not None
    return time.monotonic() - began


@pytest.mark.alone
@pytest.mark.catches("known-keys-looked-up-one-by-one")
async def test_a_call_with_16000_known_keys_takes_less_than_two_seconds(world: World) -> None:
    await seconds_for(world, 16_000)
    known = [await seconds_for(world, 16_000) for _ in range(3)]
    assert await world.rows("tasks") == 16_000
    await World.empty(world.conn)
    assert min(known) < 2


@pytest.mark.alone
@pytest.mark.catches("known-keys-looked-up-one-by-one", "new-keys-looked-up-one-by-one")
@pytest.mark.parametrize("keys", ["new", "half of them known"])
async def test_a_call_with_four_times_as_many_keys_takes_about_four_times_as_long(
    world: World, keys: str
) -> None:
    """Looking each key up in a list of all of them would take sixteen times as long."""

    async def best(count: int) -> float:
        found = []
        for _ in range(3):
            await World.empty(world.conn)
            if keys != "new":
                await seconds_for(world, count // 2)
            found.append(await seconds_for(world, count))
        await World.empty(world.conn)
        return min(found)

    few, many = await best(8_000), await best(32_000)
    assert many < 9 * few
