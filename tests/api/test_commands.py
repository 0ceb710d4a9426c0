"""The command line: what each command shows, its JSON, its exit code."""

import asyncio
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.core.errors import TaskStranded
from holdfast.core.outcome import Fail
from holdfast.db.connect import where
from tests.commands import document, run, typed
from tests.world import World

pytestmark = pytest.mark.usefixtures("command_line")


async def dead(world: World) -> str:
    task = await world.enqueue("video.render", subject="episode 7")
    await world.settle((await world.claim_one(), Fail("TASK_ENTITY_NOT_FOUND", "no such episode")))
    return task


@pytest.mark.requirement("F3", "R3")
@pytest.mark.catches("redrive-takes-paused", "error-not-kept")
async def test_list_show_and_retry_what_has_failed(world: World) -> None:
    task = await dead(world)
    other = await world.enqueue("mail.send")
    listed = await document("task", "list", "--state", "failed")
    assert [(one["id"], one["error_code"], one["subject"]) for one in listed] == [
        (task, "TASK_ENTITY_NOT_FOUND", "episode 7")
    ]
    assert "no such episode" in await run("task", "list", "--state", "failed")
    shown = await document("task", "show", task)
    assert shown["task"]["dead_reason"] == "non_retryable"
    assert [one["ended_as"] for one in shown["attempts"]] == ["fail"]
    assert "TASK_ENTITY_NOT_FOUND (permanent): no such episode" in await run("task", "show", task)
    assert await document("task", "retry", task) == {"id": task, "retried": True, "state": "queued"}
    assert await document("task", "retry", other, code=1) == {
        "id": other,
        "retried": False,
        "state": "queued",
    }
    refused = await run("task", "retry", other, code=1)
    assert "is queued: only a failed or cancelled task can be retried" in refused


async def test_what_an_error_says_is_no_markup(world: World) -> None:
    task = await world.enqueue("px")
    await world.settle(
        (await world.claim_one(), Fail("NOT_FOUND", "searched [/etc/app.conf] in vain\nat all"))
    )
    assert "searched [/etc/app.conf] in vain" in await run("task", "list", "--state", "failed")
    assert "searched [/etc/app.conf] in vain" in await run("task", "show", task)


async def test_enqueue_and_cancel(world: World) -> None:
    made = await document("task", "enqueue", "mail.send", '{"to": 3}', "--key", "k", "--priority", "0")
    again = await document("task", "enqueue", "mail.send", '{"to": 3}', "--key", "k")
    assert (again["id"], made["created"], again["created"]) == (made["id"], True, False)
    assert "stands for this key already" in await run(
        "task", "enqueue", "mail.send", '{"to": 3}', "--key", "k"
    )
    assert "it is not JSON" in await run("task", "enqueue", "mail.send", "{to: 3}", code=2)
    assert await document("task", "cancel", made["id"]) == {"id": made["id"], "state": "cancelled"}
    assert [one["state"] for one in await document("task", "list", "--state", "cancelled")] == ["cancelled"]
    later = await document("task", "enqueue", "mail.send", "--delay", "60")
    assert "scheduled" in await run("task", "list", "--kind", "mail.send")
    await world.claim()
    assert (await document("task", "why", later["id"]))["because"][0].startswith("its time has not come")


async def test_why_names_what_stands_in_the_way(world: World) -> None:
    task = await world.enqueue("video.render", queue="video")
    assert "no live worker serves its queue video: start one with --queues video" in await run(
        "task", "why", task
    )
    await world.store.workers.register(
        world.conn, str(uuid4()), "w", 30, queues=["video"], kinds=["mail.send"]
    )
    assert "has a handler for its kind video.render" in await run("task", "why", task)
    await run("queue", "pause", "video", "--reason", "the provider is down", "--by", "ada")
    assert "is paused by ada: the provider is down" in await run("task", "why", task)
    assert (await document("queue", "list"))[0]["paused_by"] == "ada"
    assert await document("queue", "resume", "video") == {"queue": "video", "resumed": True}
    assert "queue video is not paused" in await run("queue", "resume", "video", code=1)
    failed = await dead(world)
    assert "it has failed for good (non_retryable, TASK_ENTITY_NOT_FOUND)" in await run("task", "why", failed)


