"""The floor hides nothing: late commits, rolled-back claims, re-entries, clock steps."""

import time
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from holdfast.core.outcome import Release, Released
from holdfast.store.claim import BEGINNING, Snapshot
from holdfast.worker.executor.claimer import Claimer
from holdfast.worker.executor.floor import FOLLOW_SECONDS, Floor, Sweep
from tests.world import World

T0 = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


class Clock:
    """Monotonic seconds that a test owns."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Claims:
    """A claimer that lives on, so that its floors rise."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.clock = Clock()
        self.worker = str(uuid4())
        kinds = ["mail.send", "noise", "report.build", "warm.up"]
        self.claimer = Claimer(world.store, ["default"], self.worker, kinds=kinds, clock=self.clock)

    async def claim(self, limit: int = 100) -> list[str]:
        await self.world.register(self.worker)
        return [claim.id for claim in await self.claimer.claim(self.world.conn, limit)]

    async def warm(self) -> None:
        """Claim until the floor has passed this moment; writers elsewhere in the cluster hold it back."""
        row = await (await self.world.conn.execute("select clock_timestamp()")).fetchone()
        assert row is not None
        # Another test of the cluster may hold a writing transaction open: it is followed for five seconds.
        until = time.monotonic() + 20
        while time.monotonic() < until:
            await self.world.enqueue("warm.up")
            assert len(await self.claim()) == 1
            if self.floor > row[0]:
                return
        raise AssertionError("the floor never rose")

    @property
    def floor(self) -> datetime:
        return self.claimer.floor.at("default", 2)

    async def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds
        ago = timedelta(seconds=seconds)
        await self.world.conn.execute("update holdfast.sweeps set due_at = due_at - %s", [ago])


@pytest.fixture
def claims(world: World) -> Claims:
    return Claims(world)


@pytest.mark.catches("floor-passes-an-open-transaction")
def test_the_floor_stays_below_whatever_the_snapshot_could_not_see() -> None:
    floor = Floor(["q"])
    floor.learn(Snapshot(10, 10, at(0)), [("q", 2, at(-1))], full=False)
    assert floor.at("q", 2) == at(-FOLLOW_SECONDS), "whether 10 was open before this claim is not known"
    floor.learn(Snapshot(11, 20, at(1)), [("q", 2, at(0.9))], full=False)
    assert floor.at("q", 2) == at(0), "11 to 19 may be open, and were given out after the first claim"
    floor.learn(Snapshot(21, None, at(2)), [], full=False)
    assert floor.at("q", 2) == at(1), "up to 20 all have ended; 21 was given out after the second"
    floor.learn(Snapshot(21, None, at(30)), [], full=False)
    assert floor.at("q", 2) == at(30 - FOLLOW_SECONDS), "an idle claimer follows at a distance"


@pytest.mark.catches("floor-passes-a-full-claim")
def test_a_full_claim_raises_no_more_than_it_saw() -> None:
    floor = Floor(["a", "b"])
    floor.learn(Snapshot(5, 5, at(10)), [], full=False)
    taken = [("a", 0, at(13)), ("a", 2, at(9)), ("a", 2, at(8))]
    floor.learn(Snapshot(6, 6, at(20)), taken, full=True)
    assert (floor.at("a", 0), floor.at("a", 1)) == (at(15), at(15)), "read to their end"
    assert floor.at("a", 2) == at(9), "the claim stopped here"
    assert (floor.at("a", 3), floor.at("b", 0)) == (at(5), at(5)), "not looked at by the second"
    floor.learn(Snapshot(6, None, at(21)), [], full=True)
    assert floor.at("a", 2) == at(9), "all that was taken went behind buckets: nothing is known"


def test_a_writer_that_stays_open_is_followed_for_a_while_only() -> None:
    floor = Floor(["q"])
    floor.learn(Snapshot(9, 9, at(0)), [], full=False)
    for second in range(1, 60):
        floor.learn(Snapshot(10, 10 + second, at(second)), [], full=False)
        assert floor.at("q", 2) == at(max(0, second - FOLLOW_SECONDS))


@pytest.mark.catches("floor-survives-a-clock-step")
def test_a_clock_that_goes_back_starts_the_floor_over() -> None:
    floor = Floor(["q"])
    floor.learn(Snapshot(10, 10, at(100)), [], full=False)
    floor.learn(Snapshot(11, 11, at(40)), [], full=False)
    assert floor.at("q", 2) == at(40 - FOLLOW_SECONDS)
    floor.reset()
    assert floor.at("q", 2) == BEGINNING


