"""The API is told to leave: whoever watches is let go, and nobody holds it up or makes it noisy."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest

from tests.http_api.conftest import serving
from tests.tree import until_true
from tests.world import World


@asynccontextmanager
async def half_a_request(client: httpx.AsyncClient) -> AsyncIterator[None]:
    """One that has been begun and is never ended."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(
        b"POST /api/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\nExpect: 100-continue\r\n"
        b"Authorization: " + client.headers["Authorization"].encode() + b"\r\n\r\n"
    )
    # Now the body is waited for.
    assert b"100 Continue" in await reader.readline()
    yield
    writer.close()


async def _is_closed(client: httpx.AsyncClient) -> bool:
    try:
        await client.get("/healthz", headers={"Connection": "close"})
    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
        # Nobody listens any more; or the door closed between the knock and the answer.
        return True
    return False


@pytest.mark.catches("watchers-hold-it-up")
async def test_whoever_watches_is_let_go(world: World, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    async with serving(world, url) as (client, process), client.stream("GET", "/api/live") as stream:
        # Held by name: a client that lets go of the lines lets go of the connection.
        lines = stream.aiter_lines()
        assert await anext(lines) == "event: board"
        process.terminate()
        assert await asyncio.to_thread(process.wait, 10) in {0, -15}
        assert [line async for line in lines][-2] == ": goodbye"
    assert capfd.readouterr().err.count("\n") == 1, "more than where it is"


@pytest.mark.catches("leaves-when-all-is-answered")
async def test_a_request_that_never_ends_does_not_hold_it_up(
    world: World, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(world, url) as (client, process), half_a_request(client):
        process.terminate()
        assert await asyncio.to_thread(process.wait, 10) in {0, -15}
    said = capfd.readouterr().err
    assert "Cancel 1 running task" in said
    assert "Traceback" not in said


@pytest.mark.catches("told-twice-breaks-off")
async def test_it_leaves_the_same_way_when_told_twice(
    world: World, url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving(world, url) as (client, process), half_a_request(client):
        process.send_signal(signal.SIGINT)
        await until_true(partial(_is_closed, client), 10, "the API to close its door")
        process.send_signal(signal.SIGINT)
        assert await asyncio.to_thread(process.wait, 10) == 0
    said = capfd.readouterr().err
    assert "Cancel 1 running task" in said
    assert "Traceback" not in said
