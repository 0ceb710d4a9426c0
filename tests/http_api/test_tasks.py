"""Tasks over HTTP: enqueued, found, shown, operated; errors that say what to do."""

import asyncio
from typing import Any

import pytest

from holdfast.core.state import State
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api


@pytest.mark.requirement("T9", "T7")
@pytest.mark.catches("alias-of-subject-ignored")
async def test_t9_a_task_is_enqueued_listed_shown_and_cancelled(api: Api) -> None:
    made = await api.post(
        "/api/tasks", code=201, kind="mail.send", payload={"to": 3}, subject="episode-7", key="k"
    )
    assert made["created"]
    again = await api.post("/api/tasks", code=201, kind="mail.send", payload={"to": 3}, key="k")
    assert again == {"id": made["id"], "created": False}
    await api.post("/api/tasks", code=201, kind="mail.send", subject="episode-8")
    listed = await api.get("/api/tasks", episodeId="episode-7")
    assert [one["id"] for one in listed["items"]] == [made["id"]]
    shown = await api.get(f"/api/tasks/{made['id']}")
    assert (shown["state"], shown["idempotencyKey"]) == ("queued", "k")
    # No worker has said what is secret in this kind.
    assert (shown["payload"], shown["declared"]) == ({"to": "[redacted]"}, False)
    assert {"attemptCount", "maxAttempts", "nextAttemptAt", "lastAttemptAt", "leaseToken", "traceId"} <= set(
        shown
    )
    assert (await api.get(f"/api/tasks/{made['id']}/why"))[0]["cause"]
    done = await api.post(f"/api/tasks/{made['id']}/cancel", reason="not wanted")
    assert done == {"id": made["id"], "state": "cancelled"}
    assert await api.shift.world.state(made["id"]) is State.CANCELLED
    refused = await api.post(f"/api/tasks/{made['id']}/cancel", code=409, reason="again")
    assert "is cancelled" in refused["detail"]


@pytest.mark.requirement("T9", "T12")
@pytest.mark.catches("acts-of-nobody")
async def test_t9_a_task_that_failed_is_retried_by_somebody_and_for_a_reason(api: Api) -> None:
    (task,) = await api.shift.fail(message="provider answered 503")
    shown = await api.get(f"/api/tasks/{task}")
    assert shown["error"]["message"].endswith("provider answered 503")
    assert [one["endedAs"] for one in shown["attempts"]] == ["fail"]
    done = await api.post(f"/api/tasks/{task}/retry", reason="it is back")
    assert done == {"retried": [task], "refused": {}}
    again = await api.post(f"/api/tasks/{task}/retry", reason="it is back")
    assert again["refused"] == {task: "it is queued"}
    (entry, *_) = (await api.get("/api/tasks/audit-logs", taskId=task))["items"]
    assert (entry["action"], entry["actor"], entry["reason"]) == ("TASK_RETRY", "admin", "it is back")


async def test_pages_of_tasks_go_on_where_the_last_one_ended(api: Api) -> None:
    made = [await api.shift.world.enqueue() for _ in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = await api.get("/api/tasks", **query)
        seen += [one["id"] for one in page["items"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert seen == sorted(made, reverse=True)


async def test_a_payload_is_checked_by_its_kind_and_its_secrets_are_struck_out(api: Api) -> None:
    refused = await api.post("/api/tasks", code=422, kind="pay", payload={"card": 1})
    assert "card" in str(refused)
    made = await api.post("/api/tasks", code=201, kind="pay", payload={"card": "4111"})
    shown = await api.get(f"/api/tasks/{made['id']}")
    assert (shown["payload"], shown["declared"]) == ({"card": "[redacted]"}, True)


@pytest.mark.catches("answers-not-kept", "keys-for-anything")
async def test_the_same_key_is_one_effect_and_one_answer(api: Api) -> None:
    asks = [
        api.post("/api/tasks", code=201, once="once", kind="mail.send", payload={"n": 1}) for _ in range(8)
    ]
    answers = await asyncio.gather(*asks)
    assert len({answer["id"] for answer in answers}) == 1
    assert await api.shift.world.rows("tasks") == 1
    other = await api.post("/api/tasks", code=422, once="once", kind="mail.send", payload={"n": 2})
    assert "take a new one" in other["detail"]
    # What was refused was not done, and may be asked again.
    await api.post("/api/tasks", code=422, once="second", kind="", payload={})
    await api.post("/api/tasks", code=201, once="second", kind="mail.send", payload={})


@pytest.mark.parametrize(
    ("method", "path", "options", "code", "said"),
    [
        ("GET", "/api/tasks/nonsense", {}, 404, "does not exist"),
        ("GET", "/api/tasks?limit=0", {}, 422, "greater than or equal to 1"),
        ("GET", "/api/tasks?state=odd", {}, 422, "queued"),
        ("GET", "/api/nothing", {}, 404, "Not Found"),
        ("DELETE", "/api/tasks", {}, 405, "Method Not Allowed"),
        ("POST", "/api/tasks", {"content": b"{", "headers": {"content-type": "application/json"}}, 422, "J"),
        ("POST", "/api/tasks", {"json": {"kind": "x", "odd": 1}}, 422, "odd"),
        ("POST", "/api/tasks", {"json": {"kind": "x", "payload": "a" * 1_100_000}}, 413, "bytes"),
        ("POST", "/api/tasks", {"json": {"kind": "x", "payload": "a" * 300_000}}, 413, "limit"),
        ("POST", "/api/tasks", {"json": {"kind": "x", "payload": {"a": "\0"}}}, 422, "cannot"),
        ("POST", "/api/tasks", {"json": {"kind": "x", "queue": "holdfast"}}, 422, "Holdfast's own tasks"),
        ("GET", "/api/plans/nonsense", {}, 404, "plan"),
        ("GET", "/api/tasks/audit-logs?batchId=x", {}, 422, "no id"),
        ("GET", "/api/tasks/dead-letters?since=2026-01-01T00:00:00", {}, 422, "offset"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_in_a_problem_document(
    api: Api, method: str, path: str, options: dict[str, object], code: int, said: str
) -> None:
    headers = {"Authorization": f"Bearer {api.tokens[Role.ADMIN]}"} | options.pop("headers", {})  # type: ignore[operator]
    answer = await api.client.request(method, path, headers=headers, **options)  # type: ignore[arg-type]
    assert answer.status_code == code, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_what_is_nested_too_deep_is_refused(api: Api) -> None:
    deep: object = 1
    for _ in range(40):
        deep = [deep]
    assert "deep" in (await api.post("/api/tasks", code=422, kind="x", payload=deep))["detail"]


async def test_a_path_with_a_slash_too_many_is_not_found_and_leads_nowhere(api: Api) -> None:
    for path in ("/api/tasks/", "/api/groups/%2F"):
        await api.get(path, code=404)
