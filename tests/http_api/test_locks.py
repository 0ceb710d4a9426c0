"""Another session locks a table that the API needs: whoever asks is told, and no backends pile up."""

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from holdfast.config import Settings
from holdfast.http.application import create
from holdfast.http.pool import ANSWER_SECONDS, LOCK_SECONDS
from holdfast.ops.tokens import Role, Tokens
from tests.world import World

BACKENDS = """
select count(*) from pg_stat_activity
where application_name = 'holdfast api' and datname = current_database()
"""


@pytest.fixture
async def client(world: World, direct_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Of an API past any pooler, which would not pass on how long a lock may be waited for."""
    settings = Settings(database_url=direct_url)
    app = create(settings)
    token = (await Tokens(settings, by="test").create(world.conn, "ada", Role.VIEWER, None)).token
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app, raise_app_exceptions=False),
            base_url="http://api.test",
            headers={"Authorization": f"Bearer {token}"},
        ) as client,
    ):
        yield client


@pytest.mark.catches("api-waits-for-any-lock")
@pytest.mark.parametrize(("table", "path"), [("api_tokens", "/api/queues"), ("plans", "/api/plans")])
async def test_a_locked_table_is_said_to_be_locked(
    world: World, client: httpx.AsyncClient, direct_url: str, table: str, path: str
) -> None:
    assert (await client.get("/api/queues")).status_code == 200
    other = await world.open_direct(direct_url)
    await other.execute(f"begin; lock table holdfast.{table} in access exclusive mode".encode())
    began = time.monotonic()
    answer = await client.get(path)
    assert (answer.status_code, "locked" in answer.json()["detail"]) == (503, True)
    assert LOCK_SECONDS < time.monotonic() - began < ANSWER_SECONDS
    for _ in range(2):
        assert (await client.get(path)).status_code == 503
    # The pool has a second one ready while the first is in use.
    assert await (await other.execute(BACKENDS)).fetchone() in {(1,), (2,)}
    await other.execute("rollback")
    assert (await client.get(path)).status_code == 200
