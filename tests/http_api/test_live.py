"""Live updates: the first look at once, the next when something changed."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from holdfast.http.routes.live import Live
from holdfast.ops.tokens import Role, Tokens
from tests.http_api.conftest import Api


async def test_whoever_watches_is_told_how_things_stand_and_when_that_changes(
    served: httpx.AsyncClient, api: Api
) -> None:
    world = api.shift.world
    async with served.stream("GET", "/api/live", params={"seconds": 20}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        boards = (
            json.loads(line.removeprefix("data: "))
            async for line in stream.aiter_lines()
            if line.startswith("data: ")
        )
        async with asyncio.timeout(20):
            first = await anext(boards)
            assert first["totals"]["failed"] == 0
            await world.enqueue("pay", queue="money")
            async for board in boards:
                if any(queue["name"] == "money" and queue["ready"] == 1 for queue in board["queues"]):
                    break


async def test_one_look_ends_by_itself_and_needs_a_role(api: Api) -> None:
    said = await api.get("/api/live", role=Role.VIEWER, seconds=0)
    assert said.startswith("event: board\n")
    await api.get("/api/live", role=Role.WORKER, code=403, seconds=0)


async def test_no_more_watch_than_there_is_room_for(api: Api) -> None:
    api.app.state.live = Live(api.app.state.service, most=0)
    said = await api.get("/api/live", code=503, seconds=0)
    assert "ask again later" in said["detail"]


@asynccontextmanager
async def watching(api: Api, client: httpx.AsyncClient, role: Role) -> AsyncIterator[AsyncIterator[str]]:
    headers = {"Authorization": f"Bearer {api.tokens[role]}"}
    async with client.stream("GET", "/api/live", headers=headers) as stream:
        assert stream.status_code == 200
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: board"
        yield lines


@pytest.mark.requirement("B9")
@pytest.mark.alone
@pytest.mark.catches("streams-of-revoked-tokens")
async def test_b9_the_stream_of_a_revoked_token_ends_within_two_seconds(
    served: httpx.AsyncClient, api: Api
) -> None:
    conn, tokens = api.shift.world.conn, Tokens(api.shift.settings, by="test")
    (revoked,) = [one for one in await tokens.list(conn) if one.name == "viewer"]
    async with watching(api, served, Role.VIEWER) as lines, watching(api, served, Role.OPERATOR) as others:
        await tokens.revoke(conn, revoked.id)
        began = time.monotonic()
        rest = [line async for line in lines]
        assert time.monotonic() - began < 2
        assert rest[-2] == ": goodbye"
        # Another's goes on.
        await api.shift.world.enqueue("pay", queue="money")
        async with asyncio.timeout(10):
            async for line in others:
                if "money" in line:
                    break


async def test_the_stream_of_a_session_ends_with_it(served: httpx.AsyncClient, api: Api) -> None:
    async with httpx.AsyncClient(base_url=served.base_url) as client:
        begun = await client.post("/api/session", json={"token": api.tokens[Role.VIEWER]})
        cookie = begun.headers["set-cookie"].partition(";")[0]
        async with client.stream("GET", "/api/live", headers={"Cookie": cookie}) as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == "event: board"
            gone = await client.delete("/api/session", headers={"Cookie": cookie})
            assert gone.status_code == 204
            async with asyncio.timeout(5):
                assert [line async for line in lines][-2] == ": goodbye"
