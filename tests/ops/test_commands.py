"""The operator's command line: what each command shows, its JSON, its exit code, and what it refuses."""

import json
import os
import socket
from pathlib import Path

import pytest

from holdfast.cli.output import me
from holdfast.core.errors import Misused, PlanRefused
from tests.commands import document, run
from tests.ops.conftest import Shift

APP = "tests.apps:app"
pytestmark = pytest.mark.usefixtures("command_line")


async def test_dead_letters_are_listed_shown_counted_and_retried(shift: Shift) -> None:
    (task,) = await shift.fail(message="no such episode", kind="video.render", subject="episode-7")
    assert [one["id"] for one in await document("dead", "list", "--subject", "episode-7")] == [task]
    assert await document("dead", "list", "--subject", "episode-8") == []
    assert "no such episode" in await run("dead", "list")
    assert (await document("dead", "stats"))["by_kind"] == {"video.render": 1}
    assert "1 dead letters" in await run("dead", "stats")
    shown = await run("dead", "show", task)
    assert "TASK_EXECUTION_FAILED (transient)" in shown
    assert "nobody has done anything to it" in shown
    done = await document("dead", "retry", task, "--reason", "fixed", "--by", "ada")
    assert done == {"retried": [task], "refused": {}}
    again = await run("dead", "retry", task, "--reason", "fixed", code=1)
    assert "it is queued" in again
    assert "TASK_RETRY" in await run("dead", "show", task)


async def test_a_dead_letter_is_edited_and_forgotten(shift: Shift, tmp_path: Path) -> None:
    (task,) = await shift.fail(kind="poll", payload={"times": 1})
    wrong = await run("dead", "edit", task, "--payload", "{", "--reason", "x", "--app", APP, code=2)
    assert "it is not JSON" in wrong
    file = tmp_path / "payload"
    file.write_text('{"times": 2}')
    said = await run("dead", "edit", task, "--file", str(file), "--reason", "typo", "--app", APP)
    assert "has its new payload" in said
    assert json.loads((await shift.world.claim_one()).payload) == {"times": 2}
    (other,) = await shift.fail()
    unsure = await run("dead", "forget", other, "--reason", "noise", code=1)
    assert "cannot be taken back: add --yes" in unsure
    assert await document("dead", "forget", other, "--reason", "noise", "--yes") == {"forgotten": [other]}
    assert await run("dead", "list") == "no dead letter is like that\n"


async def test_what_names_nothing_is_said_and_nothing_is_made(shift: Shift) -> None:
    assert "nosuch is not an id" in await run("audit", "list", "--batch", "nosuch", code=2)
    assert "nosuch is not an id" in await run("audit", "export", "--task", "nosuch", code=2)
    with pytest.raises(Misused, match="no dead letter is like that"):
        await run("redrive", "plan", "--group", "nosuch", "--reason", "x", "--start")
    assert await document("redrive", "list") == []
    assert await shift.world.rows("audit_log") == 0
    with pytest.raises(Misused, match="a task needs a kind"):
        await run("task", "enqueue", "")
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(Misused, match="cannot be listened to"),
    ):
        await run("api", "--port", str(taken.getsockname()[1]))


async def test_a_plan_from_its_preview_to_its_end(shift: Shift) -> None:
    await shift.fail(3, kind="mail.send")
    seen = await run("redrive", "preview", "--kind", "mail.send")
    assert "3 tasks would be redriven" in seen
    assert "guards of mail.send are asked when it runs" in seen
    assert "3 tasks would" in await run("redrive", "plan", "--reason", "x", "--dry-run")
    assert await shift.world.rows("plans") == 0
    made = await document("redrive", "plan", "--reason", "fixed", "--by", "ada", "--canary", "1")
    plan = made["plan"]["id"]
    assert (made["state"], made["plan"]["items"]) == ("frozen", 3)
    assert "drifted" not in await run("redrive", "show", plan)
    assert "is running: 3 items" in await run("redrive", "start", plan, "--by", "ada")
    with pytest.raises(PlanRefused, match="ada started it"):
        await run("redrive", "start", plan, "--by", "bob")
    assert "is paused" in await run("redrive", "pause", plan, "--reason", "wait")
    assert "goes on" in await run("redrive", "resume", plan)
    await shift.driver.drive(shift.world.conn, plan)
    await shift.succeed()
    await shift.driver.drive(shift.world.conn, plan)
    await shift.succeed()
    await shift.driver.drive(shift.world.conn, plan)
    shown = await run("redrive", "show", plan, "--watch")
    assert "sent     3 of 3, 0 skipped" in shown
    assert "3 succeeded" in shown
    assert "finished" in await run("redrive", "list")
    entries = await document("audit", "list", "--batch", plan)
    assert entries[0]["action"] == "TASK_RETRY_BATCH_SUMMARY"
    assert entries[0]["details"]["done"] == 3


