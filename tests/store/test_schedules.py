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
from holdfast.store.pending import look
from holdfast.store.pool import Conn
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
    assert (await look(world.conn, Settings(), now)).next_tick_seconds == 60.0, "it is tried again"
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
