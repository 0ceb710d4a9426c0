"""Workers in other languages: what they may, what they are told, and what becomes of what they hold."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import Misused
from holdfast.core.limit import Limit, Scope
from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.ops.tokens import Role, Tokens, WorkerScope
from holdfast.store.kinds import Declarations
from holdfast.store.limits import Limits
from holdfast.store.operate import Operator
from tests.http_api.conftest import Api


async def entered(api: Api, *kinds: str, code: int = 201, **more: Any) -> str:
    said = await api.post(
        "/api/workers", role=Role.WORKER, code=code, name="w", kinds=kinds or ["render"], **more
    )
    return str(said["worker"]) if code == 201 else str(said["detail"])


async def claimed(api: Api, worker: str, *holding: Any, limit: int = 10) -> list[Any]:
    held = [{"id": task["id"], "leaseToken": task["leaseToken"]} for task in holding]
    said = await api.post(f"/api/workers/{worker}/claim", role=Role.WORKER, holding=held, limit=limit)
    tasks: list[Any] = said["tasks"]
    return tasks


async def reported(api: Api, worker: str, task: Any, outcome: str, status: int = 200, **more: Any) -> Any:
    said = {"worker": worker, "leaseToken": task["leaseToken"], "outcome": outcome, **more}
    return await api.ask("POST", f"/api/tasks/{task['id']}/report", role=Role.WORKER, code=status, json=said)


@pytest.mark.requirement("T7", "T9", "B9")
@pytest.mark.catches("report-by-anybody", "report-twice-late")
async def test_t9_an_outside_worker_enters_claims_reports_and_leaves(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("render", payload={"page": 7})
    worker = await entered(api, secrets={"render": ["page"]})
    (task,) = await claimed(api, worker)
    assert (task["id"], task["payload"], task["attempt"]) == (task_id, {"page": 7}, 1)
    shown = await api.get(f"/api/tasks/{task_id}")
    assert (shown["state"], shown["leaseToken"], shown["worker"]) == ("running", task["leaseToken"], worker)
    left = datetime.fromisoformat(shown["leaseExpiresAt"]) - datetime.now(UTC)
    assert timedelta(seconds=40) < left < timedelta(seconds=61)
    assert (await api.post(f"/api/workers/{worker}/heartbeat", role=Role.WORKER))["cancels"] == []

    # In nobody else's name, though the number is right.
    await reported(api, await entered(api), task, "complete", status=409)
    assert await world.state(task_id) is State.RUNNING
    assert (await reported(api, worker, task, "complete", result={"url": "x"}))["endedAs"] == "complete"
    # The answer was lost: it is told again, and nothing happens twice.
    assert (await reported(api, worker, task, "complete"))["endedAs"] == "complete"
    shown = await api.get(f"/api/tasks/{task_id}")
    assert (shown["result"], shown["payload"]) == ({"url": "[redacted]"}, {"page": "[redacted]"})
    await reported(api, worker, task, "fail", status=409)

    assert await api.post(f"/api/workers/{worker}/leave", role=Role.WORKER) == {"released": 0}
    await api.post(f"/api/workers/{worker}/claim", role=Role.WORKER, code=404, holding=[])


@pytest.mark.catches("outside-lease-ends-by-itself")
async def test_a_worker_that_beats_before_it_is_declared_lost_keeps_its_tasks(api: Api) -> None:
    """Its lease may have ended only because the database's clock was set forward."""
    world = api.shift.world
    await world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await world.lapse(worker)
    await api.post(f"/api/workers/{worker}/heartbeat", role=Role.WORKER)
    await world.reclaim(world.conn)
    assert (await reported(api, worker, task, "complete"))["endedAs"] == "complete"


