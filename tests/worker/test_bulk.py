"""Bulk handlers with real workers: one outcome for each task, and nobody pays for another's fault."""

import math
import random
import signal
import sys
from collections.abc import Callable, Sequence

import pytest

from holdfast.core.failure import FailureClass
from holdfast.core.state import State
from holdfast.core.task import NewTask
from tests.tree import Tree, until
from tests.world import World

APP = "tests.bulk_app:app"


@pytest.fixture
def bulks(trees: Callable[..., Tree]) -> Tree:
    return trees(app=APP)


async def keep(world: World, kind: str, deeds: Sequence[str], **options: object) -> list[str]:
    tasks = [NewTask(kind, f'{{"do": "{deed}"}}', **options) for deed in deeds]  # type: ignore[arg-type]
    return [one.id for one in await world.store.enqueue_many(world.conn, tasks)]


async def ended(world: World, tree: Tree, count: int, seconds: float = 60.0) -> None:
    """Until so many tasks have completed or failed."""
    names = ("task.completed", "task.failed")
    await until(
        lambda: sum(len(tree.lines(name)) for name in names) >= count, seconds, f"the end of {count} tasks"
    )


@pytest.mark.requirement("O6")
@pytest.mark.catches("second-half-called-again", "call-failure-blames-all")
@pytest.mark.parametrize(("kind", "size"), [("bulk", 500), ("bulk.large", 10_000)])
async def test_of_10_000_items_exactly_the_17_poison_ones_fail(
    world: World, bulks: Tree, kind: str, size: int
) -> None:
    count = 10_000
    poison = set(random.Random(17).sample(range(count), 17))
    ids = await keep(world, kind, ["poison" if n in poison else "nothing" for n in range(count)])
    bulks.start("--concurrency", 1)
    await ended(world, bulks, count)
    assert {line["task"] for line in bulks.lines("task.failed")} == {ids[n] for n in poison}
    assert len(bulks.lines("task.completed")) == count - 17
    extra = len(bulks.effects("call")) - count // size
    sys.stdout.write(f"{kind}: {extra} extra calls, 17 x log2({size}) is {17 * math.log2(size):.0f}\n")
    # One for each halving, the call in which the culprit is alone, and one for the rest.
    assert extra <= 17 * (math.log2(size) + 2)
    shown = await world.show(ids[min(poison)])
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.PERMANENT
    assert "Poisoned" in shown.error.message


@pytest.mark.requirement("O1", "O6")
@pytest.mark.catches("flight-not-recorded", "bulk-not-in-flight")
async def test_one_segfaulting_item_in_a_bulk_of_500_is_poisoned_and_no_other(
    world: World, bulks: Tree
) -> None:
    ids = await keep(world, "bulk", ["segfault" if n == 333 else "nothing" for n in range(500)])
    bulks.start("--concurrency", 4)
    await ended(world, bulks, 500, 100)
    (failed,) = bulks.lines("task.failed")
    assert failed["task"] == ids[333]
    shown = await world.show(ids[333])
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.POISON
    assert shown.counters.crashes == 3
    assert len(bulks.lines("executor.ended")) == 1
    for task in ids[:3] + ids[-3:]:
        counters = (await world.show(task)).counters
        assert (counters.failures, counters.crashes) == (0, 0)


@pytest.mark.requirement("O6")
@pytest.mark.catches("one-answer-for-all")
@pytest.mark.parametrize("kind", ["bulk", "bulk.plain"])
async def test_each_task_has_an_outcome_of_its_own(world: World, bulks: Tree, kind: str) -> None:
    ids = await keep(world, kind, ["nothing", "snooze", "refuse", "raise", "value", "what?"])
    unread = await world.enqueue(kind, payload={"do": 7})
    bulks.start("--until-empty")
    assert await bulks.left() == 0
    states = [await world.state(task) for task in [*ids, unread]]
    done, failed = State.COMPLETED, State.FAILED
    assert states == [done, State.QUEUED, failed, failed, done, done, failed]
    assert (await world.show(ids[1])).counters.polls == 1
    refused = (await world.show(ids[2])).error
    assert refused is not None
    assert refused.code == "REFUSED"
    assert (await world.show(ids[4])).result == f'{{"seen": "{ids[4]}"}}'
    invalid = (await world.show(unread)).error
    assert invalid is not None
    assert invalid.failure_class is FailureClass.INVALID
    assert len(bulks.effects("call")) == 1, "a failure that was returned is no failure of the call"


