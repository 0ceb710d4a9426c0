"""Tasks of an idle key start straight from ready, and never beyond its limit, whoever else is at it."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from holdfast.core.limit import Limit, Scope
from holdfast.db.connect import Conn
from holdfast.store.claim import Claimed, ClaimRequest, all_ranges
from holdfast.store.limits import Limits
from tests.world import World

KEY = "render/episode=7"


async def keep(world: World, count: int, bucket: str = KEY) -> list[str]:
    return [await world.enqueue("render", bucket=bucket) for _ in range(count)]


async def look(
    world: World, conn: Conn | None = None, *, tasks: int = 100, kinds: Sequence[str] = ("render",)
) -> Claimed:
    """One claim from ready, by a worker of its own."""
    worker = str(uuid4())
    await world.register(worker)
    return await world.store.claims.claim(
        conn or world.conn, worker, 100, ClaimRequest(all_ranges(["default"]), kinds, tasks)
    )


@pytest.mark.catches("at-once-beyond-the-limit")
async def test_as_many_start_at_once_as_the_limit_has_room_for(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(running=2))
    await keep(world, 1, "render/episode=9")
    assert len((await look(world)).claims) == 1
    await keep(world, 2, "render/episode=9")
    claimed = await look(world)
    assert (len(claimed.claims), claimed.blocked) == (1, 1)
    ids = await keep(world, 5)
    other = await keep(world, 1, "render/episode=8")
    claimed = await look(world)
    assert [claim.id for claim in claimed.claims] == [*ids[:2], *other]
    assert {claim.limits for claim in claimed.claims} == {(KEY,), ("render/episode=8",)}
    assert claimed.blocked == 3
    assert sorted(await world.rows_of("permits", "permits")) == [(1,), (1,), (1,), (2,)]
    await world.check()


@pytest.mark.catches("at-once-past-those-who-wait")
async def test_nobody_overtakes_those_who_wait(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KEY, KEY, Limit(running=1))
    first = await keep(world, 2)
    (held,) = (await look(world)).claims
    await world.complete(held)
    await keep(world, 1)
    assert (await look(world)).claims == [], "one waits there already, and a permit is free for it"
    assert [claim.id for claim in await world.claim()] == first[1:]


@pytest.mark.catches("at-once-unguarded", "turn-served-unguarded")
async def test_two_at_one_key_never_lease_beyond_its_limit(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KEY, KEY, Limit(running=2))
    await keep(world, 2)
    other = await world.open()
    async with other.transaction():
        assert len((await look(world, other)).claims) == 2
        await keep(world, 2)
        assert (await look(world)).claims == [], "what the other has leased cannot be seen yet"
        assert await world.claim() == [], "neither by whoever serves the line"
    await world.check()
    assert await world.claim() == []


@pytest.mark.parametrize(
    ("limit", "how"),
    [
        (Limit(running=5), "paused"),
        (Limit(running=5, rate="5/s", burst=5), "counted in a window"),
        (Limit(weight=2.0), "served in turn"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.catches("at-once-though-paused", "at-once-though-rated")
async def test_what_is_not_a_mere_number_goes_the_long_way(
    world: World, limits: Limits, limit: Limit, how: str
) -> None:
    await limits.set(world.conn, Scope.KEY, KEY, limit)
    if how == "paused":
        await world.conn.execute("update holdfast.buckets set paused_at = now()")
    await keep(world, 3)
    claimed = await look(world)
    assert claimed.claims == []
    assert claimed.blocked == 3


async def test_no_more_start_at_once_than_asked_and_none_of_a_kind_without_a_handler(
    world: World, limits: Limits
) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(running=5))
    await keep(world, 3)
    assert (await look(world, kinds=["mail.send"])).blocked == 3
    await keep(world, 3, "render/episode=8")
    await keep(world, 3, "render/episode=9")
    claimed = await look(world, tasks=4)
    assert [claim.bucket for claim in claimed.claims] == ["render/episode=8"] * 3 + ["render/episode=9"]
    assert claimed.blocked == 2


async def test_a_kind_behind_a_door_never_starts_at_once(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KEY, KEY, Limit(running=5))
    await limits.set(world.conn, Scope.KIND, "render", Limit(running=1))
    await keep(world, 3)
    assert (await look(world)).blocked == 3
    assert len(await world.claim()) == 1
