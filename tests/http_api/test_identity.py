"""Who is believed: names spelled otherwise, hosts that nobody named, logins without rights."""

import logging
from typing import Any

import httpx
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.config import Settings
from holdfast.http import proxies
from holdfast.http.application import create
from holdfast.http.identity import Auth
from holdfast.http.proxies import Proxy
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api
from tests.world import World

PROXY = Proxy.of("10.0.0.7", "X-Forwarded-User", "X-Forwarded-Groups", "what the proxy knows")
BY = {"X-Holdfast-Proxy-Secret": "what the proxy knows", "X-Forwarded-Groups": "holdfast-operator"}


def client_of(settings: Settings, peer: str = "10.0.0.7", **options: Any) -> httpx.AsyncClient:
    app = create(settings, **options)
    transport = httpx.ASGITransport(app, client=(peer, 4_000), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8410")


@pytest.mark.requirement("B9")
@pytest.mark.catches("host-made-up")
async def test_b9_without_authentication_a_request_names_this_machine(api: Api) -> None:
    """A name that cannot be read was taken for the address of the server."""
    async with client_of(api.shift.settings, auth=Auth.NONE) as client:
        for host, code in (
            ("localhost", 200),
            ("LOCALHOST:8410", 200),
            ("[::1]:8410", 200),
            ("", 403),
            ("evil.test{1", 403),
            ("evil_.test:99999", 403),
            ("localhost.evil.test", 403),
            ("x@localhost", 403),
        ):
            answer = await client.get("/api/me", headers={"Host": host})
            assert answer.status_code == code, host
        request = client.build_request("GET", "/api/me")
        del request.headers["host"]
        assert (await client.send(request)).status_code == 403


@pytest.mark.requirement("B9")
@pytest.mark.catches("spelled-otherwise-approves")
@pytest.mark.parametrize("other", [b"ADA", b"Ada", "\uff41da".encode()])
async def test_b9_a_plan_is_not_approved_by_its_author_spelled_otherwise(api: Api, other: bytes) -> None:
    proxied = PROXY
    seen = set()
    for name in (b"ada", other):
        async with client_of(api.shift.settings, auth=Auth.PROXY, proxy=proxied) as client:
            raw = [(k.encode(), v.encode()) for k, v in BY.items()] + [(b"X-Forwarded-User", name)]
            answer = await client.post("/api/queues/money/pause", json={"reason": "x"}, headers=raw)
            assert answer.status_code == 200, answer.text
    cursor = await api.shift.world.conn.execute(
        "select distinct token from holdfast.audit_log where action = 'QUEUE_PAUSE'"
    )
    seen = {token for (token,) in await cursor.fetchall()}
    assert seen == {"proxy:ada"}


async def test_names_that_could_be_taken_for_others_are_refused(api: Api) -> None:
    async with client_of(api.shift.settings, auth=Auth.PROXY, proxy=PROXY) as client:
        for name in (b"\xa0ada", "ada\u200b".encode(), b"ev\xc3\xa9\x01"):
            raw = [(k.encode(), v.encode()) for k, v in BY.items()] + [(b"X-Forwarded-User", name)]
            assert (await client.get("/api/me", headers=raw)).status_code == 403, name
        answer = await client.get("/api/me", headers=BY)
        assert (answer.status_code, "X-Forwarded-User" in answer.json()["detail"]) == (403, True)


async def test_a_request_past_the_proxy_is_logged_once_a_minute(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "_logged_at", -60.0)
    with caplog.at_level(logging.WARNING, "holdfast.http"):
        async with client_of(api.shift.settings, "10.0.0.9", auth=Auth.PROXY, proxy=PROXY) as client:
            for _ in range(3):
                answer = await client.get("/api/me", headers=BY)
                assert answer.status_code == 401
                assert "did not come from the configured proxy" in answer.json()["detail"]
    (line,) = caplog.messages
    assert "10.0.0.9" in line


@pytest.mark.parametrize("name", ["a" * 300, "a" * 5_000, "é" * 100])
async def test_an_asset_of_an_odd_name_is_not_found(api: Api, name: str) -> None:
    assert (await api.client.get(f"/ops/assets/{name}")).status_code in {404, 307}


async def test_a_filter_that_the_database_refuses_begins_no_export(api: Api) -> None:
    await api.get("/api/tasks/audit-logs/export", role=Role.VIEWER, code=422, subject="\x00")


async def test_reading_that_another_site_began_is_refused(api: Api) -> None:
    async with client_of(api.shift.settings, auth=Auth.NONE) as client:
        for site, code in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
            answer = await client.get("/api/me", headers={"Sec-Fetch-Site": site})
            assert answer.status_code == code
            # Pages may be opened from anywhere.
            assert (await client.get("/ops", headers={"Sec-Fetch-Site": site})).status_code != 403


async def test_a_login_without_rights_is_named_and_is_not_ready(world: World, url: str) -> None:
    await world.conn.execute(
        "do $$ begin create role a_login_of_nothing login;"
        " exception when duplicate_object or unique_violation then null; end $$"
    )
    await world.conn.execute("grant usage on schema holdfast to a_login_of_nothing")
    await world.conn.execute("grant select on holdfast.migrations to a_login_of_nothing")
    settings = Settings(database_url=make_conninfo(url, user="a_login_of_nothing"))
    async with client_of(settings, auth=Auth.NONE) as client:
        for path in ("/readyz", "/api/tasks"):
            answer = await client.get(path)
            assert answer.status_code == 503, answer.text
            assert "a_login_of_nothing" in answer.json()["detail"]
            assert "holdfast migrate --grants" in answer.json()["detail"]
