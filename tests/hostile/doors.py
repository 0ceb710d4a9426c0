"""The doors: each takes hostile numbers and counts what became of them; a 5xx or a lost answer is wrong."""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import psycopg

from holdfast.cli.main import program
from holdfast.db.connect import Conn
from holdfast.http.middleware import BODY_BYTES_MAX
from tests.commands import RUNNER
from tests.hostile.app import KINDS, OUTSIDE
from tests.hostile.texts import answer, payload, text
from tests.webhooks.receivers import read_request

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(slots=True)
class Counted:
    """What became of what was sent, by door and by answer."""

    doors: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, door: str, became: str) -> None:
        self.doors.setdefault(door, Counter())[became] += 1


async def through_sql(conn: Conn, numbers: Sequence[int], counted: Counted) -> None:
    """Enqueue by the function, and for every other one past it, as an older row stands there."""
    for number in numbers:
        kind = (*KINDS, OUTSIDE)[number % (len(KINDS) + 1)]
        values = {"kind": kind, "payload": payload(number), "version": 1}
        try:
            if number % 2:
                await conn.execute("select holdfast.enqueue(%(kind)s, %(payload)s::jsonb)", values)
            else:
                async with conn.transaction():
                    made = await conn.execute("select holdfast.enqueue(%(kind)s, '{}')", values)
                    row = await made.fetchone()
                    assert row is not None, "the function answers"
                    await conn.execute(
                        "update holdfast.tasks set payload = %(payload)s::jsonb where id = %(id)s",
                        values | {"id": row[0]},
                    )
        except (psycopg.Error, UnicodeEncodeError) as error:
            counted.add("sql", type(error).__name__)
            if isinstance(error, psycopg.OperationalError) and conn.closed:
                counted.wrong.append(f"sql {number}: {error}")
                raise
        else:
            counted.add("sql", "taken")


async def through_handlers(conn: Conn, numbers: Sequence[int], counted: Counted) -> None:
    """Tasks whose handlers end as their numbers say."""
    for begin in range(0, len(numbers), 500):
        some = [json.dumps({"number": number}) for number in numbers[begin : begin + 500]]
        await conn.execute(
            "select from holdfast.enqueue_many("
            "ids => array(select holdfast.uuid7() from generate_series(1, %s)),"
            " kinds => array['hostile.ends'], payloads => %s::jsonb[])",
            [len(some), some],
        )
        for _ in some:
            counted.add("handlers", "enqueued")


async def through_http(
    client: httpx.AsyncClient, conn: Conn, numbers: Sequence[int], counted: Counted
) -> None:
    """Enqueue, edit, cancel, ask for lists: with hostile bodies, reasons and parameters."""
    found = await conn.execute("select id::text from holdfast.task_states order by md5(id::text) limit 500")
    tasks = [id_ for (id_,) in await found.fetchall()]
    for number in numbers:
        rng = random.Random(f"http {number}")
        body, reason = payload(number), text(number)
        words, short = json.dumps(reason), json.dumps(reason[:150])
        path, content = rng.choice(
            (
                ("/api/tasks", f'{{"kind": "{KINDS[number % 4]}", "payload": {body}}}'),
                ("/api/tasks", f'{{"kind": {words}, "payload": {body}}}'),
                ("/api/tasks", f'{{"kind": "hostile.ends", "payload": {{"number": 7}}, "subject": {short}}}'),
                ("/api/tasks", body),
                ("/api/tasks/{task}/cancel", f'{{"reason": {json.dumps(reason[:1_900])}}}'),
                ("/api/tasks/{task}/edit", f'{{"payload": {body}, "reason": {words}}}'),
                ("/api/tasks/{task}/reveal", f'{{"reason": {words}}}'),
                ("/api/tasks/dead-letters/retry", f'{{"reason": {words}, {words}: 1}}'),
                ("/api/webhooks/events", f'{{"type": "hostile", "data": {body}}}'),
                ("/api/workers", f'{{"name": {words}, "kinds": [{words}]}}'),
            )
        )
        path = path.replace("{task}", rng.choice(tasks))
        await _ask(client, counted, "POST", path, content.encode("utf-8", "surrogatepass"), number)
        if number % 7 == 0:
            parameters = {rng.choice(("jobKind", "subject", "before", "queue", "state")): reason[:150]}
            await _ask(client, counted, "GET", "/api/tasks", b"", number, parameters)


async def _ask(
    client: httpx.AsyncClient,
    counted: Counted,
    method: str,
    path: str,
    content: bytes,
    number: int,
    parameters: dict[str, str] | None = None,
) -> None:
    safe = {name: value.encode("utf-8", "replace").decode() for name, value in (parameters or {}).items()}
    try:
        found = await client.request(
            method,
            path,
            content=content,
            params=safe or None,
            headers={"Content-Type": "application/json"},
        )
    except httpx.TransportError as error:
        # A body that is too large is refused before all of it is read, and the answer may be lost.
        counted.add("http", "broken off")
        if len(content) <= BODY_BYTES_MAX:
            counted.wrong.append(f"{method} {path} {number}: {error!r}")
        return
    counted.add("http", str(found.status_code))
    if found.status_code >= 500:
        counted.wrong.append(f"{method} {path} {number}: {found.status_code} {found.text[:200]}")


