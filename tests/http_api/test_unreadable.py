"""Payloads and results that cannot be read are said to be so, and stand in nobody's way."""

import json
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.core.errors import BadPayload
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api
from tests.http_api.test_workers import claimed, entered
from tests.worker.test_unreadable import DEEP, LONG, older
from tests.world import World

WIDE = json.dumps([[]] * 30_000)
HUGE_FLOAT = "[" + "1" * 400 + ".5]"


@pytest.mark.parametrize("payload", [DEEP, LONG, WIDE, HUGE_FLOAT], ids=["deep", "long", "wide", "float"])
@pytest.mark.catches("payload-is-shown-unread")
async def test_a_task_whose_payload_cannot_be_read_is_shown_without_it(api: Api, payload: str) -> None:
    world = api.shift.world
    for kind in ("render", "pay"):
        task = await older(world, kind, payload)
        shown = await api.get(f"/api/tasks/{task}")
        assert shown["payload"].startswith("[unreadable: it ")
        revealed = await api.post(f"/api/tasks/{task}/reveal", reason="to see")
        assert revealed["payload"].startswith("[unreadable: it ")
        await api.post(f"/api/tasks/{task}/cancel", reason="of no use")
        edited = await api.ask(
            "POST",
            f"/api/tasks/{task}/edit",
            code=200 if kind == "pay" else 422,
            json={"payload": {"card": "1"}, "reason": "one that can be read"},
        )
        assert edited


@pytest.mark.parametrize("payload", [DEEP, LONG, WIDE], ids=["deep", "long", "wide"])
@pytest.mark.catches("outside-worker-is-given-what-nobody-can-read")
async def test_an_unreadable_payload_does_not_stand_in_the_way_of_a_claim(api: Api, payload: str) -> None:
    world = api.shift.world
    unreadable = await older(world, "render", payload)
    readable = await world.enqueue("render", payload={"page": 7})
    (task,) = await claimed(api, await entered(api))
    assert (task["id"], task["payload"]) == (readable, {"page": 7})
    shown = await api.get(f"/api/tasks/{unreadable}")
    assert (shown["state"], shown["error"]["code"]) == ("failed", "TASK_PAYLOAD_INVALID")
    assert "cannot be read" in shown["error"]["message"]


async def test_a_payload_of_many_values_is_given_to_a_worker_as_it_is(api: Api) -> None:
    many: Any = {"numbers": list(range(30_000)), "text": '"payload":null', "big": 2**80}
    await api.shift.world.enqueue("render", payload=many)
    (task,) = await claimed(api, await entered(api))
    assert task["payload"] == many


async def test_a_reason_is_kept_without_its_secrets(api: Api) -> None:
    task = await api.shift.world.enqueue("render")
    await api.post(f"/api/tasks/{task}/cancel", role=Role.OPERATOR, reason="token=abc-123-def is known")
    assert (await api.get(f"/api/tasks/{task}"))["reason"] == "token=[redacted] is known"


async def test_a_payload_with_half_a_character_is_refused(api: Api) -> None:
    body = b'{"kind": "pay", "payload": {"card": "\\ud800", "\\udfff": "x"}}'
    headers = {"Content-Type": "application/json"}
    refused = await _sent(api, "/api/tasks", body, headers)
    assert refused == 422
    task = await older(api.shift.world, "pay", DEEP)
    await api.post(f"/api/tasks/{task}/cancel", reason="of no use")
    body = b'{"payload": {"card": "\\ud800"}, "reason": "hostile"}'
    assert await _sent(api, f"/api/tasks/{task}/edit", body, headers) == 422


async def _sent(api: Api, path: str, body: bytes, headers: dict[str, str]) -> int:
    headers = headers | {"Authorization": f"Bearer {api.tokens[Role.ADMIN]}"}
    return (await api.client.post(path, content=body, headers=headers)).status_code


@pytest.mark.parametrize("kind", ["webhook.publish", "webhook.deliver"])
async def test_an_edit_of_a_delivery_takes_no_other_payload(world: World, kind: str) -> None:
    handler = Holdfast(world.url, webhooks=True).handlers[kind]
    with pytest.raises(BadPayload, match="it is no payload of"):
        handler.check('{"card": "4111"}')
