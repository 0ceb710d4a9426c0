"""Browsers: sessions with a cookie, acts that other sites begin, people whom a proxy knows."""

from typing import Any

import httpx
import pytest
from httpx._types import HeaderTypes

from holdfast.core.errors import Misused
from holdfast.http.application import create
from holdfast.http.identity import COOKIE, Auth
from holdfast.http.proxies import SECRET_HEADER, Proxy
from holdfast.ops.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS
from holdfast.ops.tokens import Role, Tokens
from tests.http_api.conftest import Api

HERE = {"Origin": "https://api.test", "Sec-Fetch-Site": "same-origin"}


class Browser:
    """A browser that has shown a token; it does what browsers do by themselves."""

    def __init__(self, api: Api) -> None:
        transport = httpx.ASGITransport(api.app, raise_app_exceptions=False)
        self.client = httpx.AsyncClient(transport=transport, base_url="https://api.test")
        self.csrf = ""
        self._tokens = api.tokens

    async def begin(self, role: Role = Role.OPERATOR) -> httpx.Response:
        answer = await self.client.post("/api/session", json={"token": self._tokens[role]}, headers=HERE)
        assert answer.status_code == 201, answer.text
        self.csrf = answer.json()["csrfToken"]
        return answer

    async def act(self, **headers: str) -> httpx.Response:
        path = "/api/queues/default/pause"
        return await self.client.post(path, json={"reason": "x"}, headers=headers)


@pytest.mark.catches("cookie-for-scripts")
async def test_a_session_is_a_cookie_for_this_site_and_its_word_comes_with_every_act(api: Api) -> None:
    browser = Browser(api)
    begun = await browser.begin()
    cookie = begun.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    for part in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert part in cookie
    assert "Domain" not in cookie
    me = (await browser.client.get("/api/me")).json()
    assert (me["role"], me["csrfToken"]) == ("operator", browser.csrf)
    assert (await browser.act(**HERE, **{"X-CSRF-Token": browser.csrf})).status_code == 200
    # The audit knows whose session it was.
    entries = (await browser.client.get("/api/tasks/audit-logs")).json()["items"]
    assert entries[0]["actor"] == "operator"
    gone = await browser.client.delete("/api/session", headers=HERE)
    assert gone.status_code == 204
    assert (await browser.client.get("/api/me")).status_code == 401


@pytest.mark.requirement("B9")
@pytest.mark.catches("acts-without-their-word", "other-sites-may-act")
@pytest.mark.parametrize(
    "headers",
    [
        {**HERE},
        {**HERE, "X-CSRF-Token": "guessed"},
        {"Origin": "https://evil.test", "X-CSRF-Token": "right"},
        {"Origin": "null", "X-CSRF-Token": "right"},
        {"Sec-Fetch-Site": "cross-site", "X-CSRF-Token": "right"},
        {"Sec-Fetch-Site": "same-site", "X-CSRF-Token": "right"},
        {"Origin": "https://api.test.evil.test", "X-CSRF-Token": "right"},
    ],
)
async def test_b9_an_act_that_another_site_began_is_refused(api: Api, headers: dict[str, str]) -> None:
    browser = Browser(api)
    await browser.begin()
    if headers.get("X-CSRF-Token") == "right":
        headers = {**headers, "X-CSRF-Token": browser.csrf}
    assert (await browser.act(**headers)).status_code == 403
    assert await api.shift.world.rows("queues") == 0


async def test_a_session_begun_by_another_site_or_with_a_bad_token_is_none(api: Api) -> None:
    client = Browser(api).client
    for headers, token, code in (
        ({"Origin": "https://evil.test"}, api.tokens[Role.ADMIN], 403),
        (HERE, "hf_nonsense", 401),
    ):
        answer = await client.post("/api/session", json={"token": token}, headers=headers)
        assert answer.status_code == code
        assert "set-cookie" not in answer.headers
    assert (await client.delete("/api/session", headers=HERE)).status_code == 401


