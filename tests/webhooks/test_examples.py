"""The receivers that the documentation shows: each takes what is ours once, and nothing else."""

import importlib
import time
from collections.abc import Awaitable, Callable
from types import ModuleType

import httpx
import pytest
from django.conf import settings as django_settings
from django.test import RequestFactory

from holdfast.webhooks.signing import Key, bytes_of, new_secret, signed

BODY = b'{"data":{"n":1}}'
Ask = Callable[[bytes, dict[str, str]], Awaitable[int]]


def fastapi_receiver() -> tuple[ModuleType, Ask]:
    receiver_fastapi = importlib.import_module("examples.receiver_fastapi")

    async def ask(body: bytes, headers: dict[str, str]) -> int:
        transport = httpx.ASGITransport(receiver_fastapi.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return (await client.post("/hooks", content=body, headers=headers)).status_code

    return receiver_fastapi, ask


def django_receiver() -> tuple[ModuleType, Ask]:
    if not django_settings.configured:
        django_settings.configure(ALLOWED_HOSTS=["*"])
    receiver_django = importlib.import_module("examples.receiver_django")

    async def ask(body: bytes, headers: dict[str, str]) -> int:
        request = RequestFactory().post("/hooks", data=body, content_type="application/json", headers=headers)
        answered: int = receiver_django.receive(request).status_code
        return answered

    return receiver_django, ask


@pytest.mark.parametrize("made", [fastapi_receiver, django_receiver])
async def test_a_receiver_takes_what_is_ours_once_and_nothing_else(
    made: Callable[[], tuple[ModuleType, Ask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = new_secret()
    monkeypatch.setenv("WEBHOOK_SECRET", secret)
    module, ask = made()
    module.seen.clear()
    headers = signed([Key("k", bytes_of(secret))], "evt_1", int(time.time()), BODY)
    assert [await ask(BODY, headers) for _ in range(2)] == [204, 204]
    assert module.seen == {"evt_1"}
    assert await ask(BODY + b" ", headers) == 401
    assert await ask(BODY, {}) == 401
    old = signed([Key("k", bytes_of(secret))], "evt_2", int(time.time()) - 1_000, BODY)
    assert await ask(BODY, old) == 401
    assert module.seen == {"evt_1"}
