"""Counts that are taken now and then, of what is too many to count for whoever asks."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.views.counts import Samples
from tests.store.outgrown import outgrown
from tests.world import World


@pytest.mark.catches("oldest-of-any-kind")
async def test_what_waits_is_counted_by_queue_and_by_kind(world: World) -> None:
    await world.enqueue("video.render", queue="high")
    await world.elapse(60)
    await world.enqueue("mail.send", queue="high")
    await world.enqueue("mail.send", queue="high", run_at=datetime.now(UTC) + timedelta(days=1))
    await world.enqueue("video.render")
    samples = Samples(world.store.settings)
    await samples.take(world.conn)
    queues = await samples.queues(world.conn)
    assert (queues.of("high"), queues.of("default")) == ([2, 1, 0], [1, 0, 0])
    assert queues.oldest_seconds("high") == pytest.approx(60, abs=20)
    assert (await samples.kinds(world.conn))[1] == {"mail.send": [1, 1], "video.render": [2, 0]}


@pytest.mark.catches("counted-where-whole-reads-are-off")
async def test_counting_sorts_nothing_on_disk(world: World) -> None:
    said: list[str | None] = []
    world.conn.add_notice_handler(lambda notice: said.append(notice.message_primary))
    async with outgrown(world.conn, 5_000):
        async with world.conn.transaction():
            # The server tells of every file that it needs for what does not fit into memory.
            await world.conn.execute("set local work_mem = '64kB'")
            await world.conn.execute("set local log_temp_files = 0")
            await world.conn.execute("set local client_min_messages = log")
            await Samples(world.store.settings).take(world.conn)
        assert not [message for message in said if message and "temporary file" in message]
        assert (await Samples(world.store.settings).queues(world.conn)).of("default") == [5_000, 0, 0]