@pytest.mark.requirement("O1", "B9")
@pytest.mark.catches("outside-lease-for-ever", "late-report-in-silence")
async def test_a_silent_worker_loses_its_tasks_and_its_late_report_is_refused_and_recorded(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await world.lapse(worker)
    await world.reclaim(world.conn)
    await api.post(f"/api/workers/{worker}/heartbeat", role=Role.WORKER, code=404)
    said = await reported(api, worker, task, "complete", status=409)
    assert "was not taken" in said["detail"]
    assert "late" in await world.attempts(task_id)

    other = await entered(api)
    (again,) = await claimed(api, other)
    assert again["id"] == task_id
    assert again["leaseToken"] > task["leaseToken"]
    await reported(api, worker, task, "complete", status=409)
    await reported(api, worker, again, "complete", status=409)
    assert (await reported(api, other, again, "complete"))["endedAs"] == "complete"


@pytest.mark.catches("anybodys-worker")
async def test_a_worker_is_spoken_for_by_its_own_token_alone(api: Api) -> None:
    world = api.shift.world
    await world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    stranger = await Tokens(api.shift.settings, by="test").create(world.conn, "x", Role.WORKER, None)
    api.tokens[Role.WORKER] = stranger.token
    for path in ("claim", "heartbeat", "leave"):
        await api.post(f"/api/workers/{worker}/{path}", role=Role.WORKER, code=404, holding=[])
    await reported(api, worker, task, "complete", status=404)
    # Nor may it speak for a worker that is a process of ours.
    await reported(api, world.worker, task, "complete", status=404)
    assert await world.state(task["id"]) is State.RUNNING


@pytest.mark.catches("lost-claims-stay")
async def test_what_an_answer_lost_on_its_way_goes_back_with_the_next_claim(api: Api) -> None:
    world = api.shift.world
    ids = {await world.enqueue("render") for _ in range(3)}
    worker = await entered(api)
    first, *lost = await claimed(api, worker)
    # They are back as soon as this is known, and so there for the next one who asks.
    assert await claimed(api, worker, first) == []
    again = await claimed(api, worker, first)
    assert {task["id"] for task in again} == {task["id"] for task in lost}
    assert {task["attempt"] for task in again} == {1}
    assert {first["id"], *(task["id"] for task in again)} == ids
    # The old numbers are worth nothing.
    await reported(api, worker, lost[0], "complete", status=409)


@pytest.mark.requirement("T4")
@pytest.mark.catches("outside-permits-leak", "outside-permits-lost")
async def test_t4_limits_count_outside_workers_and_what_they_end_frees_at_once(api: Api) -> None:
    world = api.shift.world
    await Limits(api.shift.settings, by="test").set(world.conn, Scope.KIND, "render", Limit(running=2))
    for _ in range(6):
        await world.enqueue("render")
    workers = [await entered(api), await entered(api)]
    most = ended = 0
    while ended < 6:
        held = [(worker, task) for worker in workers for task in await claimed(api, worker)]
        assert held, "nobody holds a permit, and nobody gets one"
        most = max(most, len(held))
        for worker, task in held:
            await reported(api, worker, task, "complete")
            ended += 1
    assert most == 2
    assert await world.rows("permits") == 0


@pytest.mark.catches("outside-permits-lost")
async def test_a_slot_is_kept_for_what_is_still_held(api: Api) -> None:
    world = api.shift.world
    await Limits(api.shift.settings, by="test").set(world.conn, Scope.KIND, "render", Limit(running=2))
    for _ in range(4):
        await world.enqueue("render")
    worker = await entered(api)
    first, second = await claimed(api, worker)
    await reported(api, worker, first, "complete")
    assert len(await claimed(api, worker, second)) == 1
    assert len(await claimed(api, await entered(api))) == 0


async def test_a_kind_that_it_does_not_know_steps_aside_and_what_expired_ends(api: Api) -> None:
    world = api.shift.world
    strange = await world.enqueue("mail")
    past = datetime.now(UTC) - timedelta(seconds=1)
    (old,) = await world.store.enqueue_many(world.conn, [NewTask("render", expires_at=past)])
    worker = await entered(api)
    assert await claimed(api, worker) == []
    assert await world.state(strange) is State.QUEUED
    assert await world.state(old.id) is State.CANCELLED
    mine = await world.enqueue("render")
    assert [task["id"] for task in await claimed(api, worker)] == [mine]


@pytest.mark.requirement("T6", "T8")
@pytest.mark.catches("report-twice-late", "reported-codes-forgotten")
@pytest.mark.parametrize(
    ("outcome", "more", "state", "ended_as"),
    [
        ("retry", {"reason": "the disk is full", "afterSeconds": 60}, "scheduled", "retry"),
        ("timeout", {"reason": "no answer"}, "scheduled", "retry"),
        ("rate_limited", {"reason": "slow down", "afterSeconds": 60}, "scheduled", "retry"),
        ("fail", {"reason": "no such page", "code": "TASK_ENTITY_NOT_FOUND"}, "failed", "fail"),
        ("snooze", {"afterSeconds": 60, "progress": 40}, "scheduled", "snooze"),
        ("cancel", {"reason": "not wanted"}, "cancelled", "cancel"),
        ("release", {}, "queued", "release"),
    ],
)
async def test_t6_every_outcome_is_judged_as_a_handler_s_is(
    api: Api, outcome: str, more: dict[str, Any], state: str, ended_as: str
) -> None:
    task_id = await api.shift.world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    assert (await reported(api, worker, task, outcome, **more))["endedAs"] == ended_as
    shown = await api.get(f"/api/tasks/{task_id}")
    assert shown["state"] == state
    # Told again after a lost answer.
    assert (await reported(api, worker, task, outcome, **more))["endedAs"] == ended_as
    if outcome == "fail":
        assert (shown["deadReason"], shown["error"]["code"]) == ("non_retryable", "TASK_ENTITY_NOT_FOUND")


async def test_a_cancel_is_heard_with_the_next_beat_and_a_task_does_not_come_back(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await Operator(api.shift.settings, by="ada").cancel(world.conn, task_id, "wrong page")
    (stop,) = (await api.post(f"/api/workers/{worker}/heartbeat", role=Role.WORKER))["cancels"]
    assert stop == {"id": task_id, "leaseToken": task["leaseToken"], "reason": "wrong page"}
    await reported(api, worker, task, "retry", reason="stopped")
    assert await world.state(task_id) is State.CANCELLED


async def test_wrong_words_are_refused_and_nothing_is_entered(api: Api) -> None:
    world = api.shift.world
    before = await world.rows("workers")
    assert "own tasks" in await entered(api, code=422, queues=["holdfast"])
    await entered(api, code=422, leaseSeconds=1)
    await api.post("/api/workers/nonsense/claim", role=Role.WORKER, code=404, holding=[])
    await api.post(f"/api/workers/{world.worker}/claim", role=Role.WORKER, code=422)
    assert await world.rows("workers") == before


@pytest.mark.catches("scope-not-looked-at")
async def test_a_token_of_workers_is_for_its_queues_and_kinds_alone(api: Api) -> None:
    known = Tokens(api.shift.settings, by="test")
    scope = WorkerScope(queues=["video"], kinds=["render", "encode"])
    token = await known.create(api.shift.world.conn, "video workers", Role.WORKER, None, scope)
    api.tokens[Role.WORKER] = token.token
    refused = await entered(api, "render", queues=["default"], code=403)
    assert refused == "this token is not for the queue default: it is for video"
    refused = await entered(api, "render", "refund", queues=["video"], code=403)
    assert refused == "this token is not for the kind refund: it is for render, encode"
    assert "default" in await entered(api, "render", code=403), "the queue that is meant where none is named"
    await api.shift.world.enqueue("render", queue="video")
    worker = await entered(api, "render", "encode", queues=["video"])
    assert [task["kind"] for task in await claimed(api, worker)] == ["render"]
    (listed,) = [one for one in await known.list(api.shift.world.conn) if one.name == "video workers"]
    assert (listed.queues, listed.kinds) == (["video"], ["render", "encode"])


async def test_only_a_token_of_workers_has_a_scope(api: Api) -> None:
    with pytest.raises(Misused, match="only a token of workers is limited to queues and kinds"):
        await Tokens(api.shift.settings, by="test").create(
            api.shift.world.conn, "x", Role.VIEWER, None, WorkerScope(kinds=["render"])
        )


@pytest.mark.parametrize(
    ("name", "scope", "message"),
    [
        ("x", WorkerScope(kinds=["render", "webhook.deliver"]), "kinds that begin with webhook"),
        ("x", WorkerScope(kinds=["holdfast.plan"]), "kinds that begin with holdfast"),
        ("x", WorkerScope(kinds=[" "]), "needs a kind that is not blank"),
        ("x", WorkerScope(queues=[""]), "needs a queue that is not blank"),
        ("\t ", WorkerScope(), "needs a name that is not blank"),
    ],
)
async def test_a_token_that_nobody_could_use_is_refused(
    api: Api, name: str, scope: WorkerScope, message: str
) -> None:
    with pytest.raises(Misused, match=message):
        await Tokens(api.shift.settings, by="test").create(
            api.shift.world.conn, name, Role.WORKER, None, scope
        )


@pytest.mark.parametrize("kind", ["webhook.deliver", "holdfast.plan"])
async def test_tasks_of_our_own_kinds_are_for_our_own_workers(api: Api, kind: str) -> None:
    assert await entered(api, kind, code=422) == f"tasks of kind {kind} are run by Holdfast's own workers"


@pytest.mark.parametrize("kind", ["webhook.publish", "webhook.deliver", "holdfast.plan"])
async def test_an_operator_cannot_enqueue_our_own_kinds(api: Api, kind: str) -> None:
    said = await api.post("/api/tasks", role=Role.OPERATOR, code=422, kind=kind)
    assert f"'{kind}' cannot be enqueued" in said["detail"]


async def test_secrets_are_declared_only_of_kinds_that_the_worker_serves(api: Api) -> None:
    said = await entered(api, "render", code=422, secrets={"pay": [], "render": []})
    assert said == "secrets names pay, which this worker does not serve"
    assert await api.shift.world.rows("kinds") == 0


@pytest.mark.catches("undeclared-payload-in-messages")
async def test_what_is_said_of_a_kind_that_nobody_declared_is_kept_without_its_payload(api: Api) -> None:
    task_id = await api.shift.world.enqueue("render", payload={"iban": "DE89-3704"})
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await reported(api, worker, task, "fail", reason="no account DE89-3704 there", code="NO_ACCOUNT")
    error = (await api.get(f"/api/tasks/{task_id}"))["error"]
    assert (error["code"], error["message"]) == ("NO_ACCOUNT", "no account [redacted] there")


@pytest.mark.catches("outside-messages-keep-secrets")
async def test_what_is_said_of_a_declared_kind_is_kept_without_its_secret_fields(api: Api) -> None:
    world = api.shift.world
    await Declarations(world.store.settings).declare_secrets(world.conn, "default", {"render": ["iban"]})
    task_id = await world.enqueue("render", payload={"iban": "DE89-3704", "city": "Paderborn"})
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await reported(api, worker, task, "fail", reason="no account DE89-3704 in Paderborn")
    error = (await api.get(f"/api/tasks/{task_id}"))["error"]
    assert error["message"] == "no account [redacted] in Paderborn"
