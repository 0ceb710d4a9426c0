"""Time is up: handlers are told, then killed; neighbours keep their attempts."""

import time
from collections.abc import Callable

import pytest

from holdfast.core.failure import FailureClass
from holdfast.core.state import State
from tests.tree import Tree, alive, until
from tests.world import World


@pytest.mark.alone
@pytest.mark.requirement("O1")
@pytest.mark.catches("deadline-not-enforced", "neighbours-pay")
async def test_a_handler_that_swallows_its_cancellation_is_dead_after_timeout_and_grace(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start("--kill-after", 1)
    stubborn = await world.enqueue("stubborn", max_attempts=1)
    neighbours = [await world.enqueue("sleep", payload={"seconds": 4}) for _ in range(4)]
    await until(lambda: len(tree.effects()) == 5, what="handlers")
    (start,) = [effect for effect in tree.effects() if effect.kind == "stubborn"]
    await until(lambda: not alive(start.pid), what="its end")
    died = time.monotonic()
    (line,) = tree.lines("executor.overdue")
    assert line["tasks"] == [stubborn]
    await until(lambda: len(tree.lines("task.completed")) == 4, 30, "the neighbours")
    # One second of timeout, one of grace, a tick of each clock; when its successor is up is another story.
    assert died - start.at < 1 + 1 + 1.5
    assert await world.state(stubborn) is State.FAILED
    failed = await world.show(stubborn)
    assert failed.error is not None
    assert failed.error.failure_class is FailureClass.TIMEOUT
    assert "its timeout of 1 s" in failed.error.message
    for task in neighbours:
        shown = await world.show(task)
        assert shown.counters.attempts == 1
        assert shown.counters.failures == shown.counters.crashes == 0
        assert await world.attempts(task) == ["release"]


@pytest.mark.requirement("O2", "O4")
@pytest.mark.catches("retried-for-ever")
async def test_a_handler_past_its_time_is_cancelled_and_tried_again(
    world: World, trees: Callable[..., Tree]
) -> None:
    task = await world.enqueue("polite")
    tree = trees().start()
    await until(lambda: tree.lines("task.failed"), what="its end")
    shown = await world.show(task)
    assert await world.attempts(task) == ["retry", "fail"]
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.TIMEOUT
    assert "0.5 s" in shown.error.message
    # Its process went on to live.
    assert len(tree.lines("executor.started")) == 1


@pytest.mark.alone
@pytest.mark.catches("cancel-not-heard")
@pytest.mark.parametrize("kind", ["sleep", "apart"])
async def test_a_cancel_reaches_a_running_handler_within_two_seconds(
    world: World, trees: Callable[..., Tree], kind: str
) -> None:
    task = await world.enqueue(kind, payload={"seconds": 60}, timeout_seconds=60.0)
    tree = trees().start()
    await until(lambda: tree.effects(), what="its start")
    await world.operator.cancel(world.conn, task, "not wanted")
    assert await until(lambda: tree.lines("task.cancelled"), what="its end") < 2.0
    assert await world.state(task) is State.CANCELLED


@pytest.mark.catches("process-outlives-its-time")
async def test_a_task_in_a_process_of_its_own_is_killed_at_its_deadline(
    world: World, trees: Callable[..., Tree]
) -> None:
    slow = await world.enqueue("apart", payload={"seconds": 60}, timeout_seconds=0.5)
    quick = await world.enqueue("apart", payload={})
    tree = trees().start()
    await until(lambda: tree.lines("task.failed") and tree.lines("task.completed"), what="both ends")
    assert len({effect.pid for effect in tree.effects()} - set(tree.executors())) == 2
    shown = await world.show(slow)
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.TIMEOUT
    assert await world.state(quick) is State.COMPLETED
