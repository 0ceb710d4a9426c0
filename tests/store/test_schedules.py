"""Schedules over many workers: every tick makes one task, whoever dies meanwhile."""

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest

from holdfast.config import Settings
from holdfast.core.errors import ScheduleNotFound
from holdfast.core.events import ScheduleFailed
from holdfast.core.handler import Handler, Scheduled
from holdfast.core.schedule import Cron
from holdfast.db.connect import Conn
from holdfast.ops.doctor import Doctor, Finding, Health
from holdfast.store.schedules import Schedules, key_of
from tests.core.test_schedule import ZONES
from tests.tree import Tree, until
from tests.world import World

BEGIN = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)


def handler(*crons: Cron) -> Handler:
    return Handler("report", lambda _: None, False, schedules=tuple(Scheduled(cron, "{}") for cron in crons))


@pytest.fixture
def schedules(world: World) -> Schedules:
    return Schedules(Settings(database_url=world.url), world.events.append, by="ada")


async def keys(world: World) -> list[str]:
    cursor = await world.conn.execute("select key from holdfast.tasks order by key")
    return [row[0] for row in await cursor.fetchall()]


@pytest.mark.requirement("O2")
@pytest.mark.catches("ticks-of-an-hour-are-one", "tick-moved-on-twice")
async def test_every_tick_of_a_day_makes_one_task_over_four_workers_that_die(
    world: World, schedules: Schedules
) -> None:
    chance = random.Random(11)
    crons = [
        Cron(
            chance.choice(["*/7 * * * *", "0 * * * *", "30 2 * * *", "15,45 */3 * * *", "5 1-23/2 * * *"]),
            zone=chance.choice(ZONES),
            name=f"s{n}",
            missed="all",
            jitter=chance.choice([0, 30]),
        )
        for n in range(200)
    ]
    await schedules.declare(world.conn, [handler(*crons)], BEGIN)
    conns = [await world.open() for _ in range(4)]
    now = BEGIN
    end = BEGIN + timedelta(hours=24)
    while now < end:
        now = min(end, now + timedelta(minutes=chance.uniform(1, 25)))
        await asyncio.gather(*(_fire(schedules, conn, now, dies=chance.random() < 0.2) for conn in conns))
        # Whatever was cut off is done by the next one who looks.
        await schedules.fire(world.conn, now)
        if chance.random() < 0.1:
            # A restart declares everything again.
            await schedules.declare(world.conn, [handler(*crons)], now)
    expected = sorted(
        key_of(f"s{n}", tick)
        for n, cron in enumerate(crons)
        for tick in takewhile(lambda tick: tick <= end, cron.after(BEGIN))
    )
    assert await keys(world) == expected
    assert len(expected) > 10_000


async def _fire(schedules: Schedules, conn: Conn, now: datetime, *, dies: bool) -> None:
    async with conn.transaction(force_rollback=dies):
        await schedules.fire(conn, now)


