"""Payloads that nobody can read, in a real worker: they fail by themselves, and nothing else does."""

from collections.abc import Callable

import pytest

from holdfast.core.failure import ErrorCode, FailureClass
from holdfast.core.redact import STRUCK
from holdfast.core.state import State
from tests.tree import Tree, until_true
from tests.world import World

APP = "tests.hostile.app:app"
DEEP = "[" * 3_000 + "]" * 3_000
LONG = '{"card": ' + "1" * 5_000 + "}"


async def older(world: World, kind: str, payload: str) -> str:
    """A task that was written before there were bounds."""
    task = await world.enqueue(kind)
    await world.conn.execute(
        "update holdfast.tasks set payload = %s::jsonb where id = %s::uuid", [payload, task]
    )
    return task


@pytest.mark.parametrize("kind", ["hostile.plain", "hostile.typed", "hostile.many"])
@pytest.mark.catches("unreadable-payload-raises")
async def test_an_unreadable_payload_fails_its_own_task_and_no_executor(
    world: World, trees: Callable[..., Tree], kind: str
) -> None:
    tasks = [await older(world, kind, payload) for payload in (DEEP, LONG)]
    neighbour = await world.enqueue("hostile.well")
    tree = await trees(app=APP).start("--processes", 1).ready()

    async def ended() -> bool:
        states = [await world.state(one) for one in (*tasks, neighbour)]
        return states == [State.FAILED, State.FAILED, State.COMPLETED]

    await until_true(ended, 30, "the end of the tasks")
    assert not tree.lines("executor.ended")
    for task in tasks:
        error = (await world.show(task)).error
        assert error is not None
        assert error.code == ErrorCode.PAYLOAD_INVALID
        assert error.message == STRUCK


@pytest.mark.catches("payload-is-read-before-it-is-recorded")
async def test_a_payload_that_kills_its_reader_counts_against_its_task(
    world: World, trees: Callable[..., Tree]
) -> None:
    task = await world.enqueue("hostile.dies")
    neighbour = await world.enqueue("hostile.well")
    trees(app=APP).start("--processes", 1)

    async def ended() -> bool:
        return await world.state(task) is State.FAILED and await world.state(neighbour) is State.COMPLETED

    await until_true(ended, 50, "the end of the task")
    error = (await world.show(task)).error
    assert error is not None
    assert error.failure_class is FailureClass.POISON
