"""When a bulk call is due: full, or the first has waited long enough and nothing more comes in."""

import pytest

from holdfast.core.handler import Gather, Handler
from holdfast.core.task import NewTask
from holdfast.db.link import Link
from holdfast.worker.executor.buffer import COMING_SECONDS, Buffer, Gathering
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.executor.settling import Settling
from holdfast.worker.policies import Policies
from tests.world import World


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def gathering(clock: Clock) -> Gathering:
    bulk = Handler("bulk", lambda _: None, False, bulk=Gather(3, 0.1))
    return Gathering({"bulk": bulk, "single": Handler("single", lambda _: None, False)}, clock)


async def test_a_call_is_due_when_it_is_full_or_the_first_has_lingered(
    world: World, gathering: Gathering, clock: Clock
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("bulk")] * 4)
    four = await world.claim()
    for claim in four[:2]:
        assert gathering.gathers(claim)
        gathering.add(claim)
    assert gathering.take(100) == []
    assert (gathering.appetite, gathering.due_at()) == (1, 0.1)
    gathering.add(four[2])
    assert gathering.calls == 1
    assert gathering.take(100) == four[:3]
    gathering.add(four[3])
    clock.now = 0.09
    assert gathering.take(100) == []
    clock.now = 0.1
    assert gathering.take(100) == four[3:]
    assert len(gathering) == 0


@pytest.mark.catches("half-full-calls")
async def test_while_more_comes_in_a_call_waits_to_be_full(
    world: World, gathering: Gathering, clock: Clock
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("bulk")] * 2)
    two = await world.claim()
    gathering.came(two, full=True)
    for claim in two:
        gathering.add(claim)
    clock.now = 0.2
    assert gathering.take(100) == [], "the last claim was full: there is more where that came from"
    gathering.came([], full=False)
    assert gathering.take(1) == two[:1], "no more than there is room for"
    clock.now = COMING_SECONDS
    gathering.came(two, full=True)
    clock.now = 0.2 + COMING_SECONDS
    assert gathering.take(100) == two[1:]


async def test_suspects_and_other_kinds_are_not_gathered(world: World, gathering: Gathering) -> None:
    await world.enqueue("single")
    await world.enqueue("bulk")
    single, bulk = await world.claim()
    assert not gathering.gathers(single)
    assert not gathering.gathers(bulk._replace(isolate=True))


@pytest.mark.catches("rated-call-too-late")
async def test_a_call_whose_tasks_count_against_a_rate_is_due_before_they_are_late(
    world: World, gathering: Gathering, clock: Clock
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("bulk")] * 2)
    two = [claim._replace(start_by=0.05) for claim in await world.claim()]
    gathering.came(two, full=True)
    for claim in two:
        gathering.add(claim)
    clock.now = 0.04
    assert gathering.take(100) == two


@pytest.mark.catches("appetite-for-others")
async def test_where_others_come_in_between_no_more_is_claimed_for_a_call(
    world: World, gathering: Gathering
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("bulk"), NewTask("single")])
    claims = await world.claim()
    gathering.came(claims, full=True)
    gathering.add(next(claim for claim in claims if claim.kind == "bulk"))
    assert gathering.appetite == 0


def settling_of(world: World) -> Settling:
    link = Link(world.url, "holdfast test settles", world.store.listen)
    return Settling(world.store, link, Policies({}), lambda _: None)


@pytest.mark.catches("gathered-permits-kept")
async def test_what_is_given_back_from_a_call_leaves_its_permits_to_others(
    world: World, gathering: Gathering
) -> None:
    permits = HeldPermits()
    buffer = Buffer(permits, gathering, settling_of(world))
    await world.store.enqueue_many(world.conn, [NewTask("bulk")])
    claims = [claim._replace(bucket="b", limits=("b",)) for claim in await world.claim()]
    permits.leased_at_once(claims)
    buffer.put(claims)
    assert not buffer.next(100), "it is gathered"
    assert permits.take_surplus() == {}, "and its permit is in use"
    assert buffer.take_all() == claims
    assert permits.take_surplus() == {"b": 1}


@pytest.mark.catches("gathered-starve")
async def test_a_call_that_is_due_does_not_wait_for_the_last_of_the_others(
    world: World, gathering: Gathering, clock: Clock
) -> None:
    buffer = Buffer(HeldPermits(), gathering, settling_of(world))
    await world.store.enqueue_many(world.conn, [NewTask("bulk"), *[NewTask("single")] * 9])
    buffer.put(await world.claim())
    clock.now = 1.0
    started = [buffer.next(100)[0].kind for _ in range(4)]
    assert "bulk" in started
    assert "single" in started