@pytest.mark.catches("sessions-never-idle", "sessions-for-ever", "sessions-of-revoked-tokens")
@pytest.mark.parametrize("how", ["idle", "old", "revoked", "expired"])
async def test_a_session_ends_by_time_and_with_its_token(api: Api, how: str) -> None:
    browser = Browser(api)
    await browser.begin()
    conn = api.shift.world.conn
    match how:
        case "idle":
            await conn.execute(
                "update holdfast.api_sessions set seen_at = now() - make_interval(secs => %s)",
                [IDLE_SECONDS + 1],
            )
        case "old":
            await conn.execute(
                "update holdfast.api_sessions set expires_at = expires_at - make_interval(secs => %s)",
                [ABSOLUTE_SECONDS + 1],
            )
        case "revoked":
            tokens = Tokens(api.shift.settings, by="test")
            for token in await tokens.list(conn):
                await tokens.revoke(conn, token.id)
        case _:
            await conn.execute("update holdfast.api_tokens set expires_at = now()")
    assert (await browser.client.get("/api/me")).status_code == 401


def proxy_at(addresses: str, secret: str = "") -> Proxy:
    return Proxy.of(addresses, "X-Forwarded-User", "X-Forwarded-Groups", secret)


async def asked_of(
    api: Api,
    path: str,
    headers: HeaderTypes,
    peer: str,
    at: str = "http://localhost:8410",
    **options: Any,
) -> httpx.Response:
    app = create(api.shift.settings, **options)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False, client=(peer, 4_000))
        async with httpx.AsyncClient(transport=transport, base_url=at) as client:
            if path == "/api/me":
                return await client.get(path, headers=headers)
            return await client.post(path, json={"reason": "x"}, headers=headers)


@pytest.mark.catches("any-proxy", "proxy-makes-admins")
@pytest.mark.parametrize(
    ("peer", "headers", "path", "code"),
    [
        (
            "10.0.0.7",
            {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "staff, holdfast-viewer"},
            "/api/me",
            200,
        ),
        ("10.0.0.8", {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "holdfast-admin"}, "/api/me", 401),
        ("10.0.0.7", {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "staff"}, "/api/me", 403),
        ("10.0.0.7", {"X-Forwarded-Groups": "holdfast-admin"}, "/api/me", 403),
        ("10.0.0.7", {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "holdfast-viewer"}, "pause", 403),
        ("10.0.0.7", {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "holdfast-operator"}, "pause", 200),
        (
            "10.0.0.7",
            {
                "X-Forwarded-User": "ada",
                "X-Forwarded-Groups": "holdfast-admin",
                "Origin": "https://evil.test",
            },
            "pause",
            403,
        ),
    ],
)
async def test_a_proxy_is_believed_from_its_address_and_for_its_groups(
    api: Api, peer: str, headers: dict[str, str], path: str, code: int
) -> None:
    path = "/api/queues/default/pause" if path == "pause" else path
    proxy = proxy_at("10.0.0.7")
    answer = await asked_of(api, path, headers, peer, auth=Auth.PROXY, proxy=proxy)
    assert answer.status_code == code, answer.text
    # What it says of people is worth nothing where it was not asked for.
    assert (await asked_of(api, "/api/me", headers, peer)).status_code == 401


NAMED = {"X-Forwarded-User": "ada", "X-Forwarded-Groups": "holdfast-admin"}
SHARED = "what the proxy knows"


async def test_a_network_of_proxies_is_believed(api: Api) -> None:
    proxy = proxy_at("10.1.0.0/16, fd00::/8, 192.0.2.7")
    for peer, code in (
        ("10.1.2.3", 200),
        ("::ffff:10.1.2.3", 200),
        ("fd00::7", 200),
        ("192.0.2.7", 200),
        ("10.2.0.1", 401),
        ("192.0.2.8", 401),
        ("fe80::1", 401),
    ):
        answer = await asked_of(api, "/api/me", NAMED, peer, auth=Auth.PROXY, proxy=proxy)
        assert answer.status_code == code, peer


@pytest.mark.requirement("B9")
@pytest.mark.catches("first-header-wins")
@pytest.mark.parametrize("name", ["X-Forwarded-User", "X-Forwarded-Groups", SECRET_HEADER])
async def test_b9_an_identity_header_that_was_sent_twice_is_refused(api: Api, name: str) -> None:
    headers = [*NAMED.items(), (SECRET_HEADER, SHARED), (name.lower(), "holdfast-viewer")]
    proxy = proxy_at("10.0.0.7", SHARED)
    answer = await asked_of(api, "/api/me", headers, "10.0.0.7", auth=Auth.PROXY, proxy=proxy)
    assert (answer.status_code, name in answer.json()["detail"]) == (400, True)


