"""Stories of leases and fences: who holds a task, who has lost it, and what a late word is worth."""

from uuid import uuid4

import pytest

from holdfast.core.events import (
    LateResultsRefused,
    TasksSettled,
    WorkersLost,
)
from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.outcome import Cancel, Complete, Fail, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import State
from tests.world import LEASE_SECONDS, World


@pytest.mark.requirement("T2")
@pytest.mark.catches("no-fence", "fence-does-not-grow", "late-result-in-silence")
async def test_a_worker_that_comes_back_after_its_lease_cannot_settle(world: World) -> None:
    task_id = await world.enqueue()
    stale = await world.claim_one()
    await world.lapse(world.worker)
    await world.reclaim(world.conn)
    current = await world.claim_one(worker=str(uuid4()))
    assert current.fence > stale.fence
    late = await world.settle((stale, Complete('"late"')))
    assert not late.accepted
    assert [claim.id for claim, _ in late.refused] == [task_id]
    assert any(isinstance(event, LateResultsRefused) for event in world.events)
    assert await world.attempts(task_id) == ["reclaim", "late"]
    assert await world.complete(current)
    assert (await world.show(task_id)).result is None


@pytest.mark.requirement("T2")
@pytest.mark.catches("no-fence-on-retry")
@pytest.mark.parametrize(
    "outcome", [Snooze(60), Retry("again"), Fail("X", "no"), Cancel("no"), Released(Release.DRAINED)]
)
async def test_no_late_verdict_of_any_kind_lands(world: World, outcome: Outcome) -> None:
    task_id = await world.enqueue()
    stale = await world.claim_one()
    await world.settle((stale, Released(Release.DRAINED)))
    current = await world.claim_one()
    assert not (await world.settle((stale, outcome))).accepted
    assert await world.state(task_id) is State.RUNNING
    assert await world.complete(current)


async def test_an_old_and_a_new_claim_of_one_task_in_one_group(world: World) -> None:
    task_id = await world.enqueue(bucket="lane:1")
    stale = await world.claim_one()
    await world.settle((stale, Released(Release.DRAINED)))
    current = await world.claim_one()
    settled = await world.settle((stale, Complete('"old"')), (current, Complete('"new"')))
    assert [claim.fence for claim, _ in settled.accepted] == [current.fence]
    assert [claim.fence for claim, _ in settled.refused] == [stale.fence]
    assert (await world.show(task_id)).result == '"new"'


@pytest.mark.requirement("T3", "O1")
@pytest.mark.catches("lost-worker-renews")
async def test_a_worker_declared_lost_stays_lost(world: World) -> None:
    await world.enqueue()
    await world.claim_one()
    assert await world.store.workers.renew(world.conn, [world.worker], LEASE_SECONDS) == {world.worker}
    await world.lapse(world.worker)
    settled = await world.reclaim(world.conn)
    assert len(settled.accepted) == 1
    assert WorkersLost([world.worker]) in world.events
    assert await world.store.workers.renew(world.conn, [world.worker], LEASE_SECONDS) == set()


@pytest.mark.catches("neighbours-accused", "release-spends-an-attempt", "snooze-spends-an-attempt")
async def test_what_is_no_fault_of_the_task_spends_nothing(world: World) -> None:
    task_id = await world.enqueue(max_attempts=1)
    for outcome in (Snooze(0, progress=0.5), Released(Release.DRAINED), Snooze(0, progress=0.2)):
        claim = await world.claim_one()
        await world.settle((claim, outcome))
        await world.elapse(1)
    for _ in range(5):
        worker = str(uuid4())
        await world.enqueue("neighbour")
        assert len(await world.claim(worker=worker)) >= 2
        await world.lapse(worker)
        await world.reclaim(world.conn)
        await world.elapse(1)
    counters = (await world.show(task_id)).counters
    assert (counters.attempts, counters.failures, counters.crashes, counters.polls) == (0, 0, 0, 2)


@pytest.mark.catches("stray-claims-kept")
async def test_a_claim_whose_answer_was_lost_goes_back_unspent(world: World) -> None:
    known = await world.enqueue()
    kept = await world.claim_one()
    lost = await world.enqueue()
    await world.claim_one()
    given_back = await world.store.workers.reconcile(world.conn, world.worker, [kept])
    assert [claim.id for claim, _ in given_back.accepted] == [lost]
    assert (await world.state(known), await world.state(lost)) == (State.RUNNING, State.QUEUED)
    assert (await world.show(lost)).counters.attempts == 0


@pytest.mark.catches("answer-lost-means-late")
async def test_a_settle_whose_answer_was_lost_is_not_called_late(world: World) -> None:
    ids = [await world.enqueue() for _ in range(3)]
    done, retried, late = await world.claim()
    first = [world.verdict(done, Complete()), world.verdict(retried, Retry("again"))]
    await world.store.settler.settle(world.conn, first)
    await world.settle((late, Released(Release.DRAINED)))
    world.events.clear()
    again = await world.store.settler.settle_again(world.conn, [*first, world.verdict(late, Complete())])
    assert sorted(claim.id for claim, _ in again.accepted) == sorted(ids[:2])
    assert [claim.id for claim, _ in again.refused] == ids[2:]
    assert [type(event) for event in world.events] == [LateResultsRefused, TasksSettled]


@pytest.mark.catches("last-page-ran-alone")
async def test_the_last_of_many_that_a_worker_held_did_not_run_alone(world: World) -> None:
    for _ in range(5):
        await world.enqueue()
    claims = await world.claim(worker=(worker := str(uuid4())))
    await world.lapse(worker)
    while (await world.reclaim(world.conn, limit=2)).accepted:
        pass
    for claim in claims:
        assert (await world.show(claim.id)).counters.crashes == 0


@pytest.mark.catches("tree-killer-never-suspected", "a-lost-tree-accuses-all")
async def test_what_is_lost_among_others_runs_alone_once_it_was_lost_twice(world: World) -> None:
    ids = [await world.enqueue() for _ in range(3)]
    alone = []
    for _ in range(3):
        worker = str(uuid4())
        claims = await world.claim(worker=worker)
        assert sorted(claim.id for claim in claims) == sorted(ids)
        alone.append({claim.isolate for claim in claims})
        await world.lapse(worker)
        await world.reclaim(world.conn)
        await world.elapse(1)
    assert alone == [{False}, {False}, {True}]


@pytest.mark.requirement("T6")
@pytest.mark.catches("death-alone-never-counts")
async def test_a_task_that_kills_its_worker_three_times_while_alone_is_poison(world: World) -> None:
    task_id = await world.enqueue(max_attempts=100)
    for _ in range(3):
        worker = str(uuid4())
        await world.claim_one(worker=worker)
        await world.lapse(worker)
        await world.reclaim(world.conn)
        await world.elapse(1)
    seen = await world.show(task_id)
    assert seen.error is not None
    assert (seen.state, seen.error.failure_class) == (State.FAILED, FailureClass.POISON)
    assert (seen.dead_reason, seen.counters.crashes) == (DeadReason.NON_RETRYABLE, 3)


async def test_a_task_past_its_deadline_is_taken_from_a_live_worker(world: World) -> None:
    task_id = await world.enqueue(timeout_seconds=10)
    await world.claim_one()
    await world.store.workers.renew(world.conn, [world.worker], 3_600)
    await world.elapse(45)
    await world.store.workers.renew(world.conn, [world.worker], 3_600)
    await world.reclaim(world.conn)
    seen = await world.show(task_id)
    assert seen.state is State.QUEUED
    assert seen.error is not None
    assert seen.error.failure_class is FailureClass.TIMEOUT
