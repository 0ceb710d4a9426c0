"""Clients that send half a request, or read nothing: they are cut off in time and keep nobody out."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from holdfast.http import middleware, protocol
from holdfast.http.middleware import BODY_BYTES_MAX
from tests.http_api.conftest import serving
from tests.http_api.test_quotas import ENTRIES, EXPORT
from tests.tree import until_true
from tests.world import World

HALF_HEADERS = b"GET /api/queues HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = (
    b"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"token": '
)
# The deadlines and the number of connections of the API under test are this much smaller than the real ones.
HASTE = 5
HEADERS_SECONDS = protocol.HEADERS_SECONDS / HASTE
BODY_SECONDS = middleware.BODY_SECONDS / HASTE
UNREAD_BODY_SECONDS = protocol.BODY_SECONDS / HASTE
SEND_SECONDS = protocol.SEND_SECONDS / HASTE
CONNECTIONS_MAX = protocol.CONNECTIONS_MAX // HASTE
# The server looks once a second, and other tests run meanwhile.
SLACK_SECONDS = 15.0


@pytest.fixture
async def hasty(world: World, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API with short deadlines."""
    async with serving(world, url, "tests.hasty_app:app", HOLDFAST_TEST_HASTE=str(HASTE)) as (client, _):
        yield client


def test_the_real_deadlines_are_those_of_the_documentation() -> None:
    assert (protocol.HEADERS_SECONDS, middleware.BODY_SECONDS, protocol.SEND_SECONDS) == (10, 10, 15)
    # What is read as a body is answered with 408, before the connection is closed.
    assert protocol.BODY_SECONDS == 12
    assert protocol.PHASE_SECONDS == {"idle": 10, "headers": 10, "body": 12}
    assert protocol.CONNECTIONS_MAX == 2_000


class Half:
    """A connection that has sent a part of a request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.began = time.monotonic()

    async def ended(self) -> tuple[bytes, float]:
        """What was answered, and after how long the connection ended."""
        try:
            answer = await self.reader.read()
        except ConnectionError:
            answer = b""
        return answer, time.monotonic() - self.began


@asynccontextmanager
async def half_sent(client: httpx.AsyncClient, sent: bytes, count: int = 1) -> AsyncIterator[list[Half]]:
    made: list[Half] = []
    try:
        for _ in range(count):
            connection = await asyncio.open_connection(client.base_url.host, client.base_url.port)
            made.append(Half(*connection))
            made[-1].writer.write(sent)
        yield made
    finally:
        for one in made:
            one.writer.close()


@pytest.mark.catches("headers-take-for-ever")
async def test_headers_that_do_not_end_are_cut_off(hasty: httpx.AsyncClient) -> None:
    async with half_sent(hasty, HALF_HEADERS) as (half,):
        async with asyncio.timeout(HEADERS_SECONDS + SLACK_SECONDS):
            ended = asyncio.create_task(half.ended())
            # A byte now and then gives no more time.
            while not ended.done():
                half.writer.write(b"a")
                await asyncio.wait([ended], timeout=1)
        answer, seconds = await ended
        assert (answer, seconds > HEADERS_SECONDS - 0.5) == (b"", True)


@pytest.mark.catches("bodies-take-for-ever")
async def test_a_body_that_does_not_end_is_answered_with_408(hasty: httpx.AsyncClient) -> None:
    async with half_sent(hasty, HALF_BODY) as (half,):
        async with asyncio.timeout(BODY_SECONDS + SLACK_SECONDS):
            answer, seconds = await half.ended()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"application/problem+json" in answer
        assert seconds > BODY_SECONDS - 0.5


async def test_a_body_that_was_refused_does_not_go_on_for_ever(hasty: httpx.AsyncClient) -> None:
    head = b"POST /api/session HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n%s\r\n" % (BODY_BYTES_MAX + 1, b"x" * (BODY_BYTES_MAX + 1))
    async with half_sent(hasty, head + chunk) as (half,):
        assert b"413" in await half.reader.readline()
        ended = asyncio.create_task(half.ended())
        async with asyncio.timeout(UNREAD_BODY_SECONDS + SLACK_SECONDS):
            while not ended.done():
                half.writer.write(b"1\r\nx\r\n")
                await asyncio.wait([ended], timeout=1)


@pytest.mark.catches("unread-for-ever")
async def test_a_client_that_reads_nothing_is_cut_off_and_its_export_ends(
    hasty: httpx.AsyncClient, world: World
) -> None:
    await world.conn.execute(ENTRIES.replace("200", "2000"), [9_000])
    token = hasty.headers["Authorization"].encode()
    sent = (
        b"GET " + EXPORT.encode() + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + token + b"\r\n\r\n"
    )
    async with half_sent(hasty, sent) as (unread,):
        assert b"200" in await unread.reader.readline()
        # Its buffer is full, and nothing more is read.
        unread.writer.transport.pause_reading()  # type: ignore[attr-defined]
        assert (await hasty.get(EXPORT)).status_code == 429

        async def may_export() -> bool:
            return (await hasty.get(EXPORT, params={"auditAction": "NONE"})).status_code == 200

        await until_true(may_export, SEND_SECONDS + SLACK_SECONDS, "the slot of the export")


@pytest.mark.requirement("B9")
@pytest.mark.catches("newest-is-closed")
@pytest.mark.parametrize("sent", [HALF_HEADERS, HALF_BODY, b""], ids=["headers", "body", "nothing"])
async def test_b9_half_sent_requests_keep_nobody_out(hasty: httpx.AsyncClient, sent: bytes) -> None:
    async with half_sent(hasty, sent, CONNECTIONS_MAX + 40) as halves:
        for _ in range(5):
            answer = await hasty.get("/api/me", headers={"Connection": "close"})
            assert answer.status_code == 200
        async with asyncio.timeout(HEADERS_SECONDS + SLACK_SECONDS):
            seconds = [one[1] for one in await asyncio.gather(*[half.ended() for half in halves])]
        # Those above the cap ended at once, the oldest first.
        assert max(seconds) < HEADERS_SECONDS + SLACK_SECONDS


@pytest.mark.catches("acts-of-half-a-request")
async def test_half_a_request_does_nothing(served: httpx.AsyncClient, world: World) -> None:
    token = served.headers["Authorization"].encode()
    sent = (
        b"POST /api/queues/default/resume HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n"
        b"Authorization: " + token + b"\r\nIdempotency-Key: half\r\n\r\n"
    )
    async with half_sent(served, sent) as (half,):
        half.writer.close()
        await half.writer.wait_closed()
    for _ in range(5):
        assert (await served.get("/api/queues")).status_code == 200
    assert await world.rows("api_answers") == 0
    assert await world.rows("audit_log") == 1, "its own token was made"
