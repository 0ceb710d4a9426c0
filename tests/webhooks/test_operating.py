"""What people do about deliveries: endpoints, keys, the log, sending again; by command and over HTTP."""

import asyncio
import json
import os
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from holdfast.core.errors import EndpointNotFound, Misused
from holdfast.core.task import RESERVED_QUEUE
from holdfast.db.connect import connect
from holdfast.db.migrate import grants
from holdfast.ops.tokens import Role
from holdfast.webhooks.endpoints import NewEndpoint
from holdfast.webhooks.resend import Resend
from holdfast.webhooks.signing import new_secret
from tests.commands import document, run, typed
from tests.http_api.conftest import Api
from tests.http_api.conftest import api as api
from tests.webhooks.conftest import Hooks
from tests.webhooks.receivers import answered, receiver

URL = "https://hooks.example.com/a"


async def audited(hooks: Hooks) -> list[str]:
    found = await hooks.conn.execute(
        "select action from holdfast.audit_log where action like 'WEBHOOK%' or action like '%RETRY%'"
        " order by chunk, place"
    )
    return [action for (action,) in await found.fetchall()]


@pytest.mark.catches("resent-under-another-id")
async def test_what_was_delivered_is_sent_again_under_its_own_id(hooks: Hooks) -> None:
    resend = Resend(hooks.app.settings, hooks.app.handlers, by="ada")
    async with receiver() as server:
        await hooks.endpoint(server.url())
        (first,) = await hooks.delivered()
        again = await resend.one(hooks.conn, first.task.id, "they lost it")
        assert again != first.task.id
        await hooks.bench.drain()
        ids = [request.headers["webhook-id"] for request in server.requests]
        assert (len(ids), len(set(ids))) == (2, 1)
        assert server.requests[0].body == server.requests[1].body
    assert (await audited(hooks))[-1:] == ["WEBHOOK_RESEND"]


async def test_what_failed_is_sent_again_as_the_dead_letter_that_it_is(hooks: Hooks) -> None:
    resend = Resend(hooks.app.settings, hooks.app.handlers, by="ada")
    async with receiver(answered(410), answered(200)) as server:
        endpoint = await hooks.endpoint(server.url())
        dead, *_ = await hooks.delivered()
        await hooks.endpoints.enable(hooks.conn, endpoint.endpoint.id, "they are back")
        await hooks.look_anew()
        assert await resend.one(hooks.conn, dead.task.id, "they are back") == dead.task.id
        with pytest.raises(Misused, match="has not ended"):
            await resend.one(hooks.conn, dead.task.id, "twice")
        (sent,) = await hooks.bench.drain()
        assert (sent.state, len(server.requests)) == ("completed", 2)
    assert "TASK_RETRY" in await audited(hooks)


async def test_since_a_moment_what_failed_goes_by_a_plan_and_the_rest_if_asked_for(hooks: Hooks) -> None:
    resend = Resend(hooks.app.settings, hooks.app.handlers, by="ada")
    async with receiver(answered(200), answered(200), answered(410), answered(200)) as server:
        endpoint = await hooks.endpoint(server.url())
        for _ in range(3):
            await hooks.delivered()
        await hooks.endpoints.enable(hooks.conn, endpoint.endpoint.id, "they are back")
        await hooks.look_anew()
        hour = datetime.now(UTC) - timedelta(hours=1)
        sent = await resend.since(hooks.conn, endpoint.endpoint.id, hour, "they lost a day", delivered=True)
        assert sent.plan is not None
        assert (sent.plan.items, sent.plan.state, sent.delivered) == (1, "running", 2)
        await hooks.bench.run_next(queues=[RESERVED_QUEUE])
        await hooks.bench.drain()
        assert len(server.requests) == 6
        nothing = await resend.since(hooks.conn, endpoint.endpoint.id, datetime.now(UTC), "nothing")
        assert (nothing.plan, nothing.delivered) == (None, 0)
    actions = await audited(hooks)
    assert {"TASK_RETRY_BATCH_ITEM", "WEBHOOK_RESEND"} <= set(actions)


async def test_a_task_of_another_sort_is_no_delivery(hooks: Hooks) -> None:
    await hooks.app.webhooks.publish("a.b", {})
    (task,) = await hooks.bench.enqueued()
    resend = Resend(hooks.app.settings, hooks.app.handlers, by="ada")
    with pytest.raises(Misused, match=r"is a webhook\.publish"):
        await resend.one(hooks.conn, task.id, "x")