async def shown(client: httpx.AsyncClient, conn: Conn, counted: Counted) -> None:
    """Every task and every list is shown, whatever stands in it."""
    rows = await (await conn.execute("select id::text from holdfast.task_states")).fetchall()
    paths = [f"/api/tasks/{id_}" for (id_,) in rows]
    paths += ["/api/tasks?limit=200", "/api/tasks/dead-letters?limit=200", "/api/tasks/dead-letters/preview"]
    paths += ["/api/groups", "/api/tasks/audit-logs", "/api/webhooks/endpoints"]
    for path in paths:
        found = await client.get(path)
        counted.add("shown", str(found.status_code))
        if found.status_code >= 500:
            counted.wrong.append(f"GET {path}: {found.status_code} {found.text[:200]}")


async def through_workers(client: httpx.AsyncClient, counted: Counted) -> None:
    """A worker that is none of ours takes what there is and reports in hostile words; no claim may fail."""
    entered = await client.post("/api/workers", json={"name": "hostile", "kinds": [OUTSIDE]})
    worker = entered.json()["worker"]
    number = 0
    while True:
        claimed = await client.post(f"/api/workers/{worker}/claim", json={"holding": [], "limit": 20})
        counted.add("claims", str(claimed.status_code))
        if claimed.status_code != 200:
            counted.wrong.append(f"claim: {claimed.status_code} {claimed.text[:200]}")
            return
        tasks = claimed.json()["tasks"]
        for task in tasks:
            number += 1
            outcome = ("complete", "retry", "fail", "cancel")[number % 4]
            said = {
                "worker": worker, "leaseToken": task["leaseToken"], "outcome": outcome,
                "reason": text(number)[:2_000], "code": text(number + 1)[:200],
            }  # fmt: skip
            content = json.dumps(said)[:-1] + (f', "result": {payload(number)}}}' if number % 4 == 0 else "}")
            path = f"/api/tasks/{task['id']}/report"
            found = await client.post(path, content=content, headers={"Content-Type": "application/json"})
            counted.add("reports", str(found.status_code))
            if found.status_code >= 500:
                counted.wrong.append(f"report {number}: {found.status_code} {found.text[:200]}")
            if found.status_code >= 400:
                said |= {"outcome": "fail", "reason": "", "code": "E"}
                (await client.post(path, json=said)).raise_for_status()
        left = not tasks and claimed.status_code == 200
        if left:
            return


@asynccontextmanager
async def hostile_receiver(counted: Counted) -> AsyncIterator[int]:
    """Answers each request with the next hostile answer, and closes."""
    number = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal number
        try:
            if await read_request(reader) is not None:
                number += 1
                counted.add("receiver", "answered")
                writer.write(answer(number))
                await writer.drain()
        except ConnectionError:
            # It was let go.
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def commanded(url: str, conn: Conn, tasks: int, counted: Counted) -> None:
    """What commands show of some tasks holds no control character, and is JSON where that is asked for."""
    chosen = "select id::text from holdfast.task_states order by md5(id::text) limit %s"
    rows = await conn.execute(chosen, [tasks])
    commands = [("task", "list", "--limit", "200"), ("dead", "list"), ("group", "list"), ("audit", "list")]
    commands += [(word, "show", id_) for (id_,) in await rows.fetchall() for word in ("task", "dead")]
    environment = {"HOLDFAST_DATABASE_URL": url, "COLUMNS": "200"}
    for command in commands:
        for more in ((), ("--json",)):
            done = await asyncio.to_thread(RUNNER.invoke, program, [*command, *more], env=environment)
            counted.add("commands", f"exit {done.exit_code}")
            if done.exit_code or CONTROL.search(done.output):
                shown = f"{done.exception!r} {done.output[:100]!r}"
                counted.wrong.append(f"holdfast {' '.join(command)}: {shown}")
            elif more:
                json.loads(done.stdout)


async def leaked(conn: Conn, counted: Counted) -> None:
    """No message of a kind with secrets holds one of them."""
    cursor = await conn.execute(
        "select a.task_id::text, a.error_message from holdfast.task_attempts a join holdfast.task_states t"
        " on t.id = a.task_id where t.kind = any (%s)"
        " and concat(a.error_message, a.error_stack) ~ '4111-[0-9]{6}'",
        [list(KINDS)],
    )
    for id_, message in await cursor.fetchall():
        counted.wrong.append(f"the card of {id_} is shown: {message[:200]!r}")
