"""Kinds that a worker does not know: left to others during a deploy, reported while nobody serves them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest

from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.state import State
from tests.tree import Tree, until, until_true
from tests.world import World


@pytest.mark.requirement("T6", "T8")
@pytest.mark.catches("unknown-kinds-are-claimed")
async def test_a_kind_that_nobody_serves_waits_and_runs_when_someone_appears(
    world: World, trees: Callable[..., Tree]
) -> None:
    old = trees("old").start(old=True)
    task = await world.enqueue("new")
    await until(lambda: [line for line in old.lines("kind.status_changed") if line["status"] == "unserved"],
                what="the alarm")  # fmt: skip
    known = await world.enqueue("effect")
    await until(lambda: known in {effect.task for effect in old.effects()}, what="other work to go on")
    assert await world.state(task) is State.QUEUED
    new = trees("new").start()
    await until(lambda: task in {effect.task for effect in new.effects()}, what="its return")
    shown = await world.show(task)
    assert shown.counters.failures == 0


@pytest.mark.requirement("T8")
@pytest.mark.catches("unroutable-waits-for-ever")
async def test_a_kind_that_nobody_serves_fails_after_its_grace(
    world: World, trees: Callable[..., Tree]
) -> None:
    await trees("old").start("--unroutable", 0, old=True).ready()
    task = await world.enqueue("new")

    async def failed() -> bool:
        return await world.state(task) is State.FAILED

    await until_true(failed, 10, "the end of its grace")
    shown = await world.show(task)
    assert shown.dead_reason is DeadReason.NON_RETRYABLE
    assert shown.error is not None
    assert (shown.error.failure_class, shown.error.code) == (
        FailureClass.UNROUTABLE,
        "TASK_PAYLOAD_UNSUPPORTED",
    )


@pytest.mark.catches("unknown-kinds-are-claimed")
async def test_a_kind_that_one_worker_does_not_know_is_left_to_another(
    world: World, trees: Callable[..., Tree]
) -> None:
    old = await trees("old").start(old=True).ready()
    new = await trees("new").start().ready()
    enqueued = 0

    async def met() -> bool:
        nonlocal enqueued
        await world.enqueue("new")
        enqueued += 1
        return [line["kinds"] for line in old.lines("kind.unknown")] == [["new"]]

    await until_true(met, 60, "the old one to meet a kind that it does not know")
    await until(lambda: len(new.lines("task.completed")) == enqueued, what="the new one to do the work")
    assert await world.rows("buckets") == 0, "a kind that is served by somebody is not marked"
    assert await world.rows("task_attempts") == 0, "and no task was claimed in vain"


@pytest.mark.alone
@pytest.mark.requirement("O7", "R2")
@pytest.mark.catches("unknown-kinds-are-claimed", "drain-spends-an-attempt")
async def test_rolling_restarts_under_load_fail_nothing_and_delay_nothing(
    world: World, trees: Callable[..., Tree]
) -> None:
    """Every other restart brings up a version that lacks a kind; `make deploys` does twenty."""
    restarts = int(os.environ.get("HOLDFAST_TEST_DEPLOYS", "4"))
    options = ("--concurrency", 20, "--grace", 5)
    pair = [trees("one").start(*options, old=True), trees("two").start(*options)]
    enqueued: dict[str, float] = {}
    taken: list[float] = []
    stop = asyncio.Event()
    producing = asyncio.ensure_future(_produce(world, enqueued, stop))
    await until(lambda: all(tree.lines("task.claimed") for tree in pair), what="both to be up")
    up_at = time.monotonic()
    for number in range(restarts):
        tree = pair[number % 2]
        began = time.monotonic()
        tree.signal_group(signal.SIGTERM)
        assert await tree.left() == 0
        claimed = len(tree.lines("task.claimed"))
        tree.start(*options, old=tree is pair[0])
        await until(lambda t=tree, n=claimed: len(t.lines("task.claimed")) > n, what="its return")  # type: ignore[misc]
        taken.append(time.monotonic() - began)
    stop.set()
    await producing
    await until(
        lambda: sum(len(tree.lines("task.completed")) for tree in pair) == len(enqueued), what="the last ones"
    )
    started: dict[str, float] = {}
    for effect in pair[0].effects():
        started.setdefault(effect.task, effect.at)
    # What was enqueued while the two came up waited for that, not for a restart.
    waits = sorted(started[task] - at for task, at in enqueued.items() if at >= up_at)
    sys.stdout.write(
        f"{restarts} restarts of {min(taken):.2f} to {max(taken):.2f} s, {len(waits)} tasks, "
        f"waited p50 {waits[len(waits) // 2]:.3f}, max {waits[-1]:.3f} s\n"
    )
    assert waits[-1] <= max(taken) + 0.5
    assert pair[0].lines("task.failed") + pair[1].lines("task.failed") == []
    row = await (
        await world.conn.execute("select count(*), sum(failures + crashes) from holdfast.task_history")
    ).fetchone()
    assert row == (len(enqueued), 0)


async def _produce(world: World, enqueued: dict[str, float], stop: asyncio.Event) -> None:
    conn = await world.open()
    number = 0
    while not stop.is_set():
        number += 1
        task = await world.enqueue("new" if number % 2 else "effect", conn=conn)
        enqueued[task] = time.monotonic()
        await asyncio.sleep(0.02)
