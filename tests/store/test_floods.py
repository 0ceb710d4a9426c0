"""Many tasks of one key arrive at once: they are in nobody's way, and none of them is left behind."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Complete
from holdfast.core.task import Claim, NewTask
from holdfast.db.connect import Conn
from holdfast.store.limits import Limits
from tests.store.test_interleavings import merges
from tests.world import World

KEY = "render/episode=7"
# So many of a bucket go to ready in one transaction.
FIRST = 10


async def flood(world: World, tasks: int, conn: Conn | None = None, **options: object) -> list[str]:
    new = NewTask("render", "{}", **({"bucket": KEY} | options))  # type: ignore[arg-type]
    return [made.id for made in await world.store.enqueue_many(conn or world.conn, [new] * tasks)]


async def places(world: World) -> tuple[int, int]:
    """How many stand in ready, and how many behind a bucket."""
    return await world.rows("ready"), await world.rows("blocked")


async def work_off(world: World) -> list[str]:
    """Claim and complete until nothing is left that may start; answers what ran, in order."""
    ran: list[str] = []
    while claims := await world.claim(7):
        await world.settle(*((claim, Complete()) for claim in claims))
        ran += [claim.id for claim in claims]
    return ran


@pytest.mark.catches("flood-goes-to-ready", "every-call-counts-anew")
async def test_of_a_flood_of_one_key_only_the_first_ten_stand_before_the_tasks_of_others(
    world: World, limits: Limits
) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(running=4))
    async with world.conn.transaction():
        await flood(world, 200)
        await flood(world, 100)
        for _ in range(3):
            await world.enqueue("render", bucket=KEY)
    assert await places(world) == (FIRST, 303 - FIRST)
    (other,) = await flood(world, 1, bucket="render/episode=8")
    claims = await world.claim(FIRST + 1)
    assert other in {claim.id for claim in claims}
    await world.settle(*((claim, Complete()) for claim in claims))
    assert len(await work_off(world)) == 304 - len(claims)


@pytest.mark.catches("buckets-counted-together")
async def test_buckets_whose_names_look_alike_are_counted_apart(world: World) -> None:
    async with world.conn.transaction():
        await flood(world, FIRST, queue="q lane:x", bucket="lane:y")
        await flood(world, 5, queue="q", bucket="lane:x lane:y")
    assert await places(world) == (FIRST + 5, 0)


async def test_the_next_transaction_begins_to_count_anew(world: World) -> None:
    await flood(world, 15)
    await flood(world, 15)
    assert await places(world) == (2 * FIRST, 10)


@pytest.mark.catches("flood-without-a-first")
@pytest.mark.parametrize("limit", [None, Limit(running=1), Limit(running=7)])
async def test_all_of_a_flood_run(world: World, limits: Limits, limit: Limit | None) -> None:
    if limit is not None:
        await limits.set(world.conn, Scope.KEY, KEY, limit)
    ids = await flood(world, 60)
    assert sorted(await work_off(world)) == sorted(ids)


@pytest.mark.catches("flood-starts-too-early")
async def test_tasks_that_are_due_later_wait_for_their_time(world: World) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    await flood(world, 30, run_at=later)
    assert await places(world) == (30, 0)
    assert await world.claim() == []


async def test_a_flood_keeps_the_order_of_its_lane(world: World) -> None:
    ids = await flood(world, 60, bucket="lane:7")
    assert await work_off(world) == ids


@pytest.mark.catches("cancelled-first-leaves-the-rest")
async def test_the_rest_run_although_the_first_were_cancelled(world: World) -> None:
    ids = await flood(world, 30)
    for id_ in ids[:FIRST]:
        await world.operator.cancel(world.conn, id_, "not wanted")
    assert sorted(await work_off(world)) == sorted(ids[FIRST:])


async def test_those_that_exist_already_do_not_count_as_the_first(world: World) -> None:
    tasks = [NewTask("render", "{}", bucket=KEY, key=str(number)) for number in range(40)]
    await world.store.enqueue_many(world.conn, tasks[:FIRST])
    await world.claim(FIRST)
    await world.store.enqueue_many(world.conn, tasks)
    assert await world.rows("ready") == FIRST
    await world.check()


Step = tuple[str, str]
ORDERS: Sequence[Sequence[Step]] = (
    [("producer", "enqueue"), ("producer", "commit")],
    [("worker", "claim"), ("worker", "complete"), ("worker", "claim"), ("worker", "complete")],
    [("operator", "cancel")],
)


def orders() -> Iterator[list[Step]]:
    return merges(ORDERS)


@pytest.mark.catches("flood-without-a-first")
@pytest.mark.parametrize("before", [1, 12])
async def test_a_bucket_that_empties_before_the_commit_strands_nothing(
    world: World, limits: Limits, before: int
) -> None:
    """Every order of a producer's transaction, of a worker that empties the bucket, and of a cancel."""
    await limits.set(world.conn, Scope.KEY, KEY, Limit(running=20))
    played: Counter[str] = Counter()
    for order in orders():
        await World.empty(world.conn)
        world._registered.clear()
        await limits.set(world.conn, Scope.KEY, KEY, Limit(running=20))
        await _play(world, order, before)
        assert await places(world) == (0, 0), f"something is left behind after {order}"
        await world.check()
        played["orders"] += 1
    assert played["orders"] == 105


async def _play(world: World, order: Sequence[Step], before: int) -> None:
    await flood(world, before)
    producer = await world.open()
    held: list[Claim] = []
    for _, what in order:
        match what:
            case "enqueue":
                await producer.execute("begin")
                await flood(world, 25, producer)
            case "commit":
                await producer.execute("commit")
            case "claim":
                held = await world.claim(50)
            case "complete":
                await world.settle(*((claim, Complete()) for claim in held))
                held = []
            case _:
                for (id_,) in (await world.rows_of("ready", "id::text"))[:2]:
                    await world.operator.cancel(world.conn, str(id_), "not wanted")
    await producer.close()
    await work_off(world)
