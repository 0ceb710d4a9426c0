"""Stories of claiming: what starts next, and what steps aside."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.world import World


@pytest.mark.catches("claim-ignores-priority", "claim-before-its-time")
async def test_queues_then_priorities_then_first_come(world: World) -> None:
    late = await world.enqueue(queue="low", priority=0)
    third = await world.enqueue(queue="high", priority=2)
    second = await world.enqueue(queue="high", priority=1)
    fourth = await world.enqueue(queue="high", priority=2)
    await world.enqueue(queue="high", priority=0, run_at=datetime.now(UTC) + timedelta(hours=1))
    assert (await world.claim_one(queues=["high", "low"])).id == second
    claims = await world.claim(2, queues=["high", "low"])
    assert [claim.id for claim in claims] == [third, fourth]
    assert [claim.id for claim in await world.claim(3, queues=["high", "low"])] == [late]


@pytest.mark.catches("order-left-to-the-planner")
@pytest.mark.parametrize("without", ["nestloop", "hashjoin", "indexscan"])
async def test_the_order_does_not_depend_on_how_the_planner_joins(world: World, without: str) -> None:
    # Behind a pooler nothing is pinned, and a table of queues without statistics was joined by hashing.
    queues = [f"q{place}" for place in range(12)]
    expected = [await world.enqueue(queue=queue, priority=place) for queue in queues for place in range(4)]
    for task_id in expected:
        async with world.conn.transaction():
            await world.conn.execute(f"set local enable_seqscan = on; set local enable_{without} = off")
            assert (await world.claim_one(queues=queues)).id == task_id


@pytest.mark.catches("claim-ignores-a-paused-queue")
async def test_a_paused_queue_starts_nothing_until_it_is_resumed(world: World) -> None:
    task_id = await world.enqueue(queue="video")
    await world.operator.pause_queue(world.conn, "video", "provider is down")
    assert await world.claim(queues=["video"]) == []
    await world.operator.resume_queue(world.conn, "video")
    assert (await world.claim_one(queues=["video"])).id == task_id


@pytest.mark.catches("claim-ignores-a-closed-kind")
async def test_a_closed_kind_steps_aside_and_comes_back(world: World) -> None:
    held = [await world.enqueue("mail.send") for _ in range(3)]
    other = await world.enqueue("report.build")
    await world.operator.pause_kind(world.conn, "mail.send", "bad template")
    assert [claim.id for claim in await world.claim()] == [other]
    assert await world.rows("blocked") == 3
    await world.operator.resume_kind(world.conn, "mail.send")
    assert sorted(claim.id for claim in await world.claim()) == sorted(held)


@pytest.mark.catches("infinity-stops-every-claim")
@pytest.mark.parametrize(
    "options",
    [
        "expires_at => 'infinity'",
        "timeout_seconds => 'infinity'",
        "timeout_seconds => 'nan'",
        "run_at => 'infinity'",
    ],
)
async def test_a_value_that_would_stop_every_claim_is_refused(world: World, options: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="finite"):
        await world.conn.execute(f"select holdfast.enqueue('mail.send', {options})")


@pytest.mark.catches("empty-buckets-take-every-place")
async def test_buckets_that_can_give_nothing_do_not_starve_the_others(world: World) -> None:
    for lane in range(5):
        await world.enqueue("closed", bucket=f"lane:{lane}")
    await world.operator.pause_kind(world.conn, "closed", "down")
    wanted = await world.enqueue("open", bucket="lane:z")
    assert await world.claim(5) == [], "the closed ones are moved out of the way"
    assert [claim.id for claim in await world.claim(5)] == [wanted]


async def test_a_pause_ends_when_its_end_has_come(world: World) -> None:
    ago = datetime.now(UTC) - timedelta(seconds=1)
    await world.operator.pause_queue(world.conn, "default", "lunch", ago)
    await world.operator.pause_kind(world.conn, "mail.send", "lunch", until=ago)
    await world.enqueue()
    assert await world.claim() == []
    assert sorted(await world.operator.end_due_pauses(world.conn)) == ["default", "kind:mail.send"]
    assert len(await world.claim()) == 1
