"""Secrets planted in everything that people hand in: no answer, command, log line or metric shows one.

A route or a command that reads is visited because it is there: a new one fails this test until it is walked.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from holdfast.cli.main import program
from holdfast.config import Settings
from holdfast.http.permissions import ROUTES
from holdfast.ops.tokens import Role, Tokens
from holdfast.webhooks.signing import new_secret
from tests.cluster import free_port
from tests.commands import RUNNER, document, run
from tests.served import ready
from tests.tree import ROOT, Tree, until, until_true
from tests.world import World

pytestmark = pytest.mark.usefixtures("command_line")

PLANT = "planted-"
APP = "tests.secret_app:app"
SIGNING_KEY = new_secret()
# Whatever else must not appear: it does not say itself that it was planted.
OTHERS = (SIGNING_KEY,)
# Nobody listens there: deliveries fail, are logged and become dead letters.
CLOSED = "http://127.0.0.1:9999/services/planted-url-path?token=planted-url-query"

# The commands that only read, each with what it is given; `{…}` is a name of `Scene.names`.
READS: dict[str, list[list[str]]] = {
    "doctor": [[]],
    "status": [[]],
    "task list": [[], ["--state", "completed"], ["--state", "failed"]],
    "task show": [
        ["{task}"],
        ["{completed}"],
        ["{foreign}"],
        ["{unknown}"],
        ["{plain}"],
        ["{delivery}"],
        ["{event}"],
    ],
    "task why": [["{task}"], ["{unknown}"]],
    "dead list": [[], ["--cancelled"]],
    "dead stats": [[]],
    "dead show": [["{task}"], ["{task}", "--app", APP], ["{delivery}"], ["{strange}"]],
    "group list": [[]],
    "group show": [["{fingerprint}"], ["{fingerprint}", "--app", APP], ["{strange_group}"]],
    "redrive preview": [[], ["--app", APP]],
    "redrive list": [[]],
    "redrive show": [["{plan_id}"]],
    "audit list": [[]],
    "audit export": [[], ["--format", "csv"]],
    "audit verify": [[]],
    "queue list": [[]],
    "worker list": [[]],
    "limit show": [[]],
    "schedule list": [[]],
    "schedule show": [["yearly"]],
    "schedule next": [["yearly"]],
    "token list": [[]],
    "webhook list": [[]],
    "webhook show": [["{endpoint_id}"]],
    "webhook log": [["{endpoint_id}"], ["--delivery", "{delivery}"]],
}
# Those that act, serve or make something; what they print is what they were given, or what they are about.
ACTS = {
    "": "init migrate worker api",
    "task": "enqueue wake cancel retry pause resume",
    "dead": "retry edit forget flush",
    "group": "ignore resolve reopen note",
    "redrive": "plan approve start pause resume abort",
    "audit": "prune",
    "queue": "pause resume",
    "kind": "pause resume",
    "limit": "set clear",
    "schedule": "pause resume run remove",
    "token": "create revoke",
    "webhook": "create rotate change disable enable remove resend",
}


@dataclass(slots=True)
class Scene:
    """An API that knows no app, a worker that does, and what was planted around them."""

    world: World
    client: httpx.AsyncClient
    tokens: dict[Role, str]
    worker: Tree
    metrics: str
    api_log: Path
    names: dict[str, str] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, role: Role = Role.ADMIN, code: int = 200, **options: Any
    ) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[role]}"} | options.pop("headers", {})
        answer = await self.client.request(method, path, headers=headers, **options)
        assert answer.status_code == code, (method, path, answer.text)
        return answer

    async def post(self, path: str, role: Role = Role.ADMIN, code: int = 200, **body: Any) -> Any:
        return (await self.ask("POST", path, role, code, json=body)).json()

    async def enqueue(self, kind: str, payload: object, queue: str = "money") -> str:
        made = await self.post("/api/tasks", code=201, kind=kind, payload=payload, queue=queue)
        return str(made["id"])

    async def ended(self, task: str, state: str = "failed") -> str:
        async def so() -> bool:
            return await self.world.state(task) == state

        await until_true(so, 60, f"{task} {state}")
        return task

    async def command(self, *arguments: str) -> None:
        self.printed.append(await run(*arguments))


@pytest.fixture
async def scene(world: World, url: str, trees: Callable[..., Tree], tmp_path: Path) -> AsyncIterator[Scene]:
    known = Tokens(Settings(database_url=url), by="test")
    made = {role: await known.create(world.conn, role.value, role, None) for role in Role}
    port = free_port()
    tree = trees("a", app=APP).start(
        "--queues", "default,money", "--metrics-port", port,
        clock={"HOLDFAST_WEBHOOKS_PLAIN": "1", "HOLDFAST_WEBHOOKS_ALLOW": "127.0.0.0/8"},
    )  # fmt: skip
    log = tmp_path / "log-api"
    async with _api(url, log) as address, httpx.AsyncClient(base_url=address, timeout=30) as client:
        tokens = {role: one.token for role, one in made.items()}
        yield Scene(world, client, tokens, tree, f"http://127.0.0.1:{port}/metrics", log)


@asynccontextmanager
async def _api(url: str, log: Path) -> AsyncIterator[str]:
    """An API without an app, as a process of its own, and where it is."""
    port = free_port()
    with log.open("wb") as told:
        process = subprocess.Popen(  # noqa: ASYNC220 (it is to outlive this call)
            [sys.executable, "-m", "holdfast", "api", "--port", str(port)],
            env=os.environ | {"HOLDFAST_DATABASE_URL": url, "HOLDFAST_WEBHOOKS_PLAIN": "1"},
            cwd=ROOT,
            stdout=told,
            stderr=told,
        )
        try:
            await ready(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


async def _plant(scene: Scene) -> None:
    names, world = scene.names, scene.world
    created = await scene.post(
        "/api/webhooks/endpoints", code=201, url=CLOSED, events=["paid"], secret=SIGNING_KEY, reason="planted"
    )
    names["endpoint_id"] = created["endpoint"]["id"]
    scene.printed.append(json.dumps(created["endpoint"]))
    # Payloads, messages and headers of a kind whose worker has declared it; most of its group share a card.
    declined = [await scene.enqueue("pay", {"card": "planted-payload", "decline": True}) for _ in range(6)]
    names["task"] = await scene.ended(declined[0])
    names["completed"] = await scene.enqueue("pay", {"card": "planted-result"})
    await scene.ended(names["completed"], "completed")
    # Edited on the command line, which has the app, and failed once more.
    edit = json.dumps({"card": "planted-edit", "decline": True})
    await scene.command("dead", "edit", names["task"], "--payload", edit, "--reason", "typo", "--app", APP)
    await scene.ended(names["task"])
    # A kind that nobody has declared; one payload is no object.
    names["unknown"] = await scene.enqueue(
        "nobody.knows", {"iban": "planted-iban", "a": {"b": ["planted-deep"]}}, "far"
    )
    names["plain"] = await scene.enqueue("nobody.knows", ["planted-list"], "far")
    await _work_elsewhere(scene)
    # An event, its delivery, and what is logged of that.
    await scene.post("/api/webhooks/events", code=201, type="paid", data={"note": "planted-event"})
    names["event"] = await _task_of(world, "webhook.publish")
    names["delivery"] = names["delivery_id"] = await _task_of(world, "webhook.deliver")
    await world.operator.cancel(world.conn, names["delivery"], "enough")
    names["fingerprint"] = await _group_of(world, names["task"])
    names["strange_group"] = await _group_of(world, names["strange"])
    names["task_id"] = names["task"]
    plan = await scene.post("/api/plans", code=201, reason="the provider is back")
    names["plan_id"] = plan["id"]
    revealed = await scene.ask(
        "POST",
        f"/api/tasks/{names['task']}/reveal",
        json={"reason": "a dispute"},
        headers={"Idempotency-Key": "r"},
    )
    assert "planted-edit" in revealed.text, "what is searched for is there"


async def _work_elsewhere(scene: Scene) -> None:
    """A worker in another language: it declares one of its kinds, and not the other."""
    names = scene.names
    names["foreign"] = await scene.enqueue("foreign.done", {"iban": "planted-foreign"}, "elsewhere")
    names["strange"] = await scene.enqueue("foreign.failed", {"iban": "planted-strange"}, "elsewhere")
    worker = await scene.post(
        "/api/workers", Role.WORKER, 201, name="go", kinds=["foreign.done", "foreign.failed"],
        queues=["elsewhere"], secrets={"foreign.failed": ["iban"]},
    )  # fmt: skip
    path = f"/api/workers/{worker['worker']}/claim"
    claimed = await scene.post(path, Role.WORKER, holding=[], limit=2)
    assert "planted-foreign" in json.dumps(claimed), "whoever does the work sees all of it"
    for task in claimed["tasks"]:
        report = {"worker": worker["worker"], "leaseToken": task["leaseToken"]}
        if task["kind"] == "foreign.done":
            report |= {"outcome": "complete", "result": {"iban": "planted-foreign-result"}}
        else:
            report |= {"outcome": "fail", "reason": f"no account {task['payload']['iban']}"}
        await scene.post(f"/api/tasks/{task['id']}/report", Role.WORKER, **report)


async def _task_of(world: World, kind: str) -> str:
    found: list[str] = []

    async def there() -> bool:
        cursor = await world.conn.execute("select id::text from holdfast.task_states where kind = %s", [kind])
        found[:] = [task for (task,) in await cursor.fetchall()]
        # A delivery has been tried, and logged.
        return bool(found) and (kind != "webhook.deliver" or await world.rows("webhook_attempts") > 0)

    await until_true(there, 60, kind)
    return found[0]


async def _group_of(world: World, task: str) -> str:
    row = await (
        await world.conn.execute("select fingerprint from holdfast.tasks where id = %s", [task])
    ).fetchone()
    assert row is not None
    return str(row[0])


def _found(text: str) -> str | None:
    """The first secret in a text, with what stands around it."""
    for secret in (PLANT, *OTHERS):
        if (place := text.find(secret)) >= 0:
            return text[max(0, place - 200) : place + 200]
    return None


@pytest.mark.requirement("T9")
@pytest.mark.catches("unknown-kind-shown-raw", "result-unmasked", "urls-shown-whole")
async def test_no_planted_secret_is_shown_to_anybody_who_only_looks(scene: Scene) -> None:
    await _plant(scene)
    leaks = []
    async for where, text in _answers(scene):
        if (around := _found(text)) is not None:
            leaks.append(f"{where}: {around}")
    for arguments in _commands(scene.names):
        done = await asyncio.to_thread(RUNNER.invoke, program, arguments, catch_exceptions=False)
        # Doctor finds what is wrong with a server of tests.
        assert done.exit_code == 0 or arguments[0] == "doctor", (arguments, done.output)
        said = done.output
        if (around := _found(said)) is not None:
            leaks.append(f"holdfast {' '.join(arguments)}: {around}")
    leaks += [f"printed: {_found(text)}" for text in scene.printed if _found(text) is not None]
    await until(lambda: "task.failed" in scene.worker.said(), what="the worker's lines")
    async with httpx.AsyncClient() as client:
        page = (await client.get(scene.metrics)).text
    assert "holdfast_" in page
    rest = {
        "the worker's log": scene.worker.said(),
        "the API's log": scene.api_log.read_text(),
        "metrics": page,
    }
    leaks += [f"{where}: {_found(text)}" for where, text in rest.items() if _found(text) is not None]
    assert not leaks, "\n\n".join(leaks)
    assert "guards and payload checks are not available" in rest["the API's log"]


async def _answers(scene: Scene) -> AsyncIterator[tuple[str, str]]:
    """What each route that reads answers to a viewer and an operator, for each task there is."""
    tasks = [
        scene.names[one]
        for one in ("task", "completed", "foreign", "strange", "unknown", "plain", "delivery", "event")
    ]
    for method, path in ROUTES:
        if method != "GET":
            continue
        for task in tasks if "{task_id}" in path else tasks[:1]:
            named = scene.names | {"task_id": task}
            filled = path.format(**named)
            once = {"seconds": 0} if path == "/api/live" else {}
            for role in (Role.VIEWER, Role.OPERATOR):
                answer = await scene.ask(method, filled, role, params=once)
                yield f"{role} {filled}", answer.text


def _commands(names: dict[str, str]) -> Iterator[list[str]]:
    """Every command that reads, as people and as scripts run it."""
    for command, variants in READS.items():
        for given in variants:
            arguments = [*command.split(" "), *(one.format(**names) for one in given)]
            yield arguments
            if command != "audit export":
                yield [*arguments, "--json"]


def _all(group: object, before: tuple[str, ...] = ()) -> Iterator[str]:
    if not (inner := getattr(group, "commands", None)):
        yield " ".join(before)
        return
    for name, command in inner.items():
        yield from _all(command, (*before, name))


def test_every_command_is_known_to_read_or_to_act() -> None:
    acts = {f"{group} {verb}".strip() for group, verbs in ACTS.items() for verb in verbs.split()}
    # `worker list` is an argument of `worker`.
    assert set(_all(typer.main.get_command(program))) == (READS.keys() | acts) - {"worker list"}


@pytest.mark.catches("revealed-payload-kept", "answers-by-name")
async def test_what_is_revealed_is_shown_once_and_kept_nowhere(scene: Scene) -> None:
    task = await scene.ended(await scene.enqueue("pay", {"card": "planted-payload", "decline": True}))
    path, once = f"/api/tasks/{task}/reveal", {"Idempotency-Key": "k"}
    for role in (Role.VIEWER, Role.OPERATOR):
        await scene.ask("POST", path, role, 403, json={"reason": "curious"})
    asked: dict[str, Any] = {"json": {"reason": "a dispute"}, "headers": once}
    first = await scene.ask("POST", path, **asked)
    assert first.json()["payload"]["card"] == "planted-payload"
    again = await scene.ask("POST", path, **asked)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == {"payload": None, "result": None}
    cursor = await scene.world.conn.execute("select convert_from(body, 'UTF8') from holdfast.api_answers")
    assert all(_found(body) is None for (body,) in await cursor.fetchall())
    # Another token of the same name is somebody else, and sees what it asks for with an entry of its own.
    known = Tokens(Settings(database_url=scene.world.url), by="test")
    (first,) = [one.id for one in await known.list(scene.world.conn) if one.name == "admin"]
    await known.revoke(scene.world.conn, first)
    other = await known.create(scene.world.conn, "admin", Role.ADMIN, None)
    scene.tokens[Role.ADMIN] = other.token
    theirs = await scene.ask("POST", path, **asked)
    assert "Idempotency-Replayed" not in theirs.headers
    assert theirs.json()["payload"]["card"] == "planted-payload"
    revealed = await scene.ask(
        "GET", "/api/tasks/audit-logs", params={"taskId": task, "auditAction": "TASK_REVEAL"}
    )
    assert revealed.json()["total"] == 2


async def test_the_command_line_reveals_to_whoever_says_why(scene: Scene) -> None:
    task = await scene.enqueue("nobody.knows", {"iban": "planted-iban"}, "far")
    shown = await run("task", "show", task)
    assert "no worker has declared the kind nobody.knows, so only keys are shown: start a worker" in shown
    assert (await document("task", "show", task))["declared"] is False
    assert '{"iban": "[redacted]"}' in shown
    refused = RUNNER.invoke(program, ["task", "show", task, "--reveal"])
    assert refused.exit_code == 2
    assert "planted-iban" in await run(
        "task", "show", task, "--reveal", "--reason", "a dispute", "--by", "ada"
    )
    only = {"taskId": task, "auditAction": "TASK_REVEAL"}
    audit = (await scene.ask("GET", "/api/tasks/audit-logs", params=only)).json()
    assert [(one["action"], one["actor"], one["reason"]) for one in audit["items"]] == [
        ("TASK_REVEAL", "ada", "a dispute")
    ]
