"""Stories of an operator: cancel, redrive, expiry, and what is refused by name."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import LiteralString, cast
from uuid import uuid4

import pytest

from holdfast.core.errors import MoveRefused, TaskContended, TaskNotFound
from holdfast.core.outcome import Cancel, Fail, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import State
from holdfast.db.connect import Conn
from tests.world import World, broken


@pytest.mark.requirement("O5")
@pytest.mark.catches("redrive-takes-paused", "re-entry-below-the-floor")
async def test_an_operator_puts_a_dead_letter_back_to_work(world: World) -> None:
    dead, paused = await world.enqueue(max_attempts=1), await world.enqueue()
    claim = await world.claim_one()
    await world.settle((claim, broken()))
    await world.operator.pause(world.conn, paused, "not yet")
    assert await world.operator.redrive(world.conn, [dead, paused], "provider fixed") == [dead]
    seen = await world.show(dead)
    assert (seen.state, seen.error, seen.dead_reason, seen.counters.failures) == (State.QUEUED, None, None, 0)
    assert await world.attempts(dead) == ["fail"]
    assert await world.complete(await world.claim_one())


@pytest.mark.catches("cancel-marks-a-running-task")
async def test_cancelling_a_running_task_asks_its_worker(world: World) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    assert await world.operator.cancel(world.conn, task_id, "customer left") is State.RUNNING
    asked = await world.store.workers.cancel_requests(world.conn, world.worker)
    assert asked == [(task_id, claim.fence, "customer left")]
    await world.settle((claim, Cancel("customer left")))
    assert await world.store.workers.cancel_requests(world.conn, world.worker) == []
    assert await world.operator.prune_cancel_requests(world.conn) == 1
    with pytest.raises(MoveRefused, match=f"task {task_id} is cancelled: only a paused, queued or running"):
        await world.operator.cancel(world.conn, task_id, "again")


@pytest.mark.catches("cancel-forgotten")
@pytest.mark.parametrize("outcome", [Snooze(0), Retry("x"), Released(Release.DRAINED), Fail("X", "no")])
async def test_a_claim_that_was_asked_to_stop_does_not_go_back_to_the_queue(
    world: World, outcome: Outcome
) -> None:
    task_id = await world.enqueue()
    claim = await world.claim_one()
    await world.operator.cancel(world.conn, task_id, "customer left")
    await world.settle((claim, outcome))
    seen = await world.show(task_id)
    if isinstance(outcome, Fail):
        assert (seen.state, seen.mark_reason) == (State.FAILED, None)
    else:
        assert (seen.state, seen.mark_reason) == (State.CANCELLED, "customer left")


async def test_what_does_not_exist_is_named(world: World) -> None:
    missing = str(uuid4())
    with pytest.raises(TaskNotFound, match=missing):
        await world.show(missing)


@pytest.mark.catches("expired-task-starts")
async def test_a_task_that_did_not_start_in_time_is_cancelled(world: World) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=30)
    waiting = await world.enqueue(expires_at=soon)
    claimed = await world.enqueue(expires_at=soon, queue="slow")
    await world.elapse(60)
    claim = await world.claim_one(queues=["slow"])
    assert claim.expired
    assert await world.operator.expire(world.conn) == [waiting]
    assert (await world.show(waiting)).mark_reason == "expired"
    assert await world.state(claimed) is State.RUNNING


class Beside:
    """A connection on which somebody else acts before each look that follows a refused move."""

    def __init__(self, conn: Conn, act: Callable[[], Awaitable[object]], times: int) -> None:
        self._conn = conn
        self._act = act
        self._left = times

    def transaction(self) -> object:
        return self._conn.transaction()

    async def execute(self, statement: LiteralString, values: Mapping[str, object]) -> object:
        if "from holdfast.task_states" in statement and self._left:
            self._left -= 1
            await self._act()
        return await self._conn.execute(statement, values)


@pytest.mark.catches("told-and-not-done")
async def test_what_an_operator_is_told_is_done_is_done_though_others_act_at_the_same_moment(
    world: World,
) -> None:
    task, other = await world.enqueue(), await world.open()
    beside = Beside(world.conn, lambda: world.operator.pause(other, task, "not yet"), 1)
    await world.operator.resume(cast(Conn, beside), task, "go on")
    assert await world.state(task) is State.QUEUED

    await world.operator.cancel(world.conn, task, "no")
    beside = Beside(world.conn, lambda: world.operator.redrive(other, [task], "yes"), 1)
    await world.operator.pause(cast(Conn, beside), task, "wait")
    assert await world.state(task) is State.PAUSED


async def test_a_task_that_others_change_each_time_is_left_to_them(world: World) -> None:
    task, other = await world.enqueue(), await world.open()

    class Contended(Beside):
        """It is paused when it is looked at, and resumed by others before it can be."""

        async def execute(self, statement: LiteralString, values: Mapping[str, object]) -> object:
            found = await super().execute(statement, values)
            if "from holdfast.task_states" in statement:
                await world.operator.resume(other, task, "mine")
            return found

    beside = Contended(world.conn, lambda: world.operator.pause(other, task, "not yet"), 100)
    with pytest.raises(TaskContended, match="try again"):
        await world.operator.resume(cast(Conn, beside), task, "go on")
    assert await world.state(task) is State.QUEUED
