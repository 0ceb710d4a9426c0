"""Days come and go without anyone waiting: roll-over, retention, a day that was forgotten."""

import asyncio
import time
from datetime import UTC, date, datetime, timedelta

import pytest

from holdfast.core.events import PartitionMissing
from holdfast.core.outcome import Complete, Retry
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect
from holdfast.db.partitions import (
    ATTEMPT_DAYS,
    DAYS_AHEAD,
    HISTORY_DAYS,
    drop_old_partitions,
    ensure_partitions,
)
from holdfast.store.upkeep import Upkeep
from tests.stolen import stolen_seconds
from tests.world import World

TODAY = datetime.now(UTC).date()


async def days(conn: Conn, table: str) -> list[date]:
    cursor = await conn.execute(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = %s::regclass order by 1",
        [f"holdfast.{table}"],
    )
    return [
        datetime.strptime(row[0][-8:], "%Y%m%d").replace(tzinfo=UTC).date() for row in await cursor.fetchall()
    ]


@pytest.fixture
async def apart(world: World, direct_url: str) -> Conn:
    """A direct connection; no test before this one left days of the past."""
    conn = await world.open_direct(direct_url)
    await drop_old_partitions(conn, "holdfast", TODAY)
    return conn


async def test_three_midnights_pass_and_every_day_has_its_partition(world: World, apart: Conn) -> None:
    upkeep = Upkeep(world.store.settings, world.events.append)
    for midnight in range(1, 4):
        now = datetime.now(UTC) + timedelta(days=midnight)
        await upkeep.run(apart, now)
        for table in ("task_history", "task_attempts"):
            present = await days(apart, table)
            assert {now.date() + timedelta(days=n) for n in range(DAYS_AHEAD + 1)} <= set(present)
            await apart.execute(
                "insert into holdfast.settled_deltas values (%s, 1, 0.5, 'k', 'complete')",
                [now - timedelta(minutes=2)],
            )
    await upkeep.roll_up(apart, datetime.now(UTC) + timedelta(days=4))
    assert (await world.rows("settled_deltas"), await world.rows("settled_minutes")) == (0, 3)


async def test_retention_lets_whole_days_go(world: World, apart: Conn) -> None:
    later = TODAY + timedelta(days=DAYS_AHEAD)
    dropped = await drop_old_partitions(apart, "holdfast", later)
    gone = [TODAY + timedelta(days=n) for n in range(DAYS_AHEAD - HISTORY_DAYS)]
    assert set(dropped) >= {f"task_history_{day:%Y%m%d}" for day in gone}
    assert min(await days(apart, "task_history")) == later - timedelta(days=HISTORY_DAYS)
    assert min(await days(apart, "task_attempts")) <= TODAY, f"attempts stay for {ATTEMPT_DAYS} days"


@pytest.mark.alone
@pytest.mark.catches("detach-stops-everyone")
async def test_a_reader_open_on_history_holds_up_no_settle(
    world: World, apart: Conn, direct_url: str
) -> None:
    """A roll-over beside an open reader: every settle meanwhile ends within 200 ms."""
    reader, settler = await world.open_direct(direct_url), await world.open_direct(direct_url)
    await ensure_partitions(apart, "holdfast", TODAY - timedelta(days=HISTORY_DAYS + DAYS_AHEAD))
    await reader.execute("begin isolation level repeatable read")
    await reader.execute("select count(*) from holdfast.task_history")
    await reader.execute("select count(*) from holdfast.task_attempts")
    far = TODAY + timedelta(days=40)

    async def roll_over() -> None:
        await ensure_partitions(apart, "holdfast", far)
        await drop_old_partitions(apart, "holdfast", TODAY)

    rolling = asyncio.create_task(roll_over())
    slowest = 0.0
    until = time.monotonic() + 2.0
    while time.monotonic() < until:
        await world.store.enqueue_many(world.conn, [NewTask("mail.send")] * 20)
        claims = await world.claim(20)
        group = [world.verdict(c, Complete() if n % 2 else Retry("x", 60)) for n, c in enumerate(claims)]
        before, began = stolen_seconds(), time.monotonic()
        async with asyncio.timeout(2):
            await world.store.settler.settle(settler, group)
        took, after = time.monotonic() - began, stolen_seconds()
        slowest = max(slowest, took - max(b - a for a, b in zip(before, after, strict=True)))
    assert slowest < 0.2, f"a settle took {slowest:.3f} s"
    await reader.execute("commit")
    async with asyncio.timeout(30):
        await rolling
    print(f"slowest settle {slowest * 1000:.0f} ms")  # noqa: T201
    assert min(await days(apart, "task_history")) == TODAY - timedelta(days=HISTORY_DAYS)


@pytest.mark.catches("no-partition-no-settle")
async def test_a_day_that_was_forgotten_is_made_by_the_settle_that_needs_it(
    world: World, apart: Conn, direct_url: str
) -> None:
    name = f"task_history_{TODAY:%Y%m%d}"
    await apart.execute(f"drop table holdfast.{name}")
    await world.enqueue()
    assert await world.complete(await world.claim_one())
    assert [event.table for event in world.events if isinstance(event, PartitionMissing)] == ["task_history"]
    assert TODAY in await days(apart, "task_history")


async def test_two_who_make_partitions_at_once_do_not_fail(world: World, direct_url: str) -> None:
    far = TODAY + timedelta(days=60)
    async with await connect(direct_url) as one, await connect(direct_url) as two:
        made = await asyncio.gather(
            ensure_partitions(one, "holdfast", far), ensure_partitions(two, "holdfast", far)
        )
        await ensure_partitions(one, "holdfast", far)
        assert made[0] or made[1]
        assert max(await days(one, "task_history")) == far + timedelta(days=DAYS_AHEAD)
        await drop_old_partitions(one, "holdfast", far + timedelta(days=200))