async def test_a_pause_is_no_outage_and_a_task_can_be_made_at_once(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 * * * *", name="hourly", missed="all"))], BEGIN)
    await schedules.pause(world.conn, "hourly", "the provider is down")
    await schedules.fire(world.conn, BEGIN + timedelta(hours=3, minutes=1))
    assert await keys(world) == []
    paused = await schedules.show(world.conn, "hourly")
    assert (paused.paused_by, paused.pause_reason) == ("ada", "the provider is down")
    assert await schedules.resume(world.conn, "hourly", BEGIN + timedelta(hours=3, minutes=2))
    assert not await schedules.resume(world.conn, "hourly")
    await schedules.fire(world.conn, BEGIN + timedelta(hours=4, minutes=1))
    assert await keys(world) == ["hourly@2026-03-29T04:00Z"]
    made = await schedules.run(world.conn, "hourly")
    assert (await world.show(made.id)).kind == "report"
    await schedules.remove(world.conn, "hourly")
    with pytest.raises(ScheduleNotFound):
        await schedules.show(world.conn, "hourly")


@pytest.mark.catches("redeclared-from-now")
async def test_declaring_it_again_keeps_the_next_tick_unless_the_times_are_others(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 * * * *"))], BEGIN)
    later = BEGIN + timedelta(hours=5, minutes=1)
    await schedules.declare(world.conn, [handler(Cron("0 * * * *", jitter=9))], later)
    shown = await schedules.show(world.conn, "report")
    assert (shown.next_at, shown.jitter_seconds) == (BEGIN + timedelta(hours=1), 9)
    await schedules.declare(world.conn, [handler(Cron("30 * * * *"))], later)
    assert (await schedules.show(world.conn, "report")).next_at == BEGIN + timedelta(hours=5, minutes=30)


@pytest.mark.catches("one-schedule-stops-all", "scheduled-past-its-limit")
async def test_one_that_cannot_fire_holds_up_no_other(world: World, schedules: Schedules) -> None:
    crons = [Cron("0 * * * *", name="good"), Cron("0 * * * *", name="lost")]
    scheduled = tuple(Scheduled(cron, "{}", "report/of=7") for cron in crons)
    reports = Handler("report", lambda _: None, False, schedules=scheduled)
    await schedules.declare(world.conn, [reports], BEGIN)
    await world.conn.execute("update holdfast.schedules set zone = 'Europe/Atlantis' where name = 'lost'")
    now = BEGIN + timedelta(hours=1, seconds=1)
    await schedules.fire(world.conn, now)
    assert await keys(world) == ["good@2026-03-29T01:00Z"]
    (failed,) = [event for event in world.events if isinstance(event, ScheduleFailed)]
    assert (failed.name, "no time zone 'Europe/Atlantis'" in failed.reason) == ("lost", True)
    assert (await schedules.pulse(world.conn, now)).next_tick_seconds == 70.0, "it is tried again"
    assert await world.rows_of("tasks", "bucket") == [("report/of=7",)]


async def test_a_worker_declares_its_schedules_and_fires_them(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start()
    await tree.ready()
    await until(lambda: tree.lines("schedule.declared"), what="the schedule")
    await world.conn.execute("update holdfast.schedules set next_at = now() - interval '70 days'")
    await until(lambda: tree.effects(), 30, "the task of a tick")
    (line,) = tree.lines("schedule.fired")
    assert line["schedules"] == ["monthly"]
    assert len(tree.effects()) == 1, "one for all that were missed"


# -- the clock, and hosts that cannot fire


MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
POLICIES = ["all", "one", "skip"]


async def prune_keys(world: World) -> None:
    """As if the windows of all keys were over, and the tasks had ended long ago."""
    await world.conn.execute("delete from holdfast.task_keys")


def ticks(name: str, cron: Cron, after: datetime, until: datetime) -> list[str]:
    return [key_of(name, tick) for tick in takewhile(lambda tick: tick <= until, cron.after(after))]


@pytest.mark.requirement("O2")
@pytest.mark.catches("tick-lost-where-it-failed", "failed-tick-counts-as-missed")
@pytest.mark.parametrize("missed", POLICIES)
async def test_a_tick_that_one_host_could_not_fire_is_fired_by_another(
    world: World, schedules: Schedules, missed: str
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 3 * * *", name="daily", missed=missed))], BEGIN)
    tick = BEGIN + 3 * HOUR
    # There is no tzdata where it is read first.
    await world.conn.execute("update holdfast.schedules set zone = 'Mars/Base'")
    await schedules.fire(world.conn, tick + timedelta(seconds=1))
    failed = await schedules.show(world.conn, "daily")
    assert (failed.next_at, failed.failed_at) == (tick, tick + timedelta(seconds=1))
    await world.conn.execute("update holdfast.schedules set zone = 'UTC'")
    for seconds in (2, 30, 60):
        await schedules.fire(world.conn, tick + timedelta(seconds=seconds))
        await schedules.fire(world.conn, tick + timedelta(seconds=seconds), failed=True)
    assert await keys(world) == [], "it is left alone for a minute"
    # Whoever failed does maintenance, most likely; the others ask for what it could not do.
    await schedules.fire(world.conn, tick + timedelta(seconds=65))
    assert await keys(world) == [], "the others come first"
    await schedules.fire(world.conn, tick + timedelta(seconds=65), failed=True)
    assert await keys(world) == ["daily@2026-03-29T03:00Z"]
    mended = await schedules.show(world.conn, "daily")
    assert (mended.next_at, mended.failed_at) == (tick + 24 * HOUR, None)


@pytest.mark.catches("tick-lost-where-it-failed")
async def test_ticks_that_nobody_could_fire_for_hours_are_all_made_up_for(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 * * * *", name="hourly", missed="all"))], BEGIN)
    await world.conn.execute("update holdfast.schedules set zone = 'Mars/Base'")
    for minutes in range(60, 240, 2):
        await schedules.fire(world.conn, BEGIN + minutes * MINUTE)
    tried = [event for event in world.events if isinstance(event, ScheduleFailed)]
    assert len(tried) == 90, "every two minutes, for as long as nobody can"
    await world.conn.execute("update holdfast.schedules set zone = 'UTC'")
    await schedules.fire(world.conn, BEGIN + 4 * HOUR + MINUTE)
    assert await keys(world) == [f"hourly@2026-03-29T0{hour}:00Z" for hour in (1, 2, 3, 4)]


async def test_a_failure_of_before_the_clock_was_put_back_does_not_hold_up_a_tick(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 * * * *", name="hourly"))], BEGIN)
    later = BEGIN + 5 * HOUR
    await world.conn.execute("update holdfast.schedules set failed_at = %s", [later])
    now = BEGIN + HOUR + timedelta(seconds=1)
    assert (await schedules.pulse(world.conn, now)).next_tick_seconds == -1.0
    await schedules.fire(world.conn, now)
    assert await keys(world) == ["hourly@2026-03-29T01:00Z"]


@pytest.mark.requirement("O2")
@pytest.mark.catches("ticks-again-after-a-step-back")
@pytest.mark.parametrize("missed", POLICIES)
async def test_an_hour_that_the_clock_passes_twice_makes_no_task_twice(
    world: World, schedules: Schedules, missed: str
) -> None:
    cron = Cron("* * * * *", name="often", missed=missed)
    await schedules.declare(world.conn, [handler(cron)], BEGIN)
    now = BEGIN + MINUTE + timedelta(seconds=5)
    await schedules.fire(world.conn, now)
    # Put forward by an hour, and a minute later back.
    await schedules.fire(world.conn, now + HOUR)
    await schedules.fire(world.conn, now + HOUR + MINUTE)
    made = await keys(world)
    whole = ticks("often", cron, BEGIN, now + HOUR + MINUTE)
    expected = {"all": whole, "one": [whole[0], *whole[-2:]], "skip": [whole[0], *whole[-2:]]}
    assert made == expected[missed]
    await prune_keys(world)
    for minutes in range(1, 62):
        await schedules.correct(world.conn, now + minutes * MINUTE)
        await schedules.fire(world.conn, now + minutes * MINUTE)
    assert await keys(world) == made, "they have been dealt with"
    await schedules.fire(world.conn, now + HOUR + 2 * MINUTE)
    assert await keys(world) == [*made, key_of("often", BEGIN + HOUR + 3 * MINUTE)]


@pytest.mark.requirement("O2")
@pytest.mark.catches("ticks-again-after-a-step-back", "tick-lost-where-it-failed")
async def test_wherever_the_clock_goes_all_ticks_of_fifty_schedules_fire_exactly_once(
    world: World, schedules: Schedules
) -> None:
    chance = random.Random(33)
    crons = [
        Cron(
            chance.choice(["* * * * *", "*/7 * * * *", "0 * * * *", "15,45 */3 * * *"]),
            zone=chance.choice(ZONES),
            name=f"s{n}",
            missed="all",
            most=10_000,
        )
        for n in range(50)
    ]
    await schedules.declare(world.conn, [handler(*crons)], BEGIN)
    now = furthest = BEGIN
    steps = [*(chance.uniform(0.2, 20) for _ in range(40)), *(sign * 60.0 for sign in (1, 1, -1, -1, 1, -1))]
    chance.shuffle(steps)
    for minutes in steps:
        now += minutes * MINUTE
        furthest = max(furthest, now)
        if chance.random() < 0.3:
            # A host that lacks their zones.
            await world.conn.execute("update holdfast.schedules set zone = 'Mars/Base' where name > 's4'")
            await schedules.fire(world.conn, now)
            for cron in crons:
                await world.conn.execute(
                    "update holdfast.schedules set zone = %s where name = %s", [cron.zone, cron.name]
                )
        if chance.random() < 0.3:
            await prune_keys(world)
        await schedules.correct(world.conn, now)
        await schedules.fire(world.conn, now)
    end = furthest + 2 * MINUTE
    await schedules.fire(world.conn, end)
    expected = sorted(key for cron in crons for key in ticks(cron.name or "", cron, BEGIN, end))
    assert await keys(world) == expected
    assert len(expected) > 3_000


@pytest.mark.catches("pushed-ahead-stays-ahead")
@pytest.mark.parametrize(("missed", "made"), [("all", [1, 2, 3]), ("one", [3]), ("skip", [3])])
async def test_a_next_tick_that_a_fast_clock_pushed_ahead_is_pulled_back(
    world: World, schedules: Schedules, missed: str, made: list[int]
) -> None:
    await schedules.declare(world.conn, [handler(Cron("* * * * *", name="often", missed=missed))], BEGIN)
    # As a worker of 0.1.0 left it, whose clock was 90 minutes ahead: it fired one tick and moved on.
    ahead = BEGIN + 90 * MINUTE
    await world.conn.execute(
        "update holdfast.schedules set next_at = %s, last_tick_at = %s", [ahead + MINUTE, ahead]
    )
    now = BEGIN + 3 * MINUTE + timedelta(seconds=5)
    await schedules.fire(world.conn, now)
    assert await keys(world) == []
    await schedules.correct(world.conn, now)
    await schedules.fire(world.conn, now)
    assert await keys(world) == [key_of("often", BEGIN + n * MINUTE) for n in made]


async def test_a_tick_that_was_moved_to_an_earlier_moment_by_hand_stays_there(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("0 3 * * *", name="daily"))], BEGIN)
    await world.conn.execute("update holdfast.schedules set next_at = %s", [BEGIN - 21 * HOUR])
    await schedules.correct(world.conn, BEGIN + MINUTE)
    await schedules.fire(world.conn, BEGIN + MINUTE)
    assert await keys(world) == ["daily@2026-03-28T03:00Z"]


async def test_a_tick_whose_key_has_another_payload_has_had_its_task(
    world: World, schedules: Schedules
) -> None:
    await schedules.declare(world.conn, [handler(Cron("* * * * *", name="often", missed="all"))], BEGIN)
    await world.enqueue("report", key=key_of("often", BEGIN + MINUTE), payload={"of": "the release before"})
    await schedules.fire(world.conn, BEGIN + 2 * MINUTE)
    assert await keys(world) == [key_of("often", BEGIN + n * MINUTE) for n in (1, 2)]
    assert not [event for event in world.events if isinstance(event, ScheduleFailed)]


@pytest.mark.catches("doctor-blind-to-schedules")
async def test_the_doctor_names_schedules_that_do_not_fire(world: World, schedules: Schedules) -> None:
    async def finding() -> Finding:
        found = await Doctor(Settings(database_url=world.url)).examine(world.conn)
        return next(one for one in found if one.name == "schedules")

    await schedules.declare(world.conn, [handler(*(Cron("* * * * *", name=name) for name in ("a", "b")))])
    assert await finding() == Finding("schedules", Health.GOOD, "2")
    behind = datetime.now(UTC) + 3 * HOUR
    await world.conn.execute("update holdfast.schedules set caught_up_to = %s where name = 'a'", [behind])
    await schedules.correct(world.conn)
    told = await finding()
    next_at = (await schedules.show(world.conn, "a")).next_at
    assert (told.health, told.found) == (
        Health.WARNING,
        f"a not before {next_at.astimezone(UTC):%Y-%m-%d %H:%M}Z",
    )
    assert behind < next_at <= behind + MINUTE
    assert "pause and resume" in told.advice
    await schedules.pause(world.conn, "a", "the clock was put back")
    assert await schedules.resume(world.conn, "a")
    assert (await finding()).health is Health.GOOD
    await world.conn.execute("update holdfast.schedules set zone = 'Mars/Base' where name = 'b'")
    await schedules.fire(world.conn, datetime.now(UTC) + MINUTE)
    assert (await finding()).found == "b could not be fired"
