"""Dead letters: found, retried, edited, forgotten, each with its line in the audit."""

import json

import pytest
from pydantic import BaseModel

from holdfast import Holdfast, Task
from holdfast.core.audit import EntryFilter
from holdfast.core.errors import BadPayload, Misused, MoveRefused, PayloadTooLarge, TaskNotFound
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.operator_events import TasksForgotten
from holdfast.core.outcome import Fail, Failed
from holdfast.core.state import State
from holdfast.ops.dead_letters import DeadFilter
from tests.ops.conftest import Shift, shift_of
from tests.world import World, broken


@pytest.mark.requirement("T8", "O3")
@pytest.mark.catches("dead-reason-forgotten")
async def test_t8_a_dead_letter_says_why_it_died(shift: Shift) -> None:
    (tried,) = await shift.fail(message="provider is down")
    at_once = await shift.world.enqueue()
    await shift.world.settle((await shift.world.claim_one(), Fail("CARD_DECLINED", "no funds")))
    refused = await shift.world.enqueue()
    permanent = Failed(Failure.of(FailureClass.PERMANENT, "ModelRefused: no"))
    await shift.world.settle((await shift.world.claim_one(), permanent))
    found = {one.id: one for one in await shift.dead.page(shift.world.conn, DeadFilter())}
    assert found[refused].dead_reason == "non_retryable"
    assert found[tried].dead_reason == "max_attempts_exceeded"
    assert found[at_once].dead_reason == "non_retryable"
    assert found[at_once].error_code == "CARD_DECLINED"
    assert found[at_once].attempts == 1


@pytest.mark.requirement("F3", "T10")
@pytest.mark.catches("filter-ignores-code")
async def test_f3_failed_tasks_are_listed_by_what_people_know_of_them(shift: Shift) -> None:
    world = shift.world
    first = await shift.fail(2, kind="a", subject="episode-1", trace_id="t-1")
    second = await shift.fail(1, message="other", kind="b", subject="episode-2", queue="default")
    third = await world.enqueue(kind="c")
    await world.settle((await world.claim_one(), Fail("CODE_C", "no")))

    async def ids(**only: object) -> set[str]:
        return {one.id for one in await shift.dead.page(world.conn, DeadFilter(**only))}  # type: ignore[arg-type]

    assert await ids(kind="a") == set(first)
    assert await ids(subject="episode-2") == set(second)
    assert await ids(trace="t-1") == set(first)
    assert await ids(code="CODE_C") == {third}
    assert await ids(reason="non_retryable") == {third}
    assert await ids(ids=[first[0], third]) == {first[0], third}
    assert await ids(queue="nowhere") == set()
    (group,) = {one.fingerprint for one in await shift.dead.page(world.conn, DeadFilter(kind="b"))}
    assert await ids(fingerprint=group) == set(second)


@pytest.mark.requirement("T11")
@pytest.mark.catches("pages-overlap")
async def test_t11_pages_do_not_overlap_and_nothing_changes(shift: Shift) -> None:
    made = set(await shift.fail(7))
    pages, before = [], None
    while page := await shift.dead.page(shift.world.conn, DeadFilter(), limit=3, before=before):
        pages.append([one.id for one in page])
        before = page[-1].id
    assert [len(page) for page in pages] == [3, 3, 1]
    assert {task for page in pages for task in page} == made
    assert await shift.actions() == []


@pytest.mark.requirement("F3")
@pytest.mark.catches("statistics-count-kinds-once")
async def test_f3_statistics_count_by_kind_class_reason_and_subject(shift: Shift) -> None:
    await shift.fail(3, kind="a", subject="episode-1")
    await shift.fail(1, kind="b", message="other", subject="episode-2")
    world = shift.world
    await world.enqueue(kind="a", subject="episode-1")
    await world.settle((await world.claim_one(), broken("bad", FailureClass.INVALID)))
    found = await shift.dead.statistics(world.conn)
    assert found.total == 5
    assert found.by_kind == {"a": 4, "b": 1}
    assert found.by_class == {"transient": 4, "invalid": 1}
    assert found.by_reason == {"max_attempts_exceeded": 4, "non_retryable": 1}
    assert found.by_subject == {"episode-1": 4, "episode-2": 1}


@pytest.mark.requirement("F3", "O5")
@pytest.mark.catches("replay-not-counted")
async def test_o5_a_retried_task_is_clean_and_says_who_replayed_it_and_why(shift: Shift) -> None:
    (task,) = await shift.fail()
    done = await shift.dead.retry(shift.world.conn, [task], "the provider is back")
    assert (done.retried, done.refused) == ([task], {})
    view = await shift.world.show(task)
    assert (view.state, view.error, view.counters.failures) == (State.QUEUED, None, 0)
    await shift.fail_again()
    (again,) = await shift.dead.page(shift.world.conn, DeadFilter())
    assert (again.replay_count, again.last_replayed_by, again.last_replay_reason) == (
        1,
        "ada",
        "the provider is back",
    )
    (entry,) = await shift.audit.page(shift.world.conn, EntryFilter(task=task))
    assert (entry.action, entry.actor, entry.reason) == ("TASK_RETRY", "ada", "the provider is back")


