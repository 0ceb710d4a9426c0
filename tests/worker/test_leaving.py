"""A worker is told to leave: it finishes or gives back, and no attempt is spent."""

import signal
from collections.abc import Callable

import pytest

from holdfast.core.state import State
from holdfast.core.task import NewTask
from tests.tree import Tree, alive, until
from tests.world import World


@pytest.mark.requirement("O7", "R2")
@pytest.mark.catches(
    "executors-obey-the-group", "drain-spends-an-attempt", "group-signal-kills-what-runs-apart"
)
async def test_a_term_to_the_whole_group_with_200_in_flight_spends_nothing(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start("--concurrency", 201, "--grace", 3)
    quick = [await world.enqueue("sleep", payload={"seconds": 1.0}) for _ in range(150)]
    slow = [await world.enqueue("sleep", payload={"seconds": 60}) for _ in range(40)]
    stuck = [await world.enqueue("block", payload={"seconds": 60}) for _ in range(10)]
    apart = await world.enqueue("apart", payload={"seconds": 1.0}, timeout_seconds=30.0)
    await until(lambda: len(tree.effects()) == 201, what="201 handlers")
    tree.signal_group(signal.SIGTERM)
    late = await world.enqueue("effect")
    assert await tree.left(3 + 3) == 0
    for task in (*quick, apart):
        assert await world.state(task) is State.COMPLETED
    for task in (*slow, *stuck, late):
        shown = await world.show(task)
        assert shown.state is State.QUEUED
        assert (shown.counters.attempts, shown.counters.failures, shown.counters.crashes) == (0, 0, 0)
    assert await world.rows("running") == 0
    assert await world.rows("workers") == 0


@pytest.mark.requirement("R2")
@pytest.mark.catches("drain-spends-an-attempt")
async def test_a_second_term_means_at_once(world: World, trees: Callable[..., Tree]) -> None:
    tree = trees().start("--concurrency", 50, "--grace", 60)
    tasks = [await world.enqueue("sleep", payload={"seconds": 60}) for _ in range(25)]
    tasks += [await world.enqueue("block", payload={"seconds": 60}) for _ in range(25)]
    await until(lambda: len(tree.effects()) == 50, what="handlers")
    executors = tree.executors()
    tree.signal_group(signal.SIGTERM)
    await until(lambda: tree.lines("worker.leaving"), what="the first to be heard")
    tree.signal_group(signal.SIGTERM)
    await tree.left(3.0)
    assert not any(map(alive, executors))
    for task in tasks:
        shown = await world.show(task)
        assert (shown.state, shown.counters.attempts) == (State.QUEUED, 0)


@pytest.mark.requirement("R2")
@pytest.mark.catches("worn-executor-keeps-its-place")
async def test_a_process_is_replaced_after_its_share_and_its_successor_comes_first(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start("--max-tasks", 30, "--concurrency", 5)
    for _ in range(100):
        await world.enqueue("effect")
    await until(lambda: len(tree.lines("task.completed")) == 100, 30, "all of them")
    await until(lambda: len(tree.lines("executor.ended")) >= 1, 30, "a replacement")
    ended = tree.lines("executor.ended")
    assert {(line["status"], line["leaving"]) for line in ended} == {(0, "recycled")}
    order = [line["event"] for line in tree.lines() if str(line["event"]).startswith("executor.")]
    assert order[:3] == ["executor.started", "executor.started", "executor.ended"]
    assert await world.attempts(str(tree.lines("task.completed")[0]["task"])) == []


@pytest.mark.requirement("R2", "T1")
@pytest.mark.catches("once-means-for-ever")
async def test_once_runs_one_task_and_until_empty_runs_them_all(
    world: World, trees: Callable[..., Tree]
) -> None:
    for _ in range(30):
        await world.enqueue("effect")
    once = trees("once").start("--once")
    assert await once.left() == 0
    assert len(once.lines("task.completed")) == 1
    rest = trees("rest").start("--until-empty", "--processes", 2)
    assert await rest.left(30) == 0
    assert len(rest.lines("task.completed")) == 29
    nothing = trees("nothing").start("--once")
    assert await nothing.left() == 0


@pytest.mark.catches("leaves-while-it-blocks")
async def test_until_empty_runs_what_stands_behind_kinds_that_are_not_known(
    world: World, trees: Callable[..., Tree]
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask("nobody.knows")] * 30)
    await world.store.enqueue_many(world.conn, [NewTask("effect")] * 20)
    tree = trees().start("--until-empty", "--concurrency", 5)
    assert await tree.left(30) == 0
    assert len(tree.lines("task.completed")) == 20


@pytest.mark.requirement("R1")
@pytest.mark.catches("queues-in-any-order")
async def test_queues_are_served_in_strict_order(world: World, trees: Callable[..., Tree]) -> None:
    queues = {await world.enqueue("effect", queue=queue): queue for queue in ("default", "high", "other") * 5}
    tree = trees().start("--queues", "high,default", "--until-empty", "--concurrency", 1)
    assert await tree.left(30) == 0
    served = [queues[effect.task] for effect in tree.effects()]
    assert served == ["high"] * 5 + ["default"] * 5
