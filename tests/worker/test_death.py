"""Processes die, stop and come back: nothing is lost, nothing is run by two, nothing late lands."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from holdfast.core.state import State
from tests.tree import Tree, alive, until
from tests.world import World

LEASE = 3


async def started(tree: Tree, tasks: int = 1, seconds: float = 20.0) -> None:
    await until(lambda: len({effect.task for effect in tree.effects()}) >= tasks, seconds, "handlers")


async def taken_back(world: World, tasks: list[str], seconds: float) -> float:
    """How long until none of the tasks is held under its first claim."""
    began = time.monotonic()
    while True:
        cursor = await world.conn.execute(
            "select count(distinct task_id) from holdfast.task_attempts where task_id = any (%s::uuid[])",
            [tasks],
        )
        row = await cursor.fetchone()
        assert row is not None
        waited = time.monotonic() - began
        if row[0] == len(tasks):
            return waited
        assert waited < seconds, f"{row[0]} of {len(tasks)} back after {waited:.1f} s"


@pytest.mark.alone
@pytest.mark.requirement("T1", "O1")
@pytest.mark.catches("child-not-released")
async def test_what_a_dead_executor_held_is_claimable_within_a_second(
    world: World, trees: Callable[..., Tree]
) -> None:
    tasks = [await world.enqueue("sleep", payload={"seconds": 60}) for _ in range(5)]
    tree = trees().start("--lease", 30)
    await started(tree, 5)
    (pid,) = tree.executors()
    os.kill(pid, signal.SIGKILL)
    assert await taken_back(world, tasks, 5.0) < 1.0
    # Five ran in it: nobody is accused, and each runs next in a process of its own.
    await until(lambda: len({e.fence for e in tree.effects()}) > 1, what="a second start")
    again = [effect for effect in tree.effects() if effect.fence > 5 or effect.pid != pid]
    assert pid not in {effect.pid for effect in again if effect.pid != pid}
    for task in tasks:
        assert (await world.show(task)).counters.crashes == 0


@pytest.mark.catches("killed-start-ends-the-worker")
async def test_an_executor_that_is_killed_while_it_starts_is_replaced(
    world: World, trees: Callable[..., Tree]
) -> None:
    await world.enqueue("effect")
    tree = await trees().start().ready()
    tree.kill_executors()
    await started(tree)
    assert [line["status"] for line in tree.lines("executor.ended")] == [-9]


@pytest.mark.alone
@pytest.mark.requirement("O1", "T3")
@pytest.mark.catches("maintenance-never-looks")
@pytest.mark.parametrize("victims", ["supervisor", "tree"])
async def test_what_a_dead_tree_held_is_back_within_its_lease_and_a_second(
    world: World, trees: Callable[..., Tree], victims: str
) -> None:
    doomed = trees("doomed").start("--lease", LEASE, "--queues", "left")
    tasks = [await world.enqueue("sleep", queue="left", payload={"seconds": 60}) for _ in range(3)]
    await started(doomed, 3)
    survivor = trees("survivor").start("--lease", LEASE)
    await survivor.ready()
    executors = doomed.executors()
    if victims == "tree":
        doomed.signal_group(signal.SIGKILL)
    else:
        doomed.process.kill()
    assert await until(lambda: not any(map(alive, executors)), what="executors to be gone") < 1.0
    assert await taken_back(world, tasks, LEASE + 5) <= LEASE + 1.0


@pytest.mark.requirement("T2")
@pytest.mark.catches("late-result-in-silence")
async def test_a_tree_that_was_stopped_past_its_lease_lands_nothing(
    world: World, trees: Callable[..., Tree]
) -> None:
    stopped = trees("stopped").start("--lease", 2, "--concurrency", 30)
    tasks = [await world.enqueue("sleep", payload={"seconds": 1.0}) for _ in range(20)]
    await started(stopped, 20)
    stopped.signal_group(signal.SIGSTOP)
    other = trees("other").start("--lease", 2, "--concurrency", 30)
    await until(lambda: len(other.lines("task.completed")) == 20, 30, "the other to complete them")
    stopped.signal_group(signal.SIGCONT)
    await until(lambda: len(stopped.lines("task.late_result_refused")) == 20, what="refusals")
    assert stopped.lines("task.completed") == []
    accepted = {str(line["task"]): line["fence"] for line in other.lines("task.completed")}
    for task in tasks:
        assert await world.state(task) is State.COMPLETED
        assert (await world.show(task)).fence == accepted[task]
        assert "late" in await world.attempts(task)
    # And it goes on to work, as a new worker.
    task = await world.enqueue("effect", queue="default")
    await until(lambda: task in {effect.task for effect in other.effects()}, what="new work")


@pytest.mark.requirement("T3")
@pytest.mark.catches("renewal-stops")
async def test_a_handler_that_holds_the_gil_for_three_leases_keeps_its_lease(
    world: World, trees: Callable[..., Tree]
) -> None:
    task = await world.enqueue("gil", payload={"seconds": 6})
    tree = trees().start("--lease", 2)
    watcher = trees("watcher").start("--lease", 2, "--queues", "other")
    await watcher.ready()
    await until(lambda: tree.lines("task.completed"), 30, "its end")
    assert len(tree.effects("start")) == len(tree.effects("end")) == 1
    assert await world.attempts(task) == []
    assert watcher.lines("worker.lost") == []


@pytest.mark.catches("executors-obey-the-group")
async def test_a_signal_to_the_executors_alone_changes_nothing(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start()
    task = await world.enqueue("sleep", payload={"seconds": 1.0})
    await started(tree)
    (pid,) = tree.executors()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    await until(lambda: tree.lines("task.completed"), what="its end")
    assert tree.executors() == [pid]
    assert await world.attempts(task) == []


@pytest.mark.catches("lease-outlived")
async def test_a_worker_that_cannot_renew_stops_its_handlers_before_the_lease_ends(
    world: World, trees: Callable[..., Tree]
) -> None:
    tree = trees().start("--lease", 4)
    await world.enqueue("sleep", payload={"seconds": 30})
    await started(tree)
    (pid,) = tree.executors()
    # Nobody who renews is let through: the row is held by someone else.
    other = await world.open()
    async with other.transaction():
        cursor = await other.execute("select extract(epoch from lease_expires_at - clock_timestamp()) "
                                     "from holdfast.workers for update")  # fmt: skip
        row = await cursor.fetchone()
        assert row is not None
        left = float(row[0])
        stopped = await until(lambda: not alive(pid), left + 5, "the executor to be stopped")
    assert stopped < left
    assert tree.lines("worker.lease_at_risk")
