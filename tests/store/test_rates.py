"""Rates: no more start in a window than was said, and a change takes effect now."""

from collections import Counter

import pytest

from holdfast.core.limit import Limit, Scope
from holdfast.store.limits import Limits
from tests.store.test_limits import claim_all
from tests.world import World


@pytest.mark.requirement("T4")
@pytest.mark.catches("burst-unbounded", "rate-not-spent")
async def test_no_more_start_than_the_rate_and_its_burst(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(rate="60/m", burst=5))
    for _ in range(20):
        await world.enqueue()
    assert len(await claim_all(world)) == 5
    await world.conn.execute("update holdfast.rates set spent_until = spent_until - interval '2 s'")
    assert len(await claim_all(world)) == 2
    await world.conn.execute("update holdfast.rates set spent_until = spent_until - interval '1 hour'")
    assert len(await claim_all(world)) == 5, "what was not used is not saved up"


@pytest.mark.catches("old-debt-by-the-new-rate")
async def test_a_rate_that_is_raised_or_cleared_takes_effect_now(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(rate="10/h", burst=1))
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(rate="10/h", burst=1))
    for _ in range(4):
        await world.enqueue()
        await world.enqueue("render", bucket="render/episode=7")
    assert Counter(claim.kind for claim in await claim_all(world)) == {"mail.send": 1, "render": 1}
    assert await claim_all(world) == []
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(rate="1000/s", burst=1))
    await world.elapse(1)
    assert await claim_all(world), "the hour that was owed is a fraction of a second now"
    await limits.clear(world.conn, Scope.KEY, "render/episode=*")
    assert {claim.kind for claim in await claim_all(world)} >= {"render"}


@pytest.mark.catches("rate-of-a-key-forgotten")
async def test_a_key_waits_for_its_rate_and_is_not_looked_at_before(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(rate="60/m", burst=2))
    for _ in range(5):
        await world.enqueue("render", bucket="render/episode=7")
    assert len(await claim_all(world)) == 2
    ahead = "turn - (extract(epoch from now()) * 1000000)::bigint between 1 and 1000000"
    assert await world.rows_of("line", ahead) == [(True,)]
    await world.conn.execute("update holdfast.line set turn = turn - 1000000")
    await world.conn.execute("update holdfast.rates set spent_until = spent_until - interval '1 s'")
    assert len(await claim_all(world)) == 1
