"""The bench for users' tests does what a worker does, one task at a time."""

import os
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import psycopg
import pytest

from holdfast import Holdfast, HoldfastError, Retry, Task
from holdfast.core.state import State
from holdfast.testing import Bench, Death, NothingToRun
from tests.world import World


@pytest.fixture
async def bench(world: World, url: str) -> AsyncIterator[Bench]:
    app = Holdfast(url)

    @app.task("mail.send")
    async def send(task: Task[dict[str, int]]) -> dict[str, int]:
        seen.append(task.attempt)
        return {"sent to": task.payload["to"]}

    @app.task("flaky")
    def flaky(task: Task[dict[str, int]]) -> Retry | None:
        return Retry("not yet", after=60) if task.attempt == 1 else None

    @app.task("row")
    async def row(task: Task[dict[str, int]]) -> None:
        async with task.finish("kept") as tx:
            await tx.execute("select 1")

    seen: list[int] = []
    made = await Bench.open(app)
    made.seen = seen  # type: ignore[attr-defined]
    yield made
    await made.empty()
    await made.close()


async def test_run_the_next_task_and_see_what_came_of_it(world: World, bench: Bench) -> None:
    await world.enqueue("mail.send", payload={"to": 3}, subject="order 7")
    await bench.assert_enqueued("mail.send", payload={"to": 3}, subject="order 7")
    with pytest.raises(
        AssertionError, match=r"no mail\.send task waits with .*'to': 4.* have \[\{'to': 3\}\]"
    ):
        await bench.assert_enqueued("mail.send", payload={"to": 4})
    ran = await bench.run_next()
    assert (ran.state, ran.result) == (State.COMPLETED, {"sent to": 3})
    with pytest.raises(NothingToRun, match="no task of default is due"):
        await bench.run_next()


async def test_time_moves_when_the_test_says_so(world: World, bench: Bench) -> None:
    await world.enqueue("flaky")
    assert (await bench.run_next()).state is State.QUEUED
    assert await bench.drain() == []
    await bench.move_time(timedelta(minutes=2))
    (ran,) = await bench.drain()
    assert ran.state is State.COMPLETED
    assert ran.task.counters.attempts == 2


async def test_one_kind_is_picked_and_the_others_keep_their_place(world: World, bench: Bench) -> None:
    first = await world.enqueue("mail.send", payload={"to": 1})
    await world.enqueue("row")
    ran = await bench.run_next("row")
    assert (ran.task.kind, ran.result) == ("row", "kept")
    assert (await bench.run_next()).task.id == first


@pytest.mark.parametrize(
    ("dies", "runs", "state"),
    [
        (Death.BEFORE_HANDLER, 0, State.QUEUED),
        (Death.AFTER_HANDLER, 1, State.QUEUED),
        (Death.AFTER_COMMIT, 1, State.COMPLETED),
    ],
)
async def test_a_worker_dies_where_the_test_says(
    world: World, bench: Bench, dies: Death, runs: int, state: State
) -> None:
    await world.enqueue("mail.send", payload={"to": 3})
    ran = await bench.run_next(dies=dies)
    assert (ran.state, len(bench.seen)) == (state, runs)  # type: ignore[attr-defined]
    if state is State.QUEUED:
        assert (await bench.run_next()).state is State.COMPLETED


@pytest.fixture
def shop_url(direct_url: str) -> Iterator[str]:
    """A database whose name does not say that it is for tests."""
    name = f"contest_{os.getpid()}"
    url = direct_url.rsplit("/", 1)[0]
    with psycopg.connect(direct_url, autocommit=True) as admin:
        admin.execute(f"create database {name}")
        yield f"{url}/{name}"
        admin.execute(f"drop database {name} with (force)")


async def test_a_database_that_is_no_test_s_is_not_emptied(shop_url: str) -> None:
    shop = Holdfast(shop_url)

    @shop.task("mail.send")
    async def send(task: Task[dict[str, int]]) -> None:
        raise AssertionError

    await (await Bench.open(shop)).close()
    await send.enqueue({})
    with pytest.raises(HoldfastError, match=r"the database contest_\d+ holds 1 tasks and 0 workers"):
        await Bench.open(shop)
    await shop.close()
