"""What one client may use at once: exports, streams, sessions, connections of the pool."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message

from holdfast.config import Settings
from holdfast.http.auth import SESSIONS_BURST
from holdfast.http.pool import CONNECTIONS
from holdfast.http.quotas import Rates
from holdfast.http.routes.live import WATCHERS_PER_TOKEN
from holdfast.http.service import Service
from holdfast.ops.sessions import OPEN_MAX
from holdfast.ops.tokens import Role, Tokens
from tests.http_api.conftest import Api
from tests.tree import until_true

ENTRIES = """
select holdfast.note_tasks('TEST', 'ada', repeat('x', 200), array_fill(gen_random_uuid(), array[%s::integer]))
"""
EXPORT = "/api/tasks/audit-logs/export"


class Call:
    """A call of the app by a client that reads nothing after the first piece of the answer's body."""

    def __init__(self, api: Api, path: str, token: str, query: str = "") -> None:
        self.status = 0
        self.first = asyncio.Event()
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(b"host", b"api.test"), (b"authorization", f"Bearer {token}".encode())],
            "client": ("127.0.0.1", 4_000),
            "server": ("127.0.0.1", 80),
        }
        self._gone, self._asked = asyncio.Event(), False
        self.task = asyncio.create_task(api.app(self._scope, self._receive, self._send))

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message.get("body") or not message.get("more_body"):
            self.first.set()
            if message.get("more_body"):
                await self._gone.wait()

    async def answered(self) -> int:
        await asyncio.wait_for(self.first.wait(), 10)
        return self.status

    async def close(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self.task, 10)


@asynccontextmanager
async def calls(api: Api, path: str, *tokens: str) -> AsyncIterator[list[Call]]:
    """Calls that are not read to their end; the one before has its answer before the next is made."""
    made: list[Call] = []
    try:
        for token in tokens:
            made.append(Call(api, path, token))
            await made[-1].answered()
        yield made
    finally:
        for one in made:
            await one.close()


async def another(api: Api, role: Role) -> str:
    """Another token of a role."""
    tokens = Tokens(Settings(database_url=api.shift.world.url), by="test")
    return (await tokens.create(api.shift.world.conn, f"another {role}", role, None)).token


def free(api: Api) -> bool:
    """Whether no connection of the pool is in use."""
    service: Service = api.app.state.service
    stats = service.pool._pool.get_stats()
    return stats["pool_available"] == stats["pool_size"]


@asynccontextmanager
async def a_busy_pool(api: Api) -> AsyncIterator[Service]:
    """Every connection of the pool is in use."""
    service: Service = api.app.state.service
    async with AsyncExitStack() as stack:
        for _ in range(CONNECTIONS):
            await stack.enter_async_context(service.pool.connection())
        yield service


@pytest.mark.requirement("B9")
@pytest.mark.catches("export-holds-a-connection")
async def test_an_export_that_nobody_reads_holds_no_connection(api: Api) -> None:
    await api.shift.world.conn.execute(ENTRIES, [2_500])
    async with calls(api, EXPORT, api.tokens[Role.VIEWER]) as (call,):
        assert call.status == 200
        assert free(api)


async def test_an_export_has_every_entry_of_every_page(api: Api) -> None:
    await api.shift.world.conn.execute(ENTRIES, [2_500])
    text = await api.get(EXPORT, role=Role.VIEWER, auditAction="TEST", format="csv")
    assert text.count("\r\n") == 2_501


@pytest.mark.catches("exports-without-end")
async def test_one_export_at_once_for_a_token_and_two_for_the_process(api: Api) -> None:
    await api.shift.world.conn.execute(ENTRIES, [2_500])
    tokens = [
        api.tokens[Role.VIEWER],
        api.tokens[Role.VIEWER],
        api.tokens[Role.OPERATOR],
        api.tokens[Role.ADMIN],
    ]
    async with calls(api, EXPORT, *tokens) as made:
        assert [one.status for one in made] == [200, 429, 200, 503]
        answer = await api.client.get(EXPORT, headers={"Authorization": f"Bearer {tokens[0]}"})
        assert answer.headers["retry-after"] == "10"
        assert answer.headers["content-type"] == "application/problem+json"
        assert "one token may have 1 exports" in answer.json()["detail"]
    await api.get(EXPORT, role=Role.VIEWER, format="csv")


async def test_streams_have_a_cap_for_each_token(api: Api) -> None:
    viewer = [api.tokens[Role.VIEWER]] * (WATCHERS_PER_TOKEN + 1)
    async with calls(api, "/api/live", *viewer, api.tokens[Role.OPERATOR]) as made:
        assert [one.status for one in made] == [200] * WATCHERS_PER_TOKEN + [429, 200]
    await api.get("/api/live", role=Role.VIEWER, seconds=0)


@pytest.mark.catches("one-token-takes-the-pool")
async def test_a_token_whose_requests_are_slow_leaves_connections_to_others(
    api: Api, direct_url: str
) -> None:
    await api.get("/api/me", role=Role.VIEWER)
    other = await api.shift.world.open_direct(direct_url)
    await other.execute("begin; lock table holdfast.plans in access exclusive mode")
    header = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
    slow = [asyncio.create_task(api.client.get("/api/plans", headers=header)) for _ in range(3 * CONNECTIONS)]

    service: Service = api.app.state.service

    async def waiting() -> bool:
        return service.pool._pool.get_stats()["requests_num"] > 5

    await until_true(waiting, 5, "the slow requests to begin")
    began = time.monotonic()
    await api.get("/api/me", role=Role.OPERATOR)
    assert time.monotonic() - began < 1
    await other.execute("rollback")
    codes = {answer.status_code for answer in await asyncio.gather(*slow)}
    assert codes <= {200, 429, 503}