def test_the_sweep_walks_in_slices_and_rests_in_proportion() -> None:
    floor = Floor(["q"])
    sweep = Sweep(floor)
    sweep.begin(["q"], 0.0)
    assert sweep.slice() == [], "nothing was claimed yet: everything lies above the floor"
    sweep.learn(0.0, 0.0)
    floor.learn(Snapshot(1, None, at(FOLLOW_SECONDS)), [], full=False)
    sweep.begin(["q"], 0.0)
    (first, *_) = sweep.slice()
    assert (first.start, first.end) == (BEGINNING, at(0))
    sweep.learn(0.001, 0.001)
    floor.learn(Snapshot(2, None, at(600)), [], full=False)
    now, slices = 10.0, 0
    sweep.begin(["q"], now)
    while sweep.walking:
        assert sweep.due(now)
        stretches = sweep.slice()
        width = (stretches[0].end - max(stretches[0].start, at(0))).total_seconds()
        cost = 0.001 + width / 1_000
        sweep.learn(cost, now)
        assert not sweep.due(now + cost * 29)
        now += cost * 30
        slices += 1
    assert slices > 3, "600 s of dead rows at 1 ms each were cut into slices"


@pytest.mark.catches("floor-passes-an-open-transaction", "number-that-has-ended-taken-for-given-out")
@pytest.mark.parametrize("noise", [0, 1, 5], ids=["quiet", "noise", "much-noise"])
@pytest.mark.parametrize("priority", [0, 2])
async def test_a_late_commit_is_claimed_at_once(
    world: World, claims: Claims, direct_url: str, priority: int, noise: int
) -> None:
    late = await world.open_direct(direct_url)
    await claims.warm()
    await late.execute("begin")
    task_id = await world.enqueue(conn=late, priority=priority)
    assert await claims.claim() == []
    for _ in range(noise):
        await world.enqueue("noise")
        await claims.claim()
    await late.execute("commit")
    assert await claims.claim() == [task_id]


@pytest.mark.catches("re-entry-below-the-floor")
async def test_a_task_given_back_is_claimed_at_once(world: World, claims: Claims) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    await claims.warm()
    await world.settle((claim, Released(Release.DRAINED)))
    assert await claims.claim() == [task_id]


@pytest.mark.catches("resume-below-the-floor")
async def test_a_resumed_task_is_claimed_at_once(world: World, claims: Claims) -> None:
    task_id = await world.enqueue()
    await world.operator.pause(world.conn, task_id, "wait")
    await claims.warm()
    await world.operator.resume(world.conn, task_id)
    assert await claims.claim() == [task_id]


@pytest.mark.catches("sweep-never-starts")
async def test_what_a_long_transaction_gives_back_is_found_by_the_sweep(
    world: World, claims: Claims, direct_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the other claimer had been followed for its five seconds already.
    monkeypatch.setattr("holdfast.worker.executor.floor._FOLLOW", timedelta(0))
    await claims.warm()
    task_id = await world.enqueue()
    other = await world.open_direct(direct_url)
    await other.execute("begin")
    await world.claim(conn=other)
    await world.enqueue("noise")
    assert len(await claims.claim()) == 1
    await world.enqueue("noise")
    assert len(await claims.claim()) == 1
    await other.execute("rollback")
    seen: list[str] = []
    for _ in range(6):
        # A claimer that always finds something never looks from the very beginning.
        noise = await world.enqueue("noise")
        seen += [found for found in await claims.claim() if found != noise]
        await claims.pass_time(0.25)
    assert seen == [task_id]


async def test_a_million_rows_behind_a_closed_kind_cost_few_claims(world: World, claims: Claims) -> None:
    await world.conn.execute(
        "select holdfast.enqueue_many("
        "array_agg(holdfast.uuid7()), array['mail.send'], array_agg('{}'::jsonb)) "
        "from generate_series(1, 5000)"
    )
    await world.operator.pause_kind(world.conn, "mail.send", "down")
    wanted = await world.enqueue("report.build")
    rounds = 0
    found: list[str] = []
    while not found:
        found = await claims.claim(10)
        rounds += 1
    assert found == [wanted]
    assert rounds <= 6, "each claim that met a closed kind moved a thousand of its tasks aside"


@pytest.mark.catches("sweep-narrows-to-nothing")
def test_a_slow_link_does_not_stop_the_sweep() -> None:
    floor = Floor(["q"])
    floor.learn(Snapshot(1, None, at(FOLLOW_SECONDS)), [], full=False)
    sweep = Sweep(floor)
    sweep.begin(["q"], 0.0)
    sweep.slice()
    sweep.learn(0.03, 0.0)
    floor.learn(Snapshot(1, None, at(200)), [], full=False)
    sweep.begin(["q"], 0.0)
    slices = 0
    while sweep.walking:
        sweep.slice()
        sweep.learn(0.03, 0.0)
        slices += 1
        assert slices < 200, "each slice took longer than it may, and yet the walk must end"


@pytest.mark.catches("floor-passes-a-paused-queue")
async def test_a_queue_that_was_paused_is_served_from_where_it_stood(world: World, claims: Claims) -> None:
    await claims.warm()
    await world.operator.pause_queue(world.conn, "default", "down")
    backlog = [await world.enqueue() for _ in range(3)]
    stood = claims.floor
    for _ in range(3):
        assert await claims.claim() == []
        await claims.pass_time(10)
    assert claims.floor == stood
    await world.operator.resume_queue(world.conn, "default")
    # It is taken up one by one at first, in order.
    assert [task for _ in backlog for task in await claims.claim()] == backlog
