"""What the HTTP API adds to the audit: proven identities, log-ins, enqueues, publishes, refused tokens."""

import asyncio
from typing import Any

import httpx
import pytest

from holdfast.config import Settings
from holdfast.core.errors import TokenNameTaken
from holdfast.db.migrate import function_statements
from holdfast.http.application import create
from holdfast.http.identity import Auth
from holdfast.http.refusals import ENTRIES_MAX
from holdfast.ops.tokens import Role, Tokens
from tests.commands import document
from tests.http_api.conftest import APP, Api
from tests.served import api_process
from tests.world import World

REFUSED = f"hf_{'a' * 12}.{'b' * 43}"


async def entries(api: Api, action: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("/api/tasks/audit-logs", auditAction=action))["items"]
    return found


def id_of(api: Api, role: Role) -> str:
    return api.tokens[role].removeprefix("hf_").partition(".")[0]


@pytest.mark.catches("enqueue-unsaid")
async def test_enqueues_and_publishes_by_operators_are_recorded_with_their_token(api: Api) -> None:
    body = {"kind": "mail.send", "key": "k"}
    made = await api.post("/api/tasks", role=Role.OPERATOR, code=201, **body)
    again = await api.post("/api/tasks", role=Role.OPERATOR, code=201, **body)
    assert again == {"id": made["id"], "created": False}
    (entry,) = await entries(api, "TASK_ENQUEUE")
    assert (entry["taskId"], entry["kind"], entry["actor"]) == (made["id"], "mail.send", "operator")
    assert (entry["token"], entry["address"]) == (id_of(api, Role.OPERATOR), "127.0.0.1")
    await api.post("/api/webhooks/events", code=201, type="order.paid", data={"n": 1}, id="e1")
    (entry,) = await entries(api, "WEBHOOK_PUBLISH")
    assert entry["details"] == {"event": "e1", "type": "order.paid"}
    assert entry["token"] == id_of(api, Role.ADMIN)


@pytest.mark.usefixtures("command_line")
async def test_an_enqueue_by_command_is_recorded_with_its_name_and_login(api: Api) -> None:
    made = await document("task", "enqueue", "mail.send", "--by", "ada")
    (entry,) = await entries(api, "TASK_ENQUEUE")
    assert (entry["taskId"], entry["actor"], entry["token"]) == (made["id"], "ada", None)
    assert entry["login"]


@pytest.mark.catches("log-in-unsaid")
async def test_log_ins_and_log_outs_are_recorded(api: Api) -> None:
    begun = await api.client.post("/api/session", json={"token": api.tokens[Role.VIEWER]})
    assert begun.status_code == 201
    cookie = {"Cookie": begun.headers["set-cookie"].partition(";")[0]}
    assert (await api.client.request("DELETE", "/api/session", headers=cookie)).status_code == 204
    for action in ("SESSION_BEGIN", "SESSION_END"):
        (entry,) = await entries(api, action)
        assert (entry["actor"], entry["token"]) == ("viewer", id_of(api, Role.VIEWER))


@pytest.mark.catches("refused-tokens-forgotten")
async def test_refused_tokens_are_one_entry_when_the_process_leaves(world: World, url: str) -> None:
    environment = {"HOLDFAST_TEST_RECORD": "/dev/null"}
    async with (
        api_process(url, APP, environment=environment) as (address, process),
        httpx.AsyncClient(base_url=address) as client,
    ):
        for _ in range(3):
            answer = await client.get("/api/me", headers={"Authorization": f"Bearer {REFUSED}"})
            assert answer.status_code == 401
        assert (await client.post("/api/session", json={"token": REFUSED})).status_code == 401
        assert await world.rows("audit_log") == 0, "not within the request"
        process.terminate()
        await asyncio.to_thread(process.wait, 10)
    rows = await world.rows_of("audit_log", "action, actor, token, address, details")
    details = {"count": 4, "from": "127.0.0.1"}
    assert rows == [("TOKEN_REFUSED", "holdfast", "holdfast:api", "127.0.0.1", details)]


@pytest.mark.catches("refused-tokens-without-end")
async def test_refused_tokens_of_many_addresses_are_a_hundred_entries(api: Api) -> None:
    refusals = api.app.state.service.auth.refusals
    for number in range(1_000):
        refusals.count(f"192.0.2.{number}")
        refusals.count("192.0.2.0")
    await refusals.flush()
    rows = await api.shift.world.rows_of("audit_log where action = 'TOKEN_REFUSED'", "details")
    counts = [details["count"] for (details,) in rows]  # type: ignore[index]
    assert len(counts) == ENTRIES_MAX
    assert sum(counts) == 2_000
    assert counts[-1] == 1_000 - (ENTRIES_MAX - 1), "the last counts all further addresses"
    await refusals.flush()
    assert len(await entries(api, "TOKEN_REFUSED")) == 50, "a page of them; nothing was added"


async def test_a_prune_below_the_minimum_age_is_refused_with_that_age(api: Api) -> None:
    conn = api.shift.world.conn
    try:
        for statement in function_statements("holdfast", audit_prune_days_min=7):
            await conn.execute(statement)
        body: dict[str, Any] = {"olderThanDays": 6.9, "reason": "routine"}
        refused = await api.post("/api/tasks/audit-logs/prune", code=409, **body)
        assert "younger than 7 days cannot be pruned" in refused["detail"]
        await api.post("/api/tasks/audit-logs/prune", olderThanDays=7, reason="routine")
    finally:
        for statement in function_statements("holdfast", audit_prune_days_min=0):
            await conn.execute(statement)


async def test_without_authentication_all_requests_are_one_identity(api: Api) -> None:
    await api.shift.fail(1)
    app = create(api.shift.settings, auth=Auth.NONE)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        body = {"action": "forget", "reason": "post-mortem done"}
        plan = (await client.post("/api/plans", json=body)).json()
        assert (plan["createdBy"], plan["createdToken"]) == ("anybody", None)
        path = f"/api/plans/{plan['id']}/approve"
        assert (await client.post(path, json={})).status_code == 409
    await app.state.service.close()
    approved = await api.post(path, role=Role.ADMIN, reason="looked at it")
    assert approved["approvedToken"] == id_of(api, Role.ADMIN)


async def test_a_name_stands_for_one_token_that_is_not_revoked(world: World) -> None:
    tokens = Tokens(Settings(database_url=world.url), by="test")
    first = await tokens.create(world.conn, "ada", Role.ADMIN, None)
    with pytest.raises(TokenNameTaken, match=rf"token {first.id} is named ada and is not revoked"):
        await tokens.create(world.conn, "ada", Role.VIEWER, None)
    await tokens.revoke(world.conn, first.id)
    assert (await tokens.create(world.conn, "ada", Role.VIEWER, None)).id != first.id