async def test_a_flush_is_asked_for_by_one_and_approved_by_another(shift: Shift) -> None:
    await shift.fail(1)
    made = await document("dead", "flush", "--reason", "post-mortem done", "--by", "ada")
    plan = made["plan"]["id"]
    assert made["state"] == "awaiting approval"
    with pytest.raises(PlanRefused, match="nobody approves their own"):
        await run("redrive", "approve", plan, "--by", "ada")
    with pytest.raises(PlanRefused, match="approve it through the HTTP API with a token of your own"):
        await run("redrive", "approve", plan, "--by", "bob")
    await shift.approve(plan)
    assert "approved" in await run("redrive", "show", plan)
    assert "is aborted" in await run("redrive", "abort", plan, "--reason", "thought better of it")


async def test_groups_are_listed_shown_and_spoken_of(shift: Shift) -> None:
    await shift.fail(2, message="codec 7 is unknown", kind="video.render")
    (group,) = await document("group", "list")
    name = group["fingerprint"]
    assert (group["dead"], group["state"]) == (2, "open")
    assert "codec 7 is unknown" in await run("group", "show", name)
    await run("group", "ignore", name, "--reason", "known", "--hours", "1")
    assert (await document("group", "list", "--state", "ignored"))[0]["fingerprint"] == name
    await run("group", "resolve", name, "--reason", "fixed")
    await run("group", "note", name, "see the runbook", "--owner", "grace")
    shown = await run("group", "show", name)
    assert "resolved" in shown
    assert "see the runbook" in shown
    await run("group", "reopen", name, "--reason", "no")
    assert (await document("group", "show", name))["group"]["state"] == "open"


@pytest.mark.requirement("T12")
@pytest.mark.catches("formulas-run")
async def test_t12_the_audit_is_listed_exported_verified_and_pruned(shift: Shift, tmp_path: Path) -> None:
    (task,) = await shift.fail()
    await run("dead", "retry", task, "--reason", "=1+1", "--by", "ada")
    assert [one["actor"] for one in await document("audit", "list", "--task", task)] == ["ada"]
    out = tmp_path / "audit.csv"
    await run("audit", "export", "--format", "csv", "--to", str(out))
    assert "'=1+1" in out.read_text()
    verified = await document("audit", "verify")
    assert (verified["entries"], verified["wrong"], verified["unsealed"]) == (1, [], 0)
    head = f"{verified['head_number']}:{verified['head_hash']}"
    assert "nothing was changed" in await run("audit", "verify", "--head", head)
    wrong = await run("audit", "verify", "--head", f"{verified['head_number']}:00", code=1)
    assert "it is not the one that was noted" in wrong
    prune = ("audit", "prune", "--older-than-days", "0", "--reason", "test")
    assert await document(*prune, "--dry-run") == {"prunable": 1}
    assert await document(*prune, "--yes") == {"pruned": 1}
    assert [one["action"] for one in await document("audit", "list")] == ["TASK_AUDIT_PRUNE_SUMMARY"]
    assert "nothing was changed" in await run("audit", "verify")


def test_a_login_without_a_name_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54_321)
    assert me() == f"uid-54321@{socket.gethostname()}"