@pytest.mark.catches("cancelled-call-blames-all", "panic-blames-all")
@pytest.mark.parametrize(
    ("deed", "said"), [("cancel", "it was cancelled from within"), ("panic", "Panic ended it")]
)
async def test_whatever_a_call_ends_with_only_the_item_at_fault_pays(
    world: World, bulks: Tree, deed: str, said: str
) -> None:
    ids = await keep(world, "bulk.upset", [deed if n == 5 else "nothing" for n in range(8)])
    bulks.start()
    await ended(world, bulks, 8)
    assert [line["task"] for line in bulks.lines("task.failed")] == [ids[5]]
    error = (await world.show(ids[5])).error
    assert error is not None
    assert error.message == said


async def test_a_wrong_number_of_answers_is_said_and_not_searched_for(world: World, bulks: Tree) -> None:
    ids = await keep(world, "bulk.miscounts", ["nothing"] * 5)
    bulks.start("--until-empty")
    assert await bulks.left() == 0
    error = (await world.show(ids[0])).error
    assert error is not None
    assert "it returned 1 answers for 5 tasks" in error.message
    assert len(bulks.effects("call")) == 1


@pytest.mark.requirement("O1")
@pytest.mark.catches("bulk-without-deadline", "mates-blamed-for-the-deadline")
@pytest.mark.parametrize(("kind", "executors"), [("bulk.slow", 1), ("bulk.stuck", 2)])
async def test_of_a_call_past_its_deadline_only_the_item_that_hangs_pays(
    world: World, bulks: Tree, kind: str, executors: int
) -> None:
    ids = await keep(world, kind, ["hang" if n == 5 else "nothing" for n in range(8)])
    bulks.start("--grace", 1)
    await ended(world, bulks, 8)
    (failed,) = bulks.lines("task.failed")
    assert failed["task"] == ids[5]
    error = (await world.show(ids[5])).error
    assert error is not None
    assert error.failure_class is FailureClass.TIMEOUT
    assert len(bulks.lines("executor.started")) == executors, "a plain function can only be killed"


async def test_an_item_past_its_own_deadline_fails_unless_it_ended_well(world: World, bulks: Tree) -> None:
    (hasty,) = await keep(world, "bulk.waits", ["nothing"], timeout_seconds=0.3)
    (patient,) = await keep(world, "bulk.waits", ["nothing"])
    bulks.start()
    await until(lambda: bulks.lines("task.completed"), what="the one with time")
    assert [line["task"] for line in bulks.lines("task.completed")] == [patient]
    await until(lambda: bulks.lines("task.requeued"), what="the other")
    error = (await world.show(hasty)).error
    assert error is not None
    assert error.failure_class is FailureClass.TIMEOUT


async def test_an_item_that_is_cancelled_is_told_and_the_others_go_on(world: World, bulks: Tree) -> None:
    first, second = await keep(world, "bulk.waits", ["nothing"] * 2)
    bulks.start()
    await until(lambda: bulks.effects("call"), what="the call")
    await world.operator.cancel(world.conn, first, "no longer wanted")
    await until(lambda: bulks.lines("task.completed"), what="the other")
    assert await world.state(first) is State.CANCELLED
    assert await world.state(second) is State.COMPLETED


async def test_a_call_that_outlasts_the_grace_gives_all_its_items_back_unspent(
    world: World, bulks: Tree
) -> None:
    ids = await keep(world, "bulk.waits", ["nothing"] * 20)
    bulks.start("--grace", 1)
    await until(lambda: bulks.effects("call"), what="the call")
    bulks.signal(signal.SIGTERM)
    assert await bulks.left(10) == 0
    for task in ids:
        shown = await world.show(task)
        assert (shown.state, shown.counters.attempts) == (State.QUEUED, 0)


@pytest.mark.catches("bulk-finish-in-part")
async def test_finish_completes_all_or_none(world: World, bulks: Tree) -> None:
    await world.conn.execute("create table if not exists effects (id text primary key)")
    try:
        ids = await keep(world, "bulk.finishes", ["slowly", *["nothing"] * 9])
        bulks.start()
        await until(lambda: bulks.effects("call"), what="the call")
        # The second one is taken back while the call is under way.
        await world.conn.execute("delete from holdfast.running where id = %s", [ids[1]])
        await until(lambda: len(bulks.lines("task.completed")) == 9, what="the others")
        cursor = await world.conn.execute("select id from effects")
        assert {row[0] for row in await cursor.fetchall()} == set(ids) - {ids[1]}
        assert (await world.show(ids[0])).result == f'{{"row": "{ids[0]}"}}'
    finally:
        await world.conn.execute("drop table effects")
        await world.conn.execute("delete from holdfast.tasks")


async def test_a_limit_holds_for_the_items_of_a_bulk(world: World, bulks: Tree) -> None:
    await world.conn.execute(
        "insert into holdfast.buckets (name, kind, capacity) values ('kind:bulk', 'bulk', 3)"
    )
    await keep(world, "bulk", ["nothing"] * 30)
    bulks.start()
    await ended(world, bulks, 30)
    calls = len(bulks.effects("call"))
    assert calls >= 10, "no call had more than three"