def begun_by(api: Api, token: str) -> Awaitable[httpx.Response]:
    here = {"Origin": "http://api.test", "Sec-Fetch-Site": "same-origin"}
    return api.client.post("/api/session", json={"token": token}, headers=here)


@pytest.mark.catches("sessions-without-end")
async def test_a_token_has_twenty_sessions_and_the_oldest_ends(api: Api) -> None:
    token = api.tokens[Role.VIEWER]
    first = (await begun_by(api, token)).cookies
    await api.shift.world.conn.execute(
        "insert into holdfast.api_sessions (secret_hash, token, csrf, begun_at, seen_at, expires_at)"
        " select sha256(n::text::bytea), s.token, 'x', now(), now(), s.expires_at"
        " from holdfast.api_sessions s, generate_series(1, %s) n",
        [OPEN_MAX - 1],
    )
    name, secret = next(iter(first.items()))
    answer = await api.client.get("/api/me", headers={"Cookie": f"{name}={secret}"})
    assert answer.status_code == 200
    assert (await begun_by(api, token)).status_code == 201
    assert await api.shift.world.rows("api_sessions") == OPEN_MAX
    api.client.cookies.clear()
    answer = await api.client.get("/api/me", headers={"Cookie": f"{name}={secret}"})
    assert answer.status_code == 401


@pytest.mark.catches("sessions-at-any-rate", "workers-begin-sessions")
async def test_sessions_have_a_rate_and_are_not_for_workers(api: Api) -> None:
    answer = await begun_by(api, api.tokens[Role.WORKER])
    assert (answer.status_code, "for people" in answer.json()["detail"]) == (403, True)
    codes = [
        (await begun_by(api, api.tokens[Role.VIEWER])).status_code for _ in range(int(SESSIONS_BURST) + 15)
    ]
    assert codes[: int(SESSIONS_BURST)] == [201] * int(SESSIONS_BURST)
    assert 429 in codes
    assert await api.shift.world.rows("api_sessions") <= OPEN_MAX


@pytest.mark.catches("anybody-takes-a-connection")
async def test_a_request_without_a_credential_takes_no_connection(api: Api) -> None:
    async with a_busy_pool(api):
        for header in (
            {},
            {"Authorization": "Bearer nonsense"},
            {"Authorization": "Basic YTpi"},
            {"Cookie": "__Host-holdfast=nonsense"},
        ):
            answer = await asyncio.wait_for(api.client.get("/api/queues", headers=header), 1)
            assert answer.status_code == 401


@pytest.mark.catches("guesses-take-connections")
async def test_guesses_are_looked_up_together(api: Api) -> None:
    await api.get("/api/me")
    service: Service = api.app.state.service
    before = service.pool._pool.get_stats()["requests_num"]

    def guess(number: int) -> Awaitable[httpx.Response]:
        token = f"hf_{number:012d}." + "a" * 43
        return api.client.get("/api/queues", headers={"Authorization": f"Bearer {token}"})

    answers = await asyncio.gather(*[guess(number) for number in range(300)])
    assert {answer.status_code for answer in answers} == {401}
    assert service.pool._pool.get_stats()["requests_num"] - before <= 10
    # A good token among them is let in, and one that was never seen before.
    _, answer = await asyncio.gather(
        guess(1),
        api.client.get("/api/me", headers={"Authorization": f"Bearer {await another(api, Role.VIEWER)}"}),
    )
    assert answer.status_code == 200


async def test_requests_above_the_rate_take_no_connection(api: Api) -> None:
    service: Service = api.app.state.service
    service.auth._rate = 1.0
    codes = [(await api.client.get("/api/me", headers=_of(api))).status_code for _ in range(6)]
    assert codes[:4] == [200] * 4
    assert 429 in codes
    async with a_busy_pool(api):
        service.auth._rates.take(api.tokens[Role.VIEWER][3:15], 1.0, 4.0)
        answer = await asyncio.wait_for(api.client.get("/api/me", headers=_of(api)), 1)
        assert answer.status_code == 429


def _of(api: Api) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}


def test_the_table_of_rates_forgets_who_was_not_seen_for_longest() -> None:
    rates = Rates(keys_max=3)
    assert rates.take("a", 1, 1)
    assert not rates.take("a", 1, 1)
    for key in ("b", "c", "a", "d"):
        rates.take(key, 1, 1)
    assert len(rates) == 3
    assert not rates.take("a", 1, 1)
    assert rates.take("b", 1, 1)


@pytest.mark.catches("readiness-from-the-pool")
async def test_it_is_ready_while_every_connection_of_the_pool_is_in_use(api: Api) -> None:
    async with a_busy_pool(api):
        answers = await asyncio.wait_for(asyncio.gather(*[api.client.get("/readyz") for _ in range(50)]), 2)
        assert {answer.status_code for answer in answers} == {200}


async def test_whoever_asks_at_once_is_given_one_check(api: Api) -> None:
    conn = api.shift.world.conn
    await api.client.get("/readyz")
    await asyncio.gather(*[api.client.get("/readyz") for _ in range(50)])
    readiness = api.app.state.readiness
    assert readiness._conn.info.backend_pid
    # The connection ends while nobody looks: the next look opens another.
    await conn.execute("select pg_terminate_backend(%s)", [readiness._conn.info.backend_pid])
    readiness._checked_at = 0.0
    assert (await api.client.get("/readyz")).status_code == 200
    # It is no longer at the version that this package needs.
    await conn.execute("update holdfast.migrations set number = number + 1000 where number = 1")
    try:
        readiness._checked_at = 0.0
        assert (await api.client.get("/readyz")).status_code == 503
    finally:
        await conn.execute("update holdfast.migrations set number = number - 1000 where number = 1001")