@pytest.mark.requirement("F3")
@pytest.mark.catches("retry-of-anything")
async def test_f3_of_many_it_is_told_which_were_retried_and_why_the_others_were_not(shift: Shift) -> None:
    (task,) = await shift.fail()
    waiting = await shift.world.enqueue()
    gone = "0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f"
    done = await shift.dead.retry(shift.world.conn, [task, waiting, gone], "try")
    assert done.retried == [task]
    assert done.refused == {waiting: "it is queued", gone: "it does not exist"}
    with pytest.raises(TaskNotFound):
        await shift.dead.retry(shift.world.conn, ["no id"], "try")


@pytest.mark.requirement("F4")
@pytest.mark.catches("failed-in-two-words")
async def test_f4_a_task_says_that_it_failed_and_how(shift: Shift) -> None:
    (task,) = await shift.fail(message="it broke")
    view = await shift.world.show(task)
    assert view.is_failed
    assert view.error is not None
    assert (view.error.code, view.error.message) == ("TASK_EXECUTION_FAILED", "it broke")


class Render(BaseModel):
    shot: int
    token: str = ""


def an_app(world: World) -> Holdfast:
    app = Holdfast(world.url)

    @app.task("video.render", secrets=("token",))
    async def render(task: Task[Render]) -> None:
        """Nothing."""

    return app


@pytest.mark.catches("edit-loses-the-old-payload")
async def test_an_edited_task_has_its_new_payload_and_keeps_the_old_one(world: World) -> None:
    shift = shift_of(world, an_app(world).handlers)
    (task,) = await shift.fail(kind="video.render", payload={"shot": -1, "token": "sekret-9"})
    await shift.dead.edit(world.conn, task, '{"shot": 3, "token": "sekret-9"}', "the shot was wrong")
    claim = await world.claim_one()
    assert json.loads(claim.payload) == {"shot": 3, "token": "sekret-9"}
    (edit,) = await shift.dead.edits(world.conn, task)
    assert json.loads(edit.payload)["shot"] == -1
    assert (edit.edited_by, edit.reason) == ("ada", "the shot was wrong")
    told = await shift.audit.page(world.conn, EntryFilter(task=task))
    assert [entry.action for entry in told] == ["TASK_RETRY", "TASK_EDIT"]
    assert told[1].details == {"changed": ["shot"]}


async def test_a_payload_that_the_kind_does_not_take_is_refused(world: World) -> None:
    shift = shift_of(world, an_app(world).handlers)
    (task,) = await shift.fail(kind="video.render", payload={"shot": 1})
    with pytest.raises(BadPayload, match="shot"):
        await shift.dead.edit(world.conn, task, '{"shot": "many"}', "try")
    assert await world.state(task) is State.FAILED
    assert await shift.dead.edits(world.conn, task) == []


@pytest.mark.parametrize("kind", ["webhook.deliver", "webhook.publish", "holdfast.prune"])
@pytest.mark.catches("reserved-kinds-are-edited")
async def test_a_task_of_a_kind_of_holdfasts_own_cannot_be_edited(world: World, kind: str) -> None:
    shift = shift_of(world, Holdfast(world.url, webhooks=True).handlers)
    (task,) = await shift.fail(kind=kind, payload={"body": "as it was"})
    with pytest.raises(Misused, match="cannot be edited"):
        await shift.dead.edit(world.conn, task, '{"body": "forged"}', "try")
    assert await world.state(task) is State.FAILED


@pytest.mark.catches("edit-takes-any-size")
async def test_an_edited_payload_has_the_bounds_of_a_new_one(world: World) -> None:
    shift = shift_of(world, an_app(world).handlers)
    (task,) = await shift.fail(kind="video.render", payload={"shot": 1})
    with pytest.raises(PayloadTooLarge, match=r"the payload of a video\.render task has 300"):
        await shift.dead.edit(world.conn, task, json.dumps({"shot": 1, "token": "x" * 300_000}), "try")
    assert await world.state(task) is State.FAILED
    assert await shift.dead.edits(world.conn, task) == []


@pytest.mark.catches("edit-over-a-change")
async def test_a_task_that_went_back_to_work_meanwhile_is_not_edited(world: World) -> None:
    shift = shift_of(world, an_app(world).handlers)
    (task,) = await shift.fail(kind="video.render", payload={"shot": 1})
    await shift.dead.retry(world.conn, [task], "first")
    with pytest.raises(MoveRefused):
        await shift.dead.edit(world.conn, task, '{"shot": 2}', "second")
    assert json.loads((await world.claim_one()).payload) == {"shot": 1}


@pytest.mark.requirement("R3")
@pytest.mark.catches("forgets-the-living")
async def test_r3_a_forgotten_task_is_gone_and_the_audit_knows_what_it_was(shift: Shift) -> None:
    (task,) = await shift.fail(kind="mail.send", subject="order-1", key="k-1")
    alive = await shift.world.enqueue()
    assert await shift.dead.forget(shift.world.conn, [task, alive], "test data") == [task]
    with pytest.raises(TaskNotFound):
        await shift.world.show(task)
    assert await shift.world.state(alive) is State.QUEUED
    (entry,) = await shift.audit.page(shift.world.conn, EntryFilter(task=task))
    assert (entry.action, entry.kind, entry.subject) == ("TASK_FORGET", "mail.send", "order-1")
    assert any(isinstance(event, TasksForgotten) for event in shift.world.events)
    # Its key is free again.
    assert await shift.world.enqueue(kind="mail.send", key="k-1") != task
