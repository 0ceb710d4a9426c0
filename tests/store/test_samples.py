"""Counts that are taken now and then, of what is too many to count for whoever asks."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.store.samples import Samples
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
