"""Clocks that are wrong: those of workers and producers decide nothing, and the database's may be stepped.

The cluster runs under libfaketime. What is measured is measured in seconds that nobody can step.
"""

import asyncio
import functools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile

import pytest

from holdfast.config import Settings
from holdfast.core.handler import Handler, Scheduled
from holdfast.core.schedule import Cron
from holdfast.core.task import NewTask
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.db.partitions import ensure_partitions
from holdfast.store.schedules import Schedules, key_of
from tests.clock_app import POLICIES, SCHEDULES
from tests.clocks import DatabaseClock, stepped_cluster, wrong_by
from tests.tree import Tree, until
from tests.world import World

HOUR = 3600.0
# No task starts later than so long after it is due, or after the step that made it due.
LATE_SECONDS_MAX = 2.0


@pytest.fixture(scope="module")
def stepped() -> Iterator[tuple[str, DatabaseClock]]:
    """A database whose clock can be stepped."""
    with stepped_cluster() as (cluster, clock):
        url = f"{cluster.url}/postgres"
        asyncio.run(_migrate(url))
        yield url, clock


async def _migrate(url: str) -> None:
    async with await connect(url) as conn:
        await migrate_up(conn, "holdfast")


@pytest.fixture
def clock(stepped: tuple[str, DatabaseClock]) -> DatabaseClock:
    stepped[1].set(0.0)
    return stepped[1]


@pytest.fixture
async def there(stepped: tuple[str, DatabaseClock], clock: DatabaseClock) -> AsyncIterator[World]:
    """The store there; the invariants hold at the end, wherever the clock is then."""
    url = stepped[0]
    async with await connect(url) as conn:
        await World.empty(conn)
        await ensure_partitions(conn, "holdfast")
        world = World(conn, url)
        yield world
        await world.close()
        await world.check()


def set_to(clock: DatabaseClock, at: datetime) -> None:
    clock.set(at.timestamp() - time.time())


@pytest.mark.requirement("O2")
@pytest.mark.catches("ticks-again-after-a-step-back", "own-clock-fires-ticks")
async def test_steps_of_the_databases_clock_fire_every_tick_of_fifty_schedules_once(
    there: World, clock: DatabaseClock
) -> None:
    crons = [
        Cron(expression, name=f"{missed}-{n}", missed=missed)
        for n in range(9)
        for missed in POLICIES
        for expression in (["* * * * *", "*/10 * * * *"][n % 2],)
    ]
    crons += [Cron("*/7 * * * *", name=f"all-{n}", missed="all") for n in range(9, 32)]
    handler = Handler("tick", lambda _: None, False, schedules=tuple(Scheduled(cron, "{}") for cron in crons))
    assert len(crons) == SCHEDULES
    schedules = Schedules(Settings(database_url=there.url), there.events.append)
    other = await there.open()
    # Half a minute after a tick, so that it does not matter how long anything takes.
    begin = datetime.now(UTC).replace(second=30, microsecond=0)
    set_to(clock, begin)
    await schedules.declare(there.conn, [handler])
    expected: list[str] = []
    dealt = begin
    # Forward by an hour and back, over an hour that passes twice, back before the beginning, forward again.
    for minutes in (1, 2, 62, 63, 3, 4, 34, 63, 64, -56, 4, 65, 125, 66, 126):
        if minutes in (3, -56):
            await there.conn.execute("delete from holdfast.task_keys")
        now = begin + timedelta(minutes=minutes)
        set_to(clock, now)
        await schedules.correct(other)
        await asyncio.gather(schedules.fire(there.conn), schedules.fire(other))
        for cron in crons:
            due = list(takewhile(lambda tick, now=now: tick <= now, cron.after(dealt)))  # type: ignore[misc]
            if cron.missed != "all":
                due = due[-1:]
            if cron.missed == "skip":
                due = [tick for tick in due if now - tick < timedelta(minutes=1)]
            expected += [key_of(cron.name or "", tick) for tick in due]
        dealt = max(dealt, now)
    assert sorted((await ticks_by_task(there)).values()) == sorted(expected)
    assert len(set(expected)) == len(expected) > 1_000


@dataclass(slots=True)
class Steps:
    """Where the database's clock was put, and when, in seconds that nobody can step."""

    clock: DatabaseClock
    taken: list[tuple[float, float]] = field(default_factory=list)

    def set(self, ahead: float) -> None:
        self.clock.set(ahead)
        self.taken.append((time.monotonic(), ahead))

    def reached(self, at: datetime) -> float:
        """When the clock reached a moment first, or was put beyond it."""
        wall = time.time() - time.monotonic()
        for (since, ahead), (end, _) in zip(self.taken, [*self.taken[1:], (float("inf"), 0.0)], strict=True):
            moment = at.timestamp() - ahead - wall
            if moment < end:
                return max(moment, since)
        raise AssertionError("it comes at the end at the latest")


async def produce(world: World, seconds: float, made: dict[str, float]) -> None:
    """For so long enqueue a task without a time, and one behind a limit, ten times a second."""
    until_then = time.monotonic() + seconds
    while time.monotonic() < until_then:
        tasks = [NewTask("probe"), NewTask("limited", bucket="limited/of=1")]
        for one in await world.store.enqueue_many(world.conn, tasks):
            made[one.id] = time.monotonic()
        await asyncio.sleep(0.1)


