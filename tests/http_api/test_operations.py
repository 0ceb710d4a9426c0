"""Failures over HTTP: previewed, redriven, planned, audited; the same machine as on the command line."""

import csv
import io
import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from holdfast.core.state import State
from holdfast.http.application import create
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api


@pytest.mark.requirement("T10", "T12")
@pytest.mark.catches("batch-waits-for-a-worker")
async def test_t10_a_bulk_redrive_takes_what_it_names_and_leaves_exactly_its_entries(api: Api) -> None:
    ids = await api.shift.fail(4, kind="video.render", subject="episode-7")
    await api.shift.fail(2, kind="mail.send")
    world = api.shift.world
    queued = await world.enqueue()
    done = await api.post(
        "/api/tasks/dead-letters/retry", taskIds=[*ids[:2], queued], reason="the provider is back"
    )
    assert (done["matched"], done["retried"]) == (2, 2)
    assert [await world.state(task) for task in ids] == [State.QUEUED] * 2 + [State.FAILED] * 2
    actions = await api.shift.actions(done["batchId"])
    assert actions == ["PLAN_CREATE", "PLAN_START"] + ["TASK_RETRY_BATCH_ITEM"] * 2 + [
        "TASK_RETRY_BATCH_SUMMARY"
    ]
    logged = await api.get("/api/tasks/audit-logs", batchId=done["batchId"], auditActor="admin")
    assert logged["total"] == 5
    rest = await api.post(
        "/api/tasks/dead-letters/retry", episodeId="episode-7", jobKind="video.render", limit=1, reason="x"
    )
    assert (rest["matched"], rest["retried"]) == (1, 1)


@pytest.mark.requirement("T10", "T11")
@pytest.mark.catches("preview-pages-overlap", "dry-run-acts")
async def test_t11_a_preview_and_a_dry_run_do_nothing_and_pages_do_not_overlap(api: Api) -> None:
    ids = await api.shift.fail(5)
    before = len(await api.shift.actions())
    dry = await api.post("/api/tasks/dead-letters/retry", dryRun=True, taskIds=ids)
    assert (dry["matched"], dry["retried"], dry["batchId"]) == (5, 0, None)
    pages = [await api.get("/api/tasks/dead-letters/preview", page=n, pageSize=2) for n in (1, 2, 3)]
    seen = [one["id"] for page in pages for one in page["items"]]
    assert sorted(seen) == sorted(ids)
    assert len(set(seen)) == 5
    assert pages[0]["total"] == 5
    assert pages[0]["sorts"][0]["tasks"] == 5
    assert len(await api.shift.actions()) == before
    assert await api.shift.world.rows("plans") == 0


@pytest.mark.requirement("T9")
@pytest.mark.catches("board-without-acts")
async def test_t9_the_board_has_queues_failures_dead_letters_and_recent_acts(api: Api) -> None:
    (task,) = await api.shift.fail(kind="video.render")
    await api.shift.world.enqueue("mail.send")
    board = await api.get("/api/tasks/ops", role=Role.VIEWER)
    assert board["totals"]["failed"] == 1
    assert [one["id"] for one in board["latestFailures"]] == [task]
    assert [one["id"] for one in board["deadLetters"]] == [task]
    assert board["kinds"] == {"video.render": 1}
    assert board["queues"][0]["ready"] == 1
    assert {one["action"] for one in board["recentAuditLogs"]} == {"TOKEN_CREATE"}
    only: dict[str, Any] = {"jobKind": "video.render", "deadReason": "max_attempts_exceeded"}
    listed = await api.get("/api/tasks/dead-letters", **only)
    assert [one["id"] for one in listed["items"]] == [task]
    assert (await api.get("/api/tasks/dead-letters/statistics"))["byKind"] == {"video.render": 1}


async def test_a_plan_needs_two_people_above_the_threshold_and_for_every_flush(api: Api) -> None:
    await api.shift.fail(2)
    plan = await api.post(
        "/api/plans", code=201, role=Role.OPERATOR, action="forget", reason="post-mortem done"
    )
    assert plan["shownState"] == "awaiting approval"
    path = f"/api/plans/{plan['id']}"
    assert "needs the approval of a second person" in (await api.post(f"{path}/start", code=409))["detail"]
    # What forgets for good is an admin's to allow, whether it is one task or many.
    await api.post(f"{path}/approve", role=Role.OPERATOR, code=403)
    approved = await api.post(f"{path}/approve", role=Role.ADMIN, reason="looked at it")
    assert approved["approvedBy"] == "admin"
    assert (await api.post(f"{path}/start"))["plan"]["state"] == "running"
    assert (await api.post(f"{path}/pause", reason="wait"))["plan"]["state"] == "paused"
    assert (await api.post(f"{path}/resume"))["plan"]["state"] == "running"
    ended = await api.post(f"{path}/abort", reason="thought better of it")
    assert ended["plan"]["endedWhy"] == "thought better of it"
    assert [one["id"] for one in await api.get("/api/plans")] == [plan["id"]]
    assert (await api.get(path))["skips"] == {}


