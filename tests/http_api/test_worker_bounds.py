"""What a token of workers may not do to tasks and kinds that are none of its own."""

import pytest

from holdfast.ops.tokens import Role, Tokens, WorkerScope
from tests.http_api.conftest import Api
from tests.http_api.test_workers import claimed, entered, reported


@pytest.mark.requirement("B9")
@pytest.mark.catches("late-reports-of-others")
async def test_a_report_of_a_task_that_was_never_claimed_leaves_no_record(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("pay")
    worker = await entered(api)
    for fence in range(5):
        await reported(api, worker, {"id": task_id, "leaseToken": fence}, "fail", status=409, reason="x")
    assert await world.attempts(task_id) == []


async def test_a_late_report_is_recorded_once(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("render")
    worker = await entered(api)
    (task,) = await claimed(api, worker)
    await world.lapse(worker)
    await world.reclaim(world.conn)
    for _ in range(3):
        await reported(api, worker, task, "complete", status=409)
    assert (await world.attempts(task_id)).count("late") == 1


async def test_the_latest_attempts_are_shown_and_all_are_counted(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("pay")
    await world.conn.execute(
        "insert into holdfast.task_attempts (task_id, ended_at, started_at, fence, worker, ended_as, kind)"
        " select %s, now(), now(), n, gen_random_uuid(), 'late', 'pay' from generate_series(1, 300) n",
        [task_id],
    )
    shown = await api.get(f"/api/tasks/{task_id}", role=Role.VIEWER)
    assert (shown["attemptsRecorded"], len(shown["attempts"])) == (300, 200)
    assert [one["fence"] for one in shown["attempts"]] == list(range(101, 301))


@pytest.mark.requirement("B9")
@pytest.mark.catches("anybody-unmasks")
async def test_b9_only_a_token_of_a_kind_has_its_fields_shown(api: Api) -> None:
    world = api.shift.world
    task_id = await world.enqueue("bank.export", payload={"iban": "DE89", "note": "n"})
    await entered(api, "bank.export", queues=["elsewhere"], secrets={"bank.export": ["iban"]})
    shown = await api.get(f"/api/tasks/{task_id}")
    assert (shown["payload"], shown["declared"]) == ({"iban": "[redacted]", "note": "[redacted]"}, False)
    scope = WorkerScope(None, ["bank.export"])
    tokens = Tokens(api.shift.settings, by="test")
    api.tokens[Role.WORKER] = (await tokens.create(world.conn, "x", Role.WORKER, None, scope)).token
    await entered(api, "bank.export", secrets={"bank.export": []})
    shown = await api.get(f"/api/tasks/{task_id}")
    # What others called secret stays so.
    assert (shown["payload"], shown["declared"]) == ({"iban": "[redacted]", "note": "n"}, True)


async def test_kinds_and_fields_that_workers_declare_are_bounded(api: Api) -> None:
    for number in range(2):
        fields = [f"{number}-{field}" for field in range(100)]
        await entered(api, "many", secrets={"many": fields})
    said = await entered(api, "many", code=422, secrets={"many": ["one more"]})
    assert "more than 200 secret fields" in said
    await api.shift.world.conn.execute(
        "insert into holdfast.kinds (kind, release, queue) select 'k' || n, '', 'q'"
        " from generate_series(1, 999) n"
    )
    assert "at most 1000 kinds" in await entered(api, "new", code=422, secrets={"new": []})
    await entered(api, "many", secrets={"many": []})