async def test_what_was_too_large_to_be_kept_is_said_to_be(hooks: Hooks) -> None:
    resend = Resend(hooks.app.settings, hooks.app.handlers, by="ada")
    async with receiver() as server:
        endpoint = await hooks.endpoint(server.url())
        (small,) = await hooks.delivered()
        (large,) = await hooks.delivered("a.b", {"x": random.Random(1).randbytes(5_000).hex()})
        with pytest.raises(Misused, match="was not kept"):
            await resend.one(hooks.conn, large.task.id, "x")
        hour = datetime.now(UTC) - timedelta(hours=1)
        sent = await resend.since(hooks.conn, endpoint.endpoint.id, hour, "x", delivered=True)
        assert (sent.delivered, sent.not_kept, small.state) == (1, 1, "completed")


@pytest.mark.usefixtures("command_line")
async def test_endpoints_by_command(hooks: Hooks) -> None:
    made = await document("webhook", "create", URL, "--event", "render.*", "--by", "ada")
    endpoint, secret = made["endpoint"]["id"], made["secret"]
    assert secret.startswith("whsec_")
    with pytest.raises(EndpointNotFound, match="there is no endpoint"):
        await run("webhook", "show", "nonsense")
    with pytest.raises(Misused, match="begins with https"):
        await run("webhook", "create", "http://example.com")
    shown = await run("webhook", "show", endpoint)
    assert URL in shown
    assert secret not in shown + await run("webhook", "list", "--json")
    hidden = ("--url", f"{URL}/b?token=t")
    for arguments in (("change", endpoint, *hidden), ("show", endpoint), ("list",)):
        assert f"{URL}/[redacted]?[redacted]" in await run("webhook", *arguments)
    assert "say why: --reveal needs --reason" in await run("webhook", "show", endpoint, "--reveal", code=2)
    assert hidden[1] in await run("webhook", "show", endpoint, "--reveal", "--reason", "a dispute")
    rotated = await document("webhook", "rotate", endpoint, "--hours", "1")
    assert (rotated["secret"] != secret, len(rotated["endpoint"]["keys"])) == (True, 2)
    assert "events       all" in await run("webhook", "change", endpoint, "--all-events")
    assert "is disabled" in await run("webhook", "disable", endpoint, "--reason", "noisy")
    assert "was disabled already" in await run("webhook", "disable", endpoint, "--reason", "noisy")
    assert "is enabled" in await run("webhook", "enable", endpoint, "--reason", "quiet")
    assert "nothing was sent" in await run("webhook", "log", endpoint)
    assert "give an endpoint" in await run("webhook", "log", code=2)
    assert "give --delivery" in await run("webhook", "resend", "--reason", "x", code=2)
    assert "nothing had failed" in await run(
        "webhook", "resend", "--endpoint", endpoint, "--hours", "1", "--reason", "x"
    )
    assert "add --yes" in await run("webhook", "remove", endpoint, "--reason", "gone", code=1)
    assert "is removed" in await run("webhook", "remove", endpoint, "--reason", "gone", "--yes")
    assert await audited(hooks) == [
        "WEBHOOK_CREATE", "WEBHOOK_CHANGE", "WEBHOOK_REVEAL", "WEBHOOK_ROTATE", "WEBHOOK_CHANGE",
        "WEBHOOK_DISABLE", "WEBHOOK_ENABLE", "WEBHOOK_REMOVE",
    ]  # fmt: skip


