"""Live updates: the first look at once, the next when something changed."""

import asyncio
import json

import httpx

from holdfast.http.live import Live
from holdfast.ops.tokens import Role
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
