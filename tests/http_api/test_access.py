"""Every route with every role, and with every sort of token that is not good; a new route needs a row."""

import re
from itertools import product

import pytest
from fastapi import APIRouter

from holdfast.config import Settings
from holdfast.http.application import create
from holdfast.http.permissions import OPEN, ROUTES, WORKERS_TOO, RouteNotInTable, check
from holdfast.http.request import TransactionRoute
from holdfast.ops.tokens import Role, Tokens
from tests.http_api.conftest import Api

MAY = {
    Role.VIEWER: {Role.VIEWER, Role.OPERATOR, Role.ADMIN},
    Role.OPERATOR: {Role.OPERATOR, Role.ADMIN},
    Role.ADMIN: {Role.ADMIN},
    Role.WORKER: {Role.WORKER},
}
NOBODY = "0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f"


def test_every_route_is_in_the_table_and_nothing_else() -> None:
    document = create(Settings(database_url="")).openapi()
    routes = {(method.upper(), path) for path, one in document["paths"].items() for method in one}
    assert routes == set(ROUTES) | OPEN


def test_a_route_that_nobody_put_into_the_table_stops_the_api() -> None:
    router = APIRouter(route_class=TransactionRoute)

    @router.get("/api/secrets")
    async def _secrets() -> None:
        """Forgotten."""

    with pytest.raises(RouteNotInTable, match="say who may use it"):
        check(router)


@pytest.mark.requirement("B9")
@pytest.mark.catches("anybody-may", "workers-may-operate")
async def test_b9_each_route_is_for_its_roles_alone(api: Api) -> None:
    for (method, path), role in product(ROUTES, Role):
        filled = re.sub(r"{\w+}", NOBODY, path)
        headers = {"Authorization": f"Bearer {api.tokens[role]}"}
        # A stream is asked for one look.
        once = {"seconds": 0} if path == "/api/live" else {}
        answer = await api.client.request(method, filled, headers=headers, json={}, params=once)
        allowed = role in MAY[ROUTES[method, path]] or ((method, path) in WORKERS_TOO and role is Role.WORKER)
        assert (answer.status_code not in {401, 403}) == allowed, (method, path, role, answer.text)
        assert answer.status_code < 500, (method, path, role, answer.text)


@pytest.mark.catches("secret-not-compared", "expired-tokens-are-good", "revoked-tokens-are-good")
async def test_a_token_that_is_missing_wrong_expired_or_revoked_opens_nothing(api: Api) -> None:
    conn = api.shift.world.conn
    tokens = Tokens(api.shift.settings, by="test")
    good = api.tokens[Role.ADMIN]
    expired = await tokens.create(conn, "old", Role.ADMIN, -1)
    revoked = await tokens.create(conn, "gone", Role.ADMIN, None)
    await tokens.revoke(conn, revoked.id)
    bad = {
        "missing": None,
        "empty": "",
        "of another scheme": good.replace("hf_", "xx_"),
        "with another secret": good[:-4] + ("aaaa" if not good.endswith("aaaa") else "bbbb"),
        "unknown": "hf_000000000000." + "a" * 43,
        "expired": expired.token,
        "revoked": revoked.token,
        "with a NUL": "hf_00000000000\0." + "a" * 43,
    }
    for (method, path), (name, token) in product(ROUTES, bad.items()):
        filled = re.sub(r"{\w+}", NOBODY, path)
        headers = [] if token is None else [(b"Authorization", b"Bearer " + token.encode())]
        answer = await api.client.request(method, filled, headers=headers, json={})
        assert answer.status_code == 401, (method, path, name, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


async def test_who_one_is_and_when_a_token_was_last_used(api: Api) -> None:
    assert await api.get("/api/me", role=Role.OPERATOR) == {
        "name": "operator",
        "role": "operator",
        "csrfToken": None,
    }
    used = {
        one.name for one in await Tokens(api.shift.settings).list(api.shift.world.conn) if one.last_used_at
    }
    assert used == {"operator"}


async def test_the_secret_of_a_token_is_kept_nowhere(api: Api) -> None:
    rows = await api.shift.world.rows_of("api_tokens", "api_tokens::text")
    logged = await api.shift.world.rows_of("audit_log", "audit_log::text")
    secret = api.tokens[Role.ADMIN].partition(".")[2]
    assert secret not in str(rows) + str(logged)
    assert [action for action in await api.shift.actions() if action == "TOKEN_CREATE"]


@pytest.mark.catches("document-for-anybody")
async def test_the_document_is_for_viewers(api: Api) -> None:
    assert (await api.client.get("/api/openapi.json")).status_code == 401
    assert await api.get("/api/openapi.json", role=Role.VIEWER) == api.app.openapi()
