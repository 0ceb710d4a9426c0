"""A database that is away, in silence or with a refusal: it is said in time, and seen when it is back."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.config import Settings
from holdfast.http.application import create
from holdfast.http.pool import ANSWER_SECONDS, CONNECT_SECONDS, LOGIN_SECONDS
from holdfast.http.service import Service
from holdfast.ops.tokens import Role, Tokens
from tests.chaos.proxy import Proxy
from tests.cluster import free_port
from tests.tree import until_true
from tests.world import World

# After so long a pool that doubles its waits would look again only after another quarter of a minute.
OUTAGE_SECONDS = 17.0
SLOW_MACHINE_SECONDS = 3.0


@pytest.fixture
def proxy(world: World) -> Iterator[Proxy]:
    proxy = Proxy(free_port(), int(str(conninfo_to_dict(world.url)["port"])), seed=1)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture
async def app(world: World, proxy: Proxy) -> AsyncIterator[FastAPI]:
    app = create(Settings(database_url=make_conninfo(world.url, host="127.0.0.1", port=proxy.port)))
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(world: World, app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    known = Tokens(Settings(database_url=world.url), by="test")
    token = (await known.create(world.conn, "ada", Role.VIEWER, None)).token
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False),
        base_url="http://api.test",
        headers={"Authorization": f"Bearer {token}"},
    ) as client:
        yield client


async def works(client: httpx.AsyncClient) -> bool:
    return (await client.get("/api/queues")).status_code == 200


async def fails(client: httpx.AsyncClient) -> bool:
    return (await client.get("/api/queues")).status_code == 503


@pytest.mark.catches("silence-is-waited-out")
@pytest.mark.parametrize("path", ["/api/queues", "/readyz"])
async def test_a_silent_database_is_said_to_be_away(
    client: httpx.AsyncClient, proxy: Proxy, path: str
) -> None:
    assert await works(client)
    proxy.silent = True
    began = time.monotonic()
    async with asyncio.timeout(4 * ANSWER_SECONDS):
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["detail"]) == (503, "the database cannot be reached")
    assert time.monotonic() - began < ANSWER_SECONDS + SLOW_MACHINE_SECONDS
    proxy.silent = False
    await until_true(lambda: works(client), LOGIN_SECONDS + CONNECT_SECONDS, "the database is back")


@pytest.mark.catches("silence-in-the-middle-is-waited-out")
async def test_a_database_that_falls_silent_in_the_middle_of_a_request_is_hung_up_on(
    app: FastAPI, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.http.pool.REQUEST_SECONDS", 1.0)
    service: Service = app.state.service

    async def ask() -> None:
        async with service.pool.connection() as conn, service.pool.bounded(conn, writes=False):
            proxy.silent = True
            await conn.execute("select")

    with pytest.raises(psycopg.OperationalError):
        await asyncio.wait_for(ask(), 4 * ANSWER_SECONDS)


@pytest.mark.catches("looks-ever-later")
async def test_a_database_is_seen_soon_after_it_is_back(client: httpx.AsyncClient, proxy: Proxy) -> None:
    assert await works(client)
    proxy.refusing = True
    proxy.cut_all()
    await until_true(lambda: fails(client), SLOW_MACHINE_SECONDS, "the cut")
    began = time.monotonic()
    while time.monotonic() - began < OUTAGE_SECONDS:
        assert await fails(client)
    proxy.refusing = False
    await until_true(lambda: works(client), CONNECT_SECONDS + SLOW_MACHINE_SECONDS, "the database is back")
