"""One request against receivers that behave badly: how it ends, and when."""

import asyncio
import ssl
import time

import pytest
import trustme

from holdfast.webhooks.address import networks_of, place_of
from holdfast.webhooks.client import Post
from holdfast.webhooks.connection import KEPT_BYTES, Undelivered
from tests.webhooks.receivers import (
    OK,
    Behaviour,
    answered,
    drips,
    endless_head,
    endless_trailers,
    floods,
    hangs,
    receiver,
    resets,
    resets_halfway,
)

LOOPBACK = networks_of("127.0.0.0/8")
DEADLINE = 1.0
BODY = b'{"a":1}'


@pytest.fixture
def post() -> Post:
    return Post(LOOPBACK)


@pytest.mark.catches("reads-timed-one-by-one")
@pytest.mark.parametrize(
    ("behaviour", "code", "at_least", "at_most"),
    [
        (drips, "timeout", DEADLINE, DEADLINE + 0.5),
        (hangs, "timeout", DEADLINE, DEADLINE + 0.5),
        (resets, "reset", 0.0, DEADLINE),
        (resets_halfway, "reset", 0.0, DEADLINE),
        (endless_head, "protocol", 0.0, DEADLINE),
        (endless_trailers, "protocol", 0.0, DEADLINE),
    ],
)
async def test_b7_no_receiver_holds_a_delivery_longer_than_the_deadline(
    post: Post, behaviour: Behaviour, code: str, at_least: float, at_most: float
) -> None:
    async with receiver(behaviour) as server:
        began = time.monotonic()
        with pytest.raises(Undelivered) as failed:
            await post(place_of(server.url()), {}, BODY, DEADLINE)
        took = time.monotonic() - began
    assert failed.value.code == code
    assert at_least <= took <= at_most


@pytest.mark.catches("answers-without-end")
async def test_of_a_huge_answer_only_the_beginning_is_read(post: Post) -> None:
    async with receiver(floods) as server:
        began = time.monotonic()
        answer = await post(place_of(server.url()), {}, BODY, DEADLINE)
        assert time.monotonic() - began < DEADLINE
    assert (answer.status, answer.head) == (200, "y" * KEPT_BYTES)


async def test_a_redirect_is_an_answer_like_others(post: Post) -> None:
    async with receiver() as inner, receiver(answered(302, f"Location: {inner.url()}")) as server:
        assert (await post(place_of(server.url()), {}, BODY, DEADLINE)).status == 302
        assert inner.requests == []


async def test_what_is_sent_is_what_was_given(post: Post) -> None:
    async with receiver() as server:
        await post(place_of(server.url("/a?b=c")), {"x-one": "1"}, BODY, DEADLINE)
    (request,) = server.requests
    assert (request.path, request.body, request.headers["x-one"]) == ("/a?b=c", BODY, "1")
    assert request.headers["host"] == f"127.0.0.1:{server.port}"


async def test_a_connection_is_used_again_and_one_that_was_let_go_is_no_failure(post: Post) -> None:
    async def closes(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()

    async with receiver(OK, OK, closes, OK) as server:
        for _ in range(4):
            assert (await post(place_of(server.url()), {}, BODY, DEADLINE)).status == 200
        assert (server.connections, len(server.requests)) == (2, 4)


@pytest.mark.parametrize(
    ("raw", "status", "head"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200, "ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, "abc"),
        (answered(500, body=b"\xff\x00b"), 500, "\ufffd\ufffdb"),
    ],
)
async def test_answers_of_all_sorts_are_read(post: Post, raw: bytes, status: int, head: str) -> None:
    async with receiver(raw) as server:
        answer = await post(place_of(server.url()), {}, BODY, DEADLINE)
    assert (answer.status, answer.head) == (status, head)


async def test_an_answer_that_ends_with_the_connection_is_one(post: Post) -> None:
    async def says(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nbye")
        await writer.drain()

    async with receiver(says) as server:
        assert (await post(place_of(server.url()), {}, BODY, DEADLINE)).head == "bye"


@pytest.mark.parametrize("raw", [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 abc\r\n\r\n", b"\x00" * 100])
async def test_what_is_not_http_is_named(post: Post, raw: bytes) -> None:
    async with receiver(raw) as server:
        with pytest.raises(Undelivered) as failed:
            await post(place_of(server.url()), {}, BODY, DEADLINE)
    assert failed.value.code == "protocol"


async def test_nobody_there_is_named(post: Post) -> None:
    async with receiver() as server:
        url = server.url()
    with pytest.raises(Undelivered) as failed:
        await post(place_of(url), {}, BODY, DEADLINE)
    assert failed.value.code == "connect"


@pytest.mark.catches("certificates-unchecked")
async def test_a_certificate_must_be_good_and_for_this_name() -> None:
    authority, stranger = trustme.CA(), trustme.CA()

    def served(of: trustme.CA, name: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        of.issue_cert(name).configure_cert(context)
        return context

    trusts = ssl.create_default_context()
    authority.configure_trust(trusts)
    post = Post(LOOPBACK, tls=trusts)
    async with receiver(tls=served(authority, "127.0.0.1")) as good:
        assert (await post(place_of(good.url()), {}, BODY, 5.0)).status == 200
    for context in (served(stranger, "127.0.0.1"), served(authority, "other.example")):
        async with receiver(tls=context) as bad:
            with pytest.raises(Undelivered) as failed:
                await post(place_of(bad.url()), {}, BODY, 5.0)
            assert (failed.value.code, bad.requests) == ("tls", [])


async def test_the_environment_sends_nothing_through_a_proxy(
    post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiver() as proxy, receiver() as server:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url())
        await post(place_of(server.url()), {}, BODY, DEADLINE)
        assert (len(server.requests), proxy.connections) == (1, 0)


@pytest.mark.catches("idle-connections-kept")
async def test_a_connection_that_nobody_uses_is_let_go(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.webhooks.client.IDLE_SECONDS", 0.05)
    monkeypatch.setattr("holdfast.webhooks.connection.IDLE_SECONDS", 0.05)
    gone = asyncio.Event()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        await reader.read()
        gone.set()

    async with receiver(answers) as server:
        await post(place_of(server.url()), {}, BODY, DEADLINE)
        await asyncio.wait_for(gone.wait(), 5)


async def test_an_address_that_does_not_answer_leaves_time_for_the_next() -> None:
    async with receiver() as server:

        async def resolve(_host: str, _port: int) -> list[str]:
            # The first is a network that nothing answers from.
            return ["198.18.0.1", "127.0.0.1"]

        post = Post(networks_of("198.18.0.0/15, 127.0.0.0/8"), resolve)
        assert (await post(place_of(server.url(host="two.example")), {}, BODY, 4.0)).status == 200
        post.close()
