"""Thousands of queues that somebody has made up: the views of operators go on, and say so."""

from typing import Any

import pytest

from holdfast.ops.tokens import Role
from holdfast.store.http_workers import LIVE_MAX
from holdfast.views.tasks import QUEUES_MAX
from tests.http_api.conftest import Api

VIEWS = ("/api/tasks/ops", "/api/now")


def names_of(queues: list[dict[str, Any]]) -> set[str]:
    return {queue["name"] for queue in queues}


@pytest.mark.requirement("B9")
@pytest.mark.catches("queues-without-end")
async def test_twenty_thousand_queues_do_not_stop_the_views(api: Api) -> None:
    world = api.shift.world
    await world.enqueue("render", queue="default")
    await world.conn.execute(
        "insert into holdfast.workers (id, name, lease_expires_at, queues, kinds)"
        " values (gen_random_uuid(), 'ours', now() + interval '1 hour', '{default}', '{render}')"
    )
    await world.conn.execute(
        "select count(holdfast.enqueue('nobody', '{}', 'zz' || i)) from generate_series(1, 20000) i"
    )
    header = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
    answer = await api.client.get("/api/queues", headers=header)
    assert (answer.status_code, answer.headers["x-holdfast-partial"]) == (200, "true")
    # Workers of ours serve it.
    assert len(answer.json()) == QUEUES_MAX
    assert "default" in names_of(answer.json())
    for path in VIEWS:
        seen = await api.get(path, role=Role.VIEWER)
        assert (seen["queuesPartial"], len(seen["queues"])) == (True, QUEUES_MAX)
    assert "holdfast_queues_partial 1.0" in await api.get("/metrics", role=Role.VIEWER)
    assert '"queuesPartial":true' in await api.get("/api/live", role=Role.VIEWER, seconds=0)


@pytest.mark.requirement("B9")
@pytest.mark.catches("queues-without-end")
async def test_queues_that_workers_of_tokens_made_up_do_not_stop_the_views(api: Api) -> None:
    conn = api.shift.world.conn
    await conn.execute(
        "insert into holdfast.workers (id, name, lease_expires_at, queues, kinds, token, lease_seconds)"
        " select gen_random_uuid(), 'w' || n, now() + interval '1 hour',"
        " array(select 'f' || n || '-' || q || repeat('q', 180) from generate_series(1, 50) q),"
        " '{k}', 'x', 3600 from generate_series(1, 400) n"
    )
    await api.shift.world.enqueue("render", queue="default")
    seen = await api.get("/api/now", role=Role.VIEWER)
    assert (seen["queuesPartial"], len(seen["queues"])) == (True, QUEUES_MAX)
    assert "default" in names_of(seen["queues"])
    assert {queue["workers"] for queue in seen["queues"] if queue["name"].startswith("f")} == {1}


@pytest.mark.requirement("B9")
@pytest.mark.catches("workers-of-a-token-without-end")
async def test_a_token_has_a_number_of_live_workers(api: Api) -> None:
    worker: dict[str, Any] = {"name": "w", "kinds": ["render"]}
    made = [
        (await api.post("/api/workers", role=Role.WORKER, code=201, **worker))["worker"]
        for _ in range(LIVE_MAX)
    ]
    said = await api.post("/api/workers", role=Role.WORKER, code=422, **worker)
    assert "200 workers of this token are alive" in said["detail"]
    await api.post(f"/api/workers/{made[0]}/leave", role=Role.WORKER)
    await api.post("/api/workers", role=Role.WORKER, code=201, **worker)
