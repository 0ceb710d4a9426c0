"""Handlers at work: whatever happens to one, its slot is free afterwards and somebody hears of its end."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.handler import Handler, Task
from holdfast.core.outcome import Release, Released
from holdfast.worker.executor.fork_server import ForkServer
from holdfast.worker.executor.runs import Runs
from holdfast.worker.flight_record import FlightRecord
from tests.tree import Tree, until, until_true
from tests.world import World


async def _sleeps(task: Task[Any]) -> None:
    await asyncio.sleep(60)


@pytest.mark.catches("stopped-before-its-first-step")
async def test_a_handler_that_is_stopped_before_its_first_step_ends_all_the_same(world: World) -> None:
    await world.enqueue("render")
    ended: list[object] = []
    flight = FlightRecord.create(2)
    try:
        runs = Runs(
            flight, ForkServer([]), 60.0, None, lambda _, outcome: ended.append(outcome), lambda: None
        )
        runs.start(await world.claim_one(), Handler("render", _sleeps, awaits=True))
        runs.stop_all(Released(Release.DRAINED), "the worker is leaving")
        await runs.done(5.0)
    finally:
        flight.close()
    assert ended == [Released(Release.DRAINED)]
    assert runs.free == 2


@pytest.mark.catches("stopped-called-ended")
async def test_a_handler_that_was_stopped_is_not_on_record_as_ended(world: World) -> None:
    await world.enqueue("render")
    flight = FlightRecord.create(2)
    try:
        runs = Runs(flight, ForkServer([]), 60.0, None, lambda _, __: None, lambda: None)
        runs.start(await world.claim_one(), Handler("render", _sleeps, awaits=True))
        runs.stop_all(Released(Release.DRAINED), "the lease is lost")
        await runs.done(5.0)
        assert [entry.ended for entry in flight.entries()] == [False]
    finally:
        flight.close()


@pytest.mark.catches("suspect-waits-for-ever")
async def test_a_suspect_that_finds_no_room_goes_back_before_its_time_counts(
    world: World, trees: Callable[..., Tree]
) -> None:
    for _ in range(6):
        await world.enqueue("sleep", payload={"seconds": 60})
    await world.conn.execute("update holdfast.tasks set isolate = true")
    trees().start("--concurrency", 8)

    async def back() -> bool:
        released = "select from holdfast.task_attempts where ended_as = 'release'"
        return await (await world.conn.execute(released)).fetchone() is not None

    await until_true(back, 30, "those without room to go back")


@pytest.mark.catches("suspects-keep-the-room")
async def test_suspects_that_run_alone_leave_the_slots_to_others(
    world: World, trees: Callable[..., Tree]
) -> None:
    for _ in range(4):
        await world.enqueue("sleep", payload={"seconds": 60}, priority=0)
    await world.conn.execute("update holdfast.tasks set isolate = true")
    await world.enqueue("effect")
    tree = trees().start("--concurrency", 4, "--sleep", 60)
    await until(lambda: {"effect"} & {one.kind for one in tree.effects()}, what="the one that needs a slot")
