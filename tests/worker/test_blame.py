"""A process dies with many tasks in it: the guilty one is found, and nobody else pays."""

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from holdfast.core.failure import FailureClass
from holdfast.core.outcome import Outcome, Release, Released, WorkerLost
from holdfast.core.state import State
from holdfast.core.task import Claim, NewTask
from holdfast.worker.flight_record import Flight, RunMode
from holdfast.worker.supervisor.blame import Blame
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


def fate_of(claim: Claim, *flights: Flight, lost_before: bool = False) -> Outcome:
    """What becomes of a claim when the executor above it dies with these on record."""
    blame = Blame(True, {flight.key: flight for flight in flights}, set(), set(), "SIGKILL", {})
    return blame.outcome_of(claim, lost_before)


@pytest.mark.catches("ended-suspect-pays-for-another")
async def test_a_suspect_that_had_ended_does_not_pay_for_what_ran_in_the_executor(world: World) -> None:
    await world.enqueue()
    claim = (await world.claim_one())._replace(isolate=True)
    over = Flight(claim.id, claim.fence, 9e9, RunMode.OWN_PROCESS, ended=True)
    another = Flight(str(uuid4()), 8, 9e9)
    assert fate_of(claim, over, lost_before=True) == WorkerLost(True, "SIGKILL", ended=True)
    assert fate_of(claim, over, another, lost_before=True) == WorkerLost(False, "SIGKILL", ended=True)
    # Another one that had ended was not at work any more.
    assert fate_of(claim, over, replace(another, ended=True), lost_before=True) == WorkerLost(
        True, "SIGKILL", ended=True
    )


@pytest.mark.catches("own-process-pays-at-once")
async def test_a_task_in_a_process_of_its_own_pays_for_the_second_death_of_its_executor(
    world: World,
) -> None:
    await world.enqueue()
    claim = await world.claim_one()
    flight = Flight(claim.id, claim.fence, 9e9, RunMode.OWN_PROCESS)
    assert fate_of(claim, flight) == WorkerLost(sole=False, how="SIGKILL", suspect=False)
    assert fate_of(claim, flight, lost_before=True) == WorkerLost(sole=True, how="SIGKILL")
    beside = Flight(str(uuid4()), 8, 9e9)
    assert fate_of(claim, flight, beside, lost_before=True) == Released(Release.COLLATERAL)