async def test_a_group_is_explained_and_spoken_of(api: Api) -> None:
    await api.shift.fail(2, message="codec 7 is unknown")
    (group,) = await api.get("/api/groups")
    path = f"/api/groups/{group['fingerprint']}"
    assert (await api.get(path))["group"]["dead"] == 2
    assert (await api.post(f"{path}/resolve", reason="fixed"))["group"]["state"] == "resolved"
    assert (await api.post(f"{path}/ignore", reason="known", hours=1))["group"]["state"] == "ignored"
    assert (await api.post(f"{path}/reopen", reason="no"))["group"]["state"] == "open"
    assert (await api.post(f"{path}/note", note="see the runbook"))["group"]["note"] == "see the runbook"


async def test_queues_kinds_and_a_dead_letter_s_payload_are_operated(api: Api) -> None:
    world = api.shift.world
    assert (await api.post("/api/queues/video/pause", reason="the provider is down"))["done"]
    (queue,) = [one for one in await api.get("/api/queues") if one["name"] == "video"]
    assert (queue["pausedBy"], queue["pauseReason"]) == ("admin", "the provider is down")
    assert (await api.post("/api/queues/video/resume"))["done"]
    assert not (await api.post("/api/queues/video/resume"))["done"]
    assert (await api.post("/api/kinds/mail.send/pause", reason="x"))["done"]
    assert (await api.post("/api/kinds/mail.send/resume"))["done"]
    task = await world.enqueue("pay", payload={"card": "1"})
    await api.shift.fail_again()
    edited = await api.post(f"/api/tasks/{task}/edit", payload={"card": "2"}, reason="typo")
    assert edited["state"] == "queued"
    assert json.loads((await world.claim_one()).payload) == {"card": "2"}
    (other,) = await api.shift.fail()
    assert (await api.post(f"/api/tasks/{other}/forget", code=422)) is not None
    assert (await api.post(f"/api/tasks/{other}/forget", reason="noise"))["forgotten"] == [other]
    for path in ("/api/workers", "/api/limits", "/api/schedules"):
        assert isinstance(await api.get(path), list)


@pytest.mark.requirement("T12")
@pytest.mark.catches("export-as-a-page")
async def test_t12_the_audit_is_exported_with_its_type_and_pruned_with_a_dry_run(api: Api) -> None:
    (task,) = await api.shift.fail(subject="=1+1")
    await api.post(f"/api/tasks/{task}/retry", reason="+cmd")
    headers = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
    path = "/api/tasks/audit-logs/export"
    text = await api.client.get(path, params={"format": "csv", "auditAction": "TASK_RETRY"}, headers=headers)
    assert text.headers["content-type"] == "text/csv; charset=utf-8"
    assert text.headers["content-disposition"] == 'attachment; filename="audit.csv"'
    (row,) = csv.DictReader(io.StringIO(text.text))
    assert (row["reason"], row["subject"]) == ("'+cmd", "'=1+1")
    lines = await api.client.get(path, params={"format": "jsonl"}, headers=headers)
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert json.loads(lines.text.splitlines()[0])["action"] == "TASK_RETRY"
    prune: dict[str, Any] = {"olderThanDays": 0, "auditAction": "TASK_RETRY", "reason": "test"}
    dry = await api.post("/api/tasks/audit-logs/prune", dryRun=True, **prune)
    assert dry == {"dryRun": True, "pruned": 0, "prunable": 1}, "not sealed yet, and sealed before it goes"
    done = await api.post("/api/tasks/audit-logs/prune", **prune)
    assert done == {"dryRun": False, "pruned": 1, "prunable": 0}
    left = await api.get("/api/tasks/audit-logs", auditAction="TASK_AUDIT_PRUNE_SUMMARY")
    assert left["total"] == 1


async def test_whether_it_is_there_and_ready_is_told_to_anybody(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await api.client.get(path)).json() == {"status": "ok"}


async def test_it_can_be_mounted_in_an_app_of_one_s_own(api: Api) -> None:
    outer = FastAPI()
    inner = create(api.shift.settings)
    outer.mount("/holdfast", inner)
    transport = httpx.ASGITransport(outer, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://api.test", headers=headers) as client:
        assert (await client.get("/holdfast/readyz")).json() == {"status": "ok"}
        assert (await client.get("/holdfast/api/me")).json()["role"] == "viewer"
    await inner.state.service.close()
