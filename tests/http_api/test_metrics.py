"""The database's figures, as Prometheus reads them."""

import pytest

from holdfast.core.outcome import Complete
from holdfast.core.task import NewTask
from holdfast.views.counts import EXACT_MAX, Samples
from tests.http_api.conftest import Api
from tests.worker.test_watched import samples


@pytest.mark.catches("totals-forgotten")
async def test_what_ended_is_counted_from_the_beginning_and_never_less(api: Api) -> None:
    shift = api.shift
    for times in (1, 2):
        await shift.world.enqueue("pay")
        await shift.succeed()
        await shift.fail(2, kind="pay")
        before = samples(await api.get("/metrics"))
        assert before["holdfast_tasks_settled_total", "pay", "complete"] == times
        assert before["holdfast_tasks_settled_total", "pay", "fail"] == times * 2
        assert before["holdfast_tasks_marked", "failed"] == times * 2
        # Rolled up, and the minutes long gone: the same.
        await shift.world.conn.execute(
            "update holdfast.settled_deltas set settled_at = now() - interval '1 year'"
        )
        await shift.upkeep.run(shift.world.conn)
        assert await shift.world.rows("settled_minutes") == 0
        after = samples(await api.get("/metrics"))
        settled = {name: value for name, value in before.items() if name[0] == "holdfast_tasks_settled_total"}
        assert settled.items() <= after.items()


async def test_queues_with_their_oldest_and_what_waits(api: Api) -> None:
    world = api.shift.world
    for _ in range(3):
        await world.enqueue("pay", queue="money")
    await world.elapse(100)
    found = samples(await api.get("/metrics"))
    assert found["holdfast_queue_tasks", "money", "ready"] == 3
    assert 95 < found["holdfast_queue_oldest_ready_age_seconds", "money"] < 130
    assert found["holdfast_queue_paused", "money"] == 0


@pytest.mark.catches("sample-not-shown")
async def test_what_is_too_many_to_count_is_shown_with_the_time_of_its_count(api: Api) -> None:
    shift, conn = api.shift, api.shift.world.conn
    many = EXACT_MAX + 500
    await shift.world.store.enqueue_many(conn, [NewTask("mail")] * many)
    (queue,) = [one for one in await api.get("/api/queues") if one["name"] == "default"]
    assert (queue["ready"], queue["exact"], queue["countedAt"]) == (EXACT_MAX + 1, False, None)
    await Samples(shift.settings).take(conn)
    (queue,) = [one for one in await api.get("/api/queues") if one["name"] == "default"]
    assert (queue["ready"], queue["exact"]) == (many, False)
    assert queue["countedAt"] is not None
    claims = await shift.world.claim(1_000)
    await shift.world.settle(*[(claim, Complete()) for claim in claims])
    (queue,) = [one for one in await api.get("/api/queues") if one["name"] == "default"]
    assert (queue["ready"], queue["exact"]) == (many - 1_000, True)
