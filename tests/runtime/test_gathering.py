"""When a bulk call is due: full, or the first has waited long enough and nothing more comes in."""

import pytest

from holdfast.core.handler import Gather, Handler
from holdfast.core.task import NewTask
from holdfast.runtime.gathering import COMING_SECONDS, Gathering
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
    assert not gathering.gathers(bulk._replace(alone=True))