async def test_migrate_tells_what_it_did_as_json_too(
    world: World, direct_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", direct_url)
    told = {"migrations": [], "database": where(direct_url)}
    assert await document("migrate") == told | {"verb": "applied"}
    assert await document("migrate", "--plan") == told | {"verb": "to apply"}


async def test_status_and_workers(world: World) -> None:
    assert "0 failed; 0 paused; 0 completed in the last hour" in await run("status")
    await dead(world)
    await world.enqueue("mail.send", queue="high")
    totals = await document("status")
    assert totals["totals"]["failed"] == 1
    assert {queue["name"]: queue["ready"] for queue in totals["queues"]}["high"] == 1
    assert [one["name"] for one in await document("worker", "list")] == ["test"]
    assert "test" in await run("worker", "list")


async def test_the_doctor_finds_what_hurts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {one["name"]: one for one in await document("doctor", code=1)}
    # The tests' own cluster runs without fsync, on purpose.
    assert (found["fsync"]["health"], found["schema"]["health"]) == ("bad", "good")
    assert "a crash can lose tasks that were acknowledged" in found["fsync"]["advice"]
    assert found["version"]["health"] == "good"
    monkeypatch.setenv("HOLDFAST_SCHEMA", "not_there")
    missing = {one["name"]: one for one in await document("doctor", code=1)}
    assert "run `holdfast migrate`" in missing["schema"]["found"]


@pytest.mark.catches("repair-unasked")
async def test_the_doctor_repairs_only_when_it_is_told_to_and_why(world: World) -> None:
    task = await world.enqueue()
    await world.conn.execute("delete from holdfast.ready")
    found = {one["name"]: one for one in await document("doctor", code=1)}
    assert found["rows of tasks"]["health"] == "bad"
    assert f"1 live with no row in ready, blocked or running: {task}" in found["rows of tasks"]["found"]
    assert await world.rows("ready") == 0, "it only reads"
    assert "its row in ready, blocked or running is missing" in await run("task", "why", task)
    with pytest.raises(TaskStranded, match="run `holdfast doctor --repair --reason …`"):
        await run("task", "cancel", task, "--reason", "no")
    assert "give a reason" in await run("doctor", "--repair", code=2)
    told = await document("doctor", "--repair", "--reason", "rows were deleted", "--by", "ada", code=1)
    assert told["repaired"] == [task]
    assert {one["name"]: one for one in told["findings"]}["rows of tasks"]["health"] == "good"
    entries = await document("audit", "list", "--task", task)
    assert [(one["action"], one["actor"], one["reason"]) for one in entries] == [
        ("TASK_REPAIR", "ada", "rows were deleted")
    ]
    assert "0 tasks were repaired" in await run("doctor", "--repair", "--reason", "again", code=1)
    assert (await world.claim_one()).id == task


@pytest.mark.parametrize(
    "command",
    ["", "init", "migrate", "worker", "status", "doctor", "task", "task enqueue", "task list", "task show",
     "task cancel", "task retry", "task why", "queue", "queue list", "queue pause", "queue resume"],
)  # fmt: skip
async def test_every_command_has_help_that_says_what_it_does(command: str) -> None:
    text = await run(*command.split(), "--help")
    assert "Usage:" in text
    assert len(text.splitlines()) > 4


@pytest.mark.parametrize("arguments", [["task", "show", "0190"], ["status"]], ids=["id", "database"])
async def test_what_goes_wrong_is_one_line_and_exit_code_2(arguments: list[str], url: str) -> None:
    nowhere = "postgresql://me:secret@127.0.0.1:1/shop"
    done = await typed(url if arguments[0] == "task" else nowhere, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: ")
    assert len(done.stderr.splitlines()) == 1
    assert "secret" not in done.stderr


async def test_a_taken_name_of_a_token_is_a_refusal(world: World, url: str) -> None:
    assert (await typed(url, "token", "create", "ada", "--role", "viewer")).returncode == 0
    again = await typed(url, "token", "create", "ada", "--role", "viewer")
    assert (again.returncode, "choose another name" in again.stderr) == (1, True)


CANNOT_KEEP = "PostgreSQL cannot keep this: "
NO_MOMENT = "no calendar has the moment "
NO_APP = "no app at tests.api.broken:app: importing it failed: the traceback is above"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("task enqueue x {", "it is not JSON: Expecting property name"),
        ("task enqueue x " + "[" * 20_000, "it is not JSON: maximum recursion depth"),
        ('task enqueue x {"n":"\udcff"}', "it is not JSON: 'utf-8' codec can't encode"),
        ('task enqueue x {"n":NaN}', CANNOT_KEEP + 'invalid input syntax for type json: Token "NaN"'),
        (r'task enqueue x {"n":"\u0000"}', CANNOT_KEEP + r"unsupported Unicode escape sequence: \u0000"),
        ("task enqueue x --delay 1e12", NO_MOMENT + "1e+12 seconds from now"),
        ("dead list --hours inf", NO_MOMENT + "inf hours from now"),
        ("queue pause x --reason y --minutes 1e12", NO_MOMENT + "1e+12 minutes from now"),
        ("dead edit 0190 --reason y --file /", "'/' is a directory"),
        ("init /proc/x.py", "/proc/x.py cannot be written: No such file or directory"),
        ("api tests.api.broken:app", NO_APP),
        ("worker tests.api.broken:app", NO_APP),
    ],
    ids=[
        "not JSON", "deep", "no text", "NaN", "NUL", "delay", "hours", "minutes", "folder", "file",
        "api", "worker",
    ],
)  # fmt: skip
async def test_wrong_input_is_said_in_a_line_and_ends_with_2(line: str, said: str, url: str) -> None:
    done = await typed(url, *line.split())
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())
    assert ("Traceback" in done.stderr) == ("the traceback is above" in said)


