"""Twenty planted secrets, in payloads, messages and addresses, appear nowhere but in the payload itself."""

import json

import pytest

from holdfast import Holdfast, Task
from holdfast.core.audit import EntryFilter
from holdfast.observe.log_lines import lines
from holdfast.ops.dead_letters import DeadFilter
from holdfast.worker.executor.handlers import execute_async, prepare
from holdfast.worker.policies import Policies
from tests.ops.conftest import shift_of
from tests.world import World

IN_PAYLOAD = [f"canary-payload-{number:02}" for number in range(10)]
IN_MESSAGE = [
    "password=canary-message-00",
    "postgres://app:canary-message-01@db/prod",
    "Authorization: Bearer canary-message-02",
    '{"api_key": "canary-message-03"}',
    "https://canary-message-04@host/path",
    "client_secret: canary-message-05",
    "redis://:canary-message-06@cache",
    "token='canary-message-07'",
    "Cookie: sid=canary-message-08",
    "sk_live_canary-message-09",
]


@pytest.mark.catches("payload-secrets-leak", "urls-keep-their-passwords")
async def test_no_planted_secret_appears_in_failures_audit_logs_or_exports(world: World) -> None:
    app = Holdfast(world.url)

    @app.task("pay", max_attempts=1, secrets=("card", "pin"))
    async def pay(task: Task[dict[str, object]]) -> None:
        raise ValueError(f"declined {task.payload} by {task.payload['said']}")

    shift = shift_of(world, app.handlers)
    for card, said in zip(IN_PAYLOAD, IN_MESSAGE, strict=True):
        await world.enqueue("pay", payload={"card": card, "more": {"pin": f"{card}-pin"}, "said": said})
    handler = app.handlers["pay"]
    verdicts = Policies(app.handlers)
    group = []
    for claim in await world.claim():
        task = prepare(handler, claim)
        assert isinstance(task, Task)
        group.append((claim, verdicts.judge(claim, await execute_async(handler, task))))
    await world.store.settler.settle(world.conn, group)
    letters = await shift.dead.page(world.conn, DeadFilter())
    assert len(letters) == len(IN_PAYLOAD)
    edited = json.dumps({"card": "canary-payload-00", "more": {}, "said": "password=canary-message-00"})
    await shift.dead.edit(world.conn, letters[0].id, edited, "try with another")
    await shift.dead.retry(world.conn, [one.id for one in letters[1:]], "try")
    seen = [json.dumps(await world.rows_of(table, f"to_jsonb({table})"), default=str) for table in KEPT]
    seen += [
        "".join([piece async for piece in shift.audit.export(world.conn, EntryFilter(), how)]) for how in HOW
    ]
    seen += ["".join(lines("", event)) for event in world.events]
    seen += [str(letters), str(await shift.groups.page(world.conn))]
    cursor = await world.conn.execute("select error_message, error_stack from holdfast.task_attempts")
    seen += [str(row) for row in await cursor.fetchall()]
    for said in seen:
        assert "canary-" not in said, said[max(0, said.index("canary-") - 200) :][:400]


KEPT = ("failure_groups", "audit_log", "task_attempts")
HOW = ("json", "jsonl", "csv")
