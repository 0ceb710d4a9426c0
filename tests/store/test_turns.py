"""Keys are served in turn, by their weight; a pause shuts a door and resuming opens it bit by bit."""

from collections import Counter
from uuid import uuid4

import pytest

from holdfast.config import Settings
from holdfast.core.limit import Limit, Scope
from holdfast.core.task import NewTask
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.limits import Limits
from holdfast.worker.executor.claimer import Claimer
from holdfast.worker.executor.turns import Turns
from tests.asked import asked_of
from tests.store.test_limits import claim_all
from tests.world import World


async def keep(world: World, tenants: dict[str, int]) -> None:
    tasks = [
        NewTask("fair", bucket=f"fair/tenant={name}") for name, many in tenants.items() for _ in range(many)
    ]
    for at in range(0, len(tasks), 1_000):
        await world.store.enqueue_many(world.conn, tasks[at : at + 1_000])
    while await world.store.claims.block_heads(world.conn, all_ranges(["default"])):
        pass


@pytest.mark.catches("turns-without-end", "weights-ignored")
async def test_shares_follow_the_weights(world: World) -> None:
    limits = Limits(Settings(database_url=world.url), by="ada")
    await limits.set(world.conn, Scope.KEY, "fair/tenant=big", Limit(weight=3))
    await keep(world, {"big": 700, "one": 700, "two": 700})
    while await world.rows("running") < 1_000:
        assert await world.claim(100)
    rows = await world.rows_of("running r join holdfast.tasks t using (id)", "t.bucket")
    shares = Counter(name for (name,) in rows)
    total = sum(shares.values())
    assert shares["fair/tenant=big"] / total == pytest.approx(0.6, abs=0.05)
    assert shares["fair/tenant=one"] / total == pytest.approx(0.2, abs=0.05)


@pytest.mark.catches("turns-without-end")
async def test_a_newcomer_is_among_the_next_however_many_wait(world: World) -> None:
    await keep(world, {f"t{n}": 30 for n in range(10)})
    await keep(world, {"new": 1})
    begun: list[str | None] = []
    while "fair/tenant=new" not in begun:
        begun += [claim.bucket for claim in await world.claim(5)]
        assert len(begun) < 40
    assert len(begun) <= 10 + 5 + 1, "one turn of the ten that were there, and the claim that it came in"


@pytest.mark.catches("pause-ignored-behind-keys")
async def test_a_paused_kind_starts_nothing_behind_its_keys_and_resumes_gently(world: World) -> None:
    await world.operator.pause_kind(world.conn, "fair", "provider down")
    await keep(world, {f"t{n}": 10 for n in range(10)})
    wanted = await world.enqueue("free")
    assert [claim.id for claim in await claim_all(world)] == [wanted]
    assert await world.operator.resume_kind(world.conn, "fair")
    assert not await world.operator.resume_kind(world.conn, "fair")
    first = await claim_all(world)
    assert 0 < len(first) <= 8, "it begins with a few"
    await world.conn.execute("update holdfast.buckets set resumed_at = resumed_at - interval '11 s'")
    assert len(first) + len(await claim_all(world)) == 100
    await world.unserved.tend(world.conn, 600)


async def test_a_worker_leaves_alone_what_it_cannot_run(world: World) -> None:
    await keep(world, {"a": 1})
    await world.store.workers.register(world.conn, str(uuid4()), "w", 60, kinds=["other"])
    assert await world.claim(kinds=["other"]) == []
    assert await world.claim(kinds=["other"]) == []
    assert len(await world.claim()) == 1


@pytest.mark.catches("turn-without-floor")
def test_a_look_begins_where_the_last_one_met_something_and_now_and_then_at_the_beginning() -> None:
    now = 0.0
    turns = Turns(["a"], ["x", "y"], clock=lambda: now)
    assert [one.floor for one in turns.ranges()] == [0, 0]
    turns.learn([("a", "x", 5_000_000)])
    assert [one.floor for one in turns.ranges()] == [4_500_000, 0]
    turns.learn([])
    now = 1.5
    assert [one.floor for one in turns.ranges()] == [0, 0], "whatever came in below is found"


@pytest.mark.catches("turn-not-held")
async def test_a_task_moved_aside_while_its_bucket_is_served_is_not_forgotten(world: World) -> None:
    await keep(world, {"a": 1})
    second = await world.enqueue("fair", bucket="fair/tenant=a")
    other = await world.open()
    async with other.transaction():
        await world.store.claims.claim(other, world.worker, 10, ClaimRequest(all_ranges(["default"])))
        # Whoever serves the bucket now cannot see the task that is on its way to it.
        early = [claim.id for claim in await world.claim()]
    await world.check()
    assert second in {*early, *(claim.id for claim in await world.claim())}


@pytest.mark.catches("enlisting-not-held")
async def test_a_slot_freed_while_its_bucket_is_served_is_not_forgotten(world: World) -> None:
    limits = Limits(Settings(database_url=world.url), by="ada")
    await limits.set(world.conn, Scope.KEY, "fair/tenant=a", Limit(running=2))
    await keep(world, {"a": 5})
    held = await world.claim()
    await world.store.permits.free_permits(world.conn, world.worker, 0, {"fair/tenant=a": 1})
    other = await world.open()
    async with other.transaction():
        await world.store.permits.free_permits(other, world.worker, 0, {"fair/tenant=a": 1})
        await world.claim(worker=str(uuid4()))
    assert len(held) == 2
    await world.check()


@pytest.mark.catches("idle-blind-to-turns", "idle-asks-twice")
async def test_an_idle_claimer_asks_once_and_sees_a_turn_that_has_come(world: World) -> None:
    conn = await world.open()
    await world.register(world.worker)
    now = [1_000.0]
    claimer = Claimer(world.store, ["default"], world.worker, kinds=["fair"], clock=lambda: now[0])
    assert await claimer.claim(conn, 10) == []
    asked = asked_of(conn)
    now[0] += 1
    assert await claimer.claim(conn, 10) == []
    assert len(asked) == 1, "\n\n".join(asked)
    await keep(world, {"a": 3})
    assert len(await claimer.claim(conn, 10, free=2)) == 2, "no more from there than can start at once"