@pytest.mark.alone
@pytest.mark.requirement("O2", "T3", "T4")
@pytest.mark.catches(
    "own-clock-fires-ticks",
    "own-clock-declares-ticks",
    "due-tasks-wait-for-the-clock",
    "turns-of-before-the-step",
    "steps-not-noticed",
)
async def test_workers_with_wrong_clocks_start_all_in_time_while_the_databases_is_stepped(
    there: World, clock: DatabaseClock, trees: Callable[..., Tree]
) -> None:
    steps = Steps(clock)
    begin = datetime.now(UTC).replace(second=30, microsecond=0)
    steps.set(begin.timestamp() - time.time())
    workers = [trees(name, at=there.url, app="tests.clock_app:app") for name in ("fast", "slow")]
    for worker, minutes in zip(workers, (90, -90), strict=True):
        worker.start("--concurrency", "50", clock=wrong_by(minutes))
    for worker in workers:
        await worker.ready()
        await until(functools.partial(worker.lines, "schedule.declared"), what="the schedules")
    next_ticks = {at for (at,) in await there.rows_of("schedules", "next_at")}
    assert next_ticks == {begin + timedelta(seconds=30)}, "by the database's clock"

    made: dict[str, float] = {}
    often = {kind: await there.enqueue(kind, max_attempts=1_000) for kind in ("again", "polled")}
    # Two seconds before the next minute.
    steps.set((begin + timedelta(seconds=28)).timestamp() - time.time())
    await produce(there, 3.0, made)
    for by in (HOUR, -HOUR, -HOUR, HOUR):
        steps.set(clock.ahead + by)
        await produce(there, 2.5, made)

    ticks = await ticks_by_task(there)
    due = made | {id_: steps.reached(tick_of(key)) for id_, key in ticks.items()}
    await until(lambda: due.keys() <= {effect.task for effect in workers[0].effects()}, 10, "the last")
    began: dict[str, list[float]] = {}
    for effect in workers[0].effects():
        began.setdefault(effect.task, []).append(effect.at)
    late = sorted((began[id_][0] - at, ticks.get(id_, id_)) for id_, at in due.items())
    assert late[-1][0] <= LATE_SECONDS_MAX, late[-10:]
    for kind, id_ in often.items():
        pauses = [later - one for one, later in pairwise(began[id_])]
        assert max(pauses) <= 0.5 + LATE_SECONDS_MAX, f"{kind}: {pauses}"

    an_hour = [begin + timedelta(seconds=30, minutes=minute) for minute in range(61)]
    whole = {key_of(f"all-{n}", tick) for n in range(0, SCHEDULES, 3) for tick in an_hour}
    assert {key for key in ticks.values() if key.startswith("all")} == whole
    assert len(set(ticks.values())) == len(ticks), "none twice"
    for worker in workers:
        assert worker.lines("executor.ended") == worker.lines("worker.lost") == []


async def ticks_by_task(world: World) -> dict[str, str]:
    """The key of each task that a schedule made."""
    cursor = await world.conn.execute(
        "select id::text, key from holdfast.task_history where kind = 'tick'"
        " union all select id::text, key from holdfast.tasks where kind = 'tick'"
    )
    found: dict[str, str] = dict(await cursor.fetchall())
    return found


def tick_of(key: str) -> datetime:
    return datetime.fromisoformat(key.partition("@")[2])


PRODUCER = """
from datetime import timedelta
from typer.testing import CliRunner
from holdfast import Holdfast
from holdfast.cli.main import program
app = Holdfast()
made = app.task("made")(print)
times = {"run_at": timedelta(minutes=10), "expires_at": timedelta(minutes=20)}
first = made.enqueue_sync({}, **times)
made.enqueue_sync({}, after=[first], **times)
for line in ("task enqueue made {} --delay 600", "queue pause slow --reason deploy --minutes 10"):
    assert CliRunner().invoke(program, line.split(), catch_exceptions=False).exit_code == 0
"""


@pytest.mark.catches("producers-clock-delays", "command-reads-its-own-clock")
@pytest.mark.parametrize("minutes", [90, -90])
async def test_a_producer_whose_clock_is_wrong_delays_by_the_databases(there: World, minutes: float) -> None:
    environment = os.environ | {"HOLDFAST_DATABASE_URL": there.url} | wrong_by(minutes)
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", PRODUCER], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    cursor = await there.conn.execute(
        "select extract(epoch from run_at - now())::float8, extract(epoch from expires_at - now())::float8"
        " from holdfast.tasks order by expires_at"
    )
    found: list[tuple[float, float | None]] = await cursor.fetchall()
    assert len(found) == 3
    for run_in, expires_in in found:
        assert 540 < run_in <= 600
        assert expires_in is None or 1_140 < expires_in <= 1_200
    assert [expires_in is None for _, expires_in in found] == [False, False, True]
    cursor = await there.conn.execute("select paused_until - now() from holdfast.queues")
    assert timedelta(minutes=9) < (await cursor.fetchall())[0][0] <= timedelta(minutes=10)
