"""A process dies with many tasks in it: the guilty one is found, and nobody else pays."""

from collections.abc import Callable

import pytest

from holdfast.core.failure import FailureClass
from holdfast.core.state import State
from holdfast.core.task import NewTask
from tests.tree import Tree, until
from tests.world import World


@pytest.mark.requirement("O1", "O4")
@pytest.mark.catches("nobody-runs-alone", "flight-not-recorded")
async def test_one_segfaulting_task_among_200_is_poisoned_and_the_others_complete(
    world: World, trees: Callable[..., Tree]
) -> None:
    others = [await world.enqueue("sleep", payload={"seconds": 0.05}) for _ in range(100)]
    guilty = await world.enqueue("segfault")
    others += [await world.enqueue("sleep", payload={"seconds": 0.05}) for _ in range(99)]
    tree = trees().start("--concurrency", 200)
    await until(lambda: tree.lines("task.failed"), 60, "the poison to be found")
    await until(lambda: len(tree.lines("task.completed")) == len(others), 60, "the others")
    (failed,) = tree.lines("task.failed")
    assert failed["task"] == guilty
    shown = await world.show(guilty)
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.POISON
    assert "SIGSEGV" in shown.error.message
    # Once among the others, where nobody is accused, and three times alone.
    assert shown.counters.crashes == 3
    assert len([effect for effect in tree.effects() if effect.task == guilty]) == 4
    for task in others:
        counters = (await world.show(task)).counters
        assert (counters.failures, counters.crashes) == (0, 0)
    assert len(tree.lines("executor.ended")) == 1, "only the first death took a shared process along"


@pytest.mark.requirement("T6")
@pytest.mark.catches("invalid-ones-pile-up")
async def test_hundreds_of_payloads_that_cannot_be_read_fail_one_by_one(
    world: World, trees: Callable[..., Tree]
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("sleep", '{"seconds": "x"}')] * 1_000)
    tree = trees().start()
    await until(lambda: len(tree.lines("task.failed")) == 1_000, what="their failures")
    assert len(tree.lines("executor.started")) == 1


@pytest.mark.catches("exit-takes-its-process-along")
async def test_a_handler_that_leaves_the_process_fails_like_any_other(
    world: World, trees: Callable[..., Tree]
) -> None:
    task = await world.enqueue("exit", max_attempts=1)
    tree = trees().start()
    await until(lambda: tree.lines("task.failed"), what="its failure")
    assert len(tree.lines("executor.started")) == 1
    shown = await world.show(task)
    assert shown.error is not None
    assert shown.error.message == "SystemExit: 3"
    assert await world.state(task) is State.FAILED