@pytest.mark.requirement("B9")
@pytest.mark.catches("any-secret")
async def test_b9_a_proxy_with_a_secret_is_believed_only_with_it(api: Api) -> None:
    proxy = proxy_at("127.0.0.1", SHARED)
    for sent, code in ((SHARED, 200), (None, 401), ("", 401), (SHARED + "x", 401), ("ä" * 20, 401)):
        headers = NAMED if sent is None else NAMED | {SECRET_HEADER: sent}
        raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        answer = await asked_of(api, "/api/me", raw, "127.0.0.1", auth=Auth.PROXY, proxy=proxy)
        assert answer.status_code == code, sent


@pytest.mark.requirement("B9")
@pytest.mark.catches("loopback-without-a-secret", "own-address-is-the-proxy")
async def test_b9_a_process_of_this_machine_is_no_proxy_without_the_secret(api: Api) -> None:
    for addresses in ("127.0.0.1", "::1", "10.0.0.7, 127.0.0.0/8", "0.0.0.0/0", "::/0"):
        with pytest.raises(Misused, match="set HOLDFAST_PROXY_SECRET"):
            proxy_at(addresses)
    with pytest.raises(Misused, match="fewer than 16"):
        proxy_at("127.0.0.1", "short")
    with pytest.raises(Misused, match="takes addresses and networks"):
        proxy_at("proxy.internal")
    # An address of this machine that lies in the network of its proxies.
    proxy = proxy_at("10.1.0.0/16")
    at = "http://10.1.0.5:8410"
    for peer, code in (("10.1.0.5", 401), ("10.1.0.6", 200)):
        answer = await asked_of(api, "/api/me", NAMED, peer, at=at, auth=Auth.PROXY, proxy=proxy)
        assert answer.status_code == code


async def test_machines_use_tokens_beside_a_proxy(api: Api) -> None:
    proxy = proxy_at("10.0.0.7")
    token = {"Authorization": f"Bearer {api.tokens[Role.VIEWER]}"}
    for peer in ("10.0.0.7", "10.0.0.8", "127.0.0.1"):
        # What the token says counts, whatever the proxy says.
        answer = await asked_of(api, "/api/me", NAMED | token, peer, auth=Auth.PROXY, proxy=proxy)
        assert (answer.status_code, answer.json()["role"]) == (200, "viewer")
    pause = "/api/queues/default/pause"
    answer = await asked_of(api, pause, NAMED | token, "10.0.0.7", auth=Auth.PROXY, proxy=proxy)
    assert answer.status_code == 403
    wrong = {"Authorization": "Bearer hf_000000000000." + "a" * 43}
    answer = await asked_of(api, "/api/me", NAMED | wrong, "10.0.0.7", auth=Auth.PROXY, proxy=proxy)
    assert answer.status_code == 401
    # A proxy's own token for something else is none of ours.
    other = {"Authorization": "Bearer eyJhbGciOi"}
    answer = await asked_of(api, "/api/me", NAMED | other, "10.0.0.7", auth=Auth.PROXY, proxy=proxy)
    assert answer.json()["name"] == "ada"
    assert (
        await asked_of(api, "/api/me", other, "10.0.0.8", auth=Auth.PROXY, proxy=proxy)
    ).status_code == 401


@pytest.mark.catches("names-of-others")
async def test_without_authentication_other_sites_and_other_names_are_refused(api: Api) -> None:
    assert (await asked_of(api, "/api/me", {}, "127.0.0.1", auth=Auth.NONE)).status_code == 200
    stranger = {"Origin": "https://evil.test"}
    pause = "/api/queues/default/pause"
    assert (await asked_of(api, pause, stranger, "127.0.0.1", auth=Auth.NONE)).status_code == 403
    rebound = {"Host": "evil.test"}
    assert (await asked_of(api, "/api/me", rebound, "127.0.0.1", auth=Auth.NONE)).status_code == 403