async def test_what_no_address_names_is_said_as_libpq_finds_it(url: str) -> None:
    variables = {"PGHOST": "127.0.0.1", "PGPORT": "1", "PGDATABASE": "shop"}
    done = await typed("", "status", **variables)
    assert "the database at 127.0.0.1:1/shop (by libpq’s own settings" in done.stderr


async def test_init_elsewhere_says_where_to_go(tmp_path: Path) -> None:
    said = await run("init", str(tmp_path / "shop" / "work.py"))
    assert f"cd {tmp_path}/shop" in said
    assert "holdfast worker work:app" in said


@pytest.mark.usefixtures("hears_ctrl_c")
async def test_ctrl_c_while_a_command_is_being_loaded_shows_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)")
    done = await typed("", "status", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (130, "")


async def test_which_version_it_is() -> None:
    assert await run("--version") == f"holdfast {version('holdfast')}\n"


async def test_init_writes_an_app_that_runs(world: World, tmp_path: Path, url: str) -> None:
    """Four commands from nothing to a result: init, migrate, worker, run."""
    environment = os.environ | {"HOLDFAST_DATABASE_URL": url}

    def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

    said = await asyncio.to_thread(command, "-m", "holdfast", "init")
    assert "holdfast worker tasks:app" in said.stdout
    await asyncio.to_thread(command, "-m", "holdfast", "migrate")
    worker = subprocess.Popen(  # noqa: ASYNC220 (it is not waited for)
        [sys.executable, "-m", "holdfast", "worker", "tasks:app"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        ran = await asyncio.to_thread(command, "tasks.py")
        assert ran.stdout == "hello, world\n"
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait)
    again = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "holdfast", "init"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert again.returncode == 1
    assert b"exists already" in again.stderr
