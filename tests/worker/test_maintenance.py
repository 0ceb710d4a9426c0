"""The chores of an installation: one look while there is nothing to do, and each of them when there is."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.handler import Handler, Scheduled
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Complete
from holdfast.core.schedule import Cron
from holdfast.core.state import State
from holdfast.db.connect import Conn
from holdfast.store.limits import Limits
from holdfast.store.schedules import Schedules
from holdfast.worker.options import WorkerOptions
from holdfast.worker.supervisor.maintenance import CLOCK_SECONDS, WAKE_SECONDS, Maintenance
from tests.asked import asked_of
from tests.world import World


class Keeper:
    """Maintenance with a clock that moves by hand, and by so much with each statement."""

    def __init__(self, world: World, conn: Conn, statement_seconds: float = 0.0) -> None:
        self._now = 1_000.0
        self._conn = conn
        self.asked = asked_of(conn)
        self._statement_seconds = statement_seconds
        options = WorkerOptions(world.url, lease_seconds=3_600.0, unroutable_seconds=0.0)
        self._maintenance = Maintenance(options, world.store, {}, world.store.listen, self._clock)

    def _clock(self) -> float:
        return self._now + len(self.asked) * self._statement_seconds

    async def turn(self) -> float:
        """What is due now; answers for how long it rests."""
        return await self._maintenance.turn(self._conn)

    async def rest(self, pause: float) -> float:
        """Wait so long, then do what is due."""
        self._now += pause
        return await self.turn()


@pytest.fixture
async def keeper(world: World) -> Keeper:
    keeper = Keeper(world, await world.open())
    await keeper.turn()
    return keeper


async def test_an_installation_with_nothing_to_do_is_asked_once_in_a_while(world: World) -> None:
    conn = await world.open()
    await world.register(world.worker)
    keeper = Keeper(world, conn)
    pause = await keeper.turn()
    assert pause == pytest.approx(CLOCK_SECONDS, abs=0.1)
    keeper.asked.clear()
    for _ in range(15):
        await keeper.rest(pause)
    looks = [statement for statement in keeper.asked if "held" in statement]
    # The clock every second, and what there is to do every five.
    assert (len(looks), len(keeper.asked)) == (3, 18), "\n\n".join(keeper.asked)


@pytest.mark.catches("dear-look-taken-as-often", "dear-question-asked-as-often")
async def test_what_is_dear_to_look_at_is_looked_at_less_often(world: World) -> None:
    keeper = Keeper(world, await world.open(), statement_seconds=0.5)
    await world.register(world.worker)
    await world.enqueue()
    await world.claim_one()
    await keeper.turn()
    keeper.asked.clear()
    for _ in range(12):
        await keeper.rest(WAKE_SECONDS)
    looks = [statement for statement in keeper.asked if "fetch first" in statement]
    # Two statements, so every twenty seconds of at least sixty; the question for it every ten.
    assert 2 <= len(looks) <= 5
    assert 4 <= sum("'held': True" in statement for statement in keeper.asked) <= 8


async def silent_worker(world: World) -> tuple[str, State]:
    task = await world.enqueue()
    await world.claim_one()
    await world.lapse(world.worker)
    return task, State.QUEUED


async def stuck_task(world: World) -> tuple[str, State]:
    task = await world.enqueue()
    await world.claim_one()
    await world.conn.execute("update holdfast.running set deadline_at = now() - interval '1 minute'")
    return task, State.QUEUED


async def late_task(world: World) -> tuple[str, State]:
    past = datetime.now(UTC) - timedelta(seconds=1)
    return await world.enqueue(run_at=past - timedelta(seconds=1), expires_at=past), State.CANCELLED


async def unknown_kind(world: World) -> tuple[str, State]:
    task = await world.enqueue("nobody.knows")
    await world.register(world.worker, kinds=["mail.send"])
    assert await world.claim(kinds=["mail.send"]) == []
    return task, State.FAILED


@pytest.mark.catches("look-blind-to-what-is-held", "look-blind-to-what-is-over")
@pytest.mark.parametrize("trouble", [silent_worker, stuck_task, late_task, unknown_kind])
async def test_what_the_look_shows_is_done_in_the_same_turn(
    world: World, keeper: Keeper, trouble: Callable[[World], Awaitable[tuple[str, State]]]
) -> None:
    task, state = await trouble(world)
    await keeper.rest(WAKE_SECONDS)
    # An unserved kind is marked first, and its tasks fail when the grace period is over.
    await keeper.rest(WAKE_SECONDS)
    assert await world.state(task) is state
    await world.check()


@pytest.mark.catches("look-blind-to-what-is-over")
async def test_the_pause_of_a_kind_ends_on_time(world: World, keeper: Keeper) -> None:
    until = datetime.now(UTC) - timedelta(seconds=1)
    await world.operator.pause_kind(world.conn, "mail.send", "provider down", until=until)
    await keeper.rest(WAKE_SECONDS)
    assert await world.rows_of("buckets", "paused_at") == [(None,)]


@pytest.mark.catches("look-blind-to-unserved-kinds", "unserved-for-ever")
async def test_a_kind_that_is_served_again_is_no_longer_marked(world: World, keeper: Keeper) -> None:
    await world.register(world.worker, kinds=["mail.send"])
    await world.mark_unserved("mail.send")
    await keeper.rest(WAKE_SECONDS)
    assert await world.rows("buckets") == 0


@pytest.mark.catches("look-blind-to-what-waits")
async def test_a_bucket_without_a_turn_gets_one(world: World, keeper: Keeper) -> None:
    await world.register(world.worker, kinds=["mail.send"])
    await Limits(world.store.settings, by="ada").set(world.conn, Scope.KEY, "fair/tenant=a", Limit(running=1))
    first, second = [await world.enqueue(bucket="fair/tenant=a") for _ in range(2)]
    claim = await world.claim_one()
    assert claim.id == first
    await world.claim()
    await world.settle((claim, Complete()))
    # Whoever should have offered it died.
    await world.conn.execute("delete from holdfast.line")
    await keeper.rest(WAKE_SECONDS)
    assert (await world.claim_one()).id == second


@pytest.mark.catches("look-blind-to-permits")
async def test_a_slot_that_a_lost_worker_left_comes_back(world: World, keeper: Keeper) -> None:
    await world.register(world.worker, kinds=["mail.send"])
    await Limits(world.store.settings, by="ada").set(world.conn, Scope.KEY, "fair/tenant=a", Limit(running=1))
    await world.enqueue(bucket="fair/tenant=a")
    claim = await world.claim_one()
    await world.conn.execute("update holdfast.workers set lost_at = now()")
    await world.store.settler.settle(world.conn, [world.verdict(claim, Complete())])
    assert await world.rows("permits") == 1
    await keeper.rest(WAKE_SECONDS)
    assert await world.rows("permits") == 0


@pytest.mark.catches("lease-end-not-waited-for")
async def test_the_end_of_a_lease_is_waited_for(world: World, keeper: Keeper) -> None:
    await world.register(world.worker)
    await world.conn.execute("update holdfast.workers set lease_expires_at = now() + interval '2 s'")
    pause = await keeper.rest(WAKE_SECONDS)
    keeper.asked.clear()
    waited = 0.0
    while not any("'held'" in statement for statement in keeper.asked):
        waited += pause
        pause = await keeper.rest(pause)
    assert waited == pytest.approx(2.05, abs=1.0)


@pytest.mark.catches("lost-worker-waited-for")
async def test_a_lost_worker_is_noticed_at_once_while_others_are_at_work(
    world: World, keeper: Keeper
) -> None:
    task = await world.enqueue()
    await world.claim_one()
    # From now on somebody holds something, and maintenance looks after it at its own pace.
    await keeper.rest(WAKE_SECONDS)
    await world.conn.execute("update holdfast.workers set lease_expires_at = now() + interval '2 s'")
    await keeper.rest(WAKE_SECONDS)
    await world.lapse(world.worker)
    await keeper.rest(2.1)
    assert await world.state(task) is State.QUEUED


@pytest.mark.requirement("O2")
@pytest.mark.catches("others-leave-failed-ticks", "failed-tick-kept-by-the-holder")
async def test_a_tick_that_whoever_does_the_chores_could_not_fire_is_fired_by_another(
    world: World, keeper: Keeper
) -> None:
    schedules = Schedules(world.store.settings)
    await schedules.declare(
        world.conn,
        [Handler("report", lambda _: None, False, schedules=(Scheduled(Cron("* * * * *"), "{}"),))],
    )
    # A minute ago the holder lacked the time zone; it still may.
    await world.conn.execute(
        "update holdfast.schedules"
        " set next_at = now() - interval '2 min', failed_at = now() - interval '61 s'"
    )
    other = Keeper(world, await world.open())
    await keeper.rest(CLOCK_SECONDS)
    assert await world.rows("tasks") == 0, "the others come first"
    await other.turn()
    assert await world.rows("tasks") == 1