@pytest.mark.catches("secrets-shown-again")
async def test_endpoints_over_http(api: Api, hooks: Hooks) -> None:
    made = await api.post("/api/webhooks/endpoints", code=201, once="first", url=URL, events=["a.b"])
    again = await api.post("/api/webhooks/endpoints", code=201, once="first", url=URL, events=["a.b"])
    assert (again["endpoint"], again["secret"]) == (made["endpoint"], None)
    endpoint, secret = made["endpoint"]["id"], made["secret"]
    path = f"/api/webhooks/endpoints/{endpoint}"
    assert (await api.get(path, role=Role.VIEWER))["state"] == "active"
    assert secret not in str(await api.get("/api/webhooks/endpoints", role=Role.VIEWER))
    assert (
        "begins with https" in (await api.post("/api/webhooks/endpoints", code=422, url="ftp://x"))["detail"]
    )
    # Only admins see a URL whole, and no answer that may be kept has it.
    assert (await api.post(f"{path}/change", url=f"{URL}/b?token=t"))["url"] == f"{URL}/[redacted]?[redacted]"
    for role, url in ((Role.ADMIN, f"{URL}/b?token=t"), (Role.OPERATOR, f"{URL}/[redacted]?[redacted]")):
        assert (await api.get(path, role=role))["url"] == url
        assert [one["url"] for one in await api.get("/api/webhooks/endpoints", role=role)] == [url]
    assert len((await api.post(f"{path}/rotate"))["endpoint"]["keys"]) == 2
    assert await api.post(f"{path}/disable", reason="x", role=Role.OPERATOR) == {"changed": True}
    assert (await api.get(path))["state"] == "disabled"
    event = await api.post("/api/webhooks/events", code=201, type="a.b", data={"n": 1}, id="order-7")
    assert event == {"id": "order-7"}
    _, delivery = await hooks.bench.drain()
    assert delivery.task.error is not None
    assert await api.get(f"{path}/attempts") == []
    assert await api.get(f"/api/webhooks/deliveries/{delivery.task.id}/attempts") == []
    hour = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    refused = await api.post(f"{path}/resend", code=422, since=hour, reason="x", role=Role.OPERATOR)
    assert "enable it first" in refused["detail"]
    assert await api.post(f"{path}/enable", reason="x", role=Role.OPERATOR) == {"changed": True}
    sent = await api.post(f"{path}/resend", since=hour, reason="x", role=Role.OPERATOR)
    assert (sent["plan"]["items"], sent["delivered"]) == (1, 0)
    assert await api.post(f"{path}/remove", reason="x") == {"changed": True}
    assert "there is no endpoint" in (await api.get(path, code=404))["detail"]


async def test_the_log_of_an_endpoint_is_paged(api: Api, hooks: Hooks) -> None:
    async with receiver(answered(200), answered(500)) as server:
        endpoint = await hooks.endpoint(server.url())
        for _ in range(3):
            await hooks.delivered()
    path = f"/api/webhooks/endpoints/{endpoint.endpoint.id}/attempts"
    latest, middle = await api.get(path, limit=2)
    (first,) = await api.get(path, before=middle["at"])
    assert [one["status"] for one in (latest, middle, first)] == [500, 500, 200]
    assert len(await api.get(path, failed=True)) == 2
    assert first["delivered"] is True
    assert first["keys"] == list(endpoint.endpoint.keys)


@pytest.mark.catches("api-reads-secrets")
async def test_the_api_sets_secrets_and_cannot_read_them_and_a_worker_can(
    hooks: Hooks, direct_url: str
) -> None:
    known = hooks.endpoints
    async with await connect(direct_url) as conn:
        await conn.execute(grants("holdfast"))
        await conn.execute("set role holdfast_api")
        endpoint = (await known.create(conn, NewEndpoint(URL))).endpoint.id
        await known.rotate(conn, endpoint)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await known.target(conn, endpoint)
        await conn.execute("set role holdfast_worker")
        target = await known.target(conn, endpoint)
        assert target is not None
        assert len(target.keys) == 2
        await known.failed(conn, endpoint, probe=False)
        await known.recovered(conn, endpoint)
        assert await known.disable(conn, endpoint, "gone")


async def test_a_signing_key_need_not_stand_on_the_command_line(hooks: Hooks, url: str) -> None:
    key = new_secret()
    plain = await typed(url, "webhook", "create", URL, "--secret", key, "--json")
    assert "a secret on the command line is shown by ps" in plain.stderr
    assert json.loads(plain.stdout)["secret"] == key
    piped = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "holdfast", "webhook", "create", URL, "--secret", "-", "--json"],
        env=os.environ | {"HOLDFAST_DATABASE_URL": url},
        input=f"{key}\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (json.loads(piped.stdout)["secret"], piped.stderr) == (key, "")
    named = await typed(url, "webhook", "create", URL, "--json", HOLDFAST_WEBHOOK_SECRET=key)
    assert (json.loads(named.stdout)["secret"], named.stderr) == (key, "")
