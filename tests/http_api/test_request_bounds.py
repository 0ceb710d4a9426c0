"""Requests that would take long to read: refused before anybody reads them, whoever sends them."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest
from starlette.types import Message

from holdfast.http.bodies import Bodies, NoRoom
from holdfast.http.middleware import ANONYMOUS_BYTES_MAX, PARAMETERS_MAX
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api


def members(count: int, **more: Any) -> bytes:
    return json.dumps(more | {str(number): 0 for number in range(count)}, separators=(",", ":")).encode()


def as_role(api: Api, role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {api.tokens[role]}", "Content-Type": "application/json"}


@pytest.mark.requirement("B9")
@pytest.mark.catches("bodies-of-anybody")
async def test_a_body_without_a_credential_has_four_kilobytes(api: Api) -> None:
    for path in ("/api/session", "/api/tasks", "/healthz"):
        answer = await api.client.post(path, content=members(ANONYMOUS_BYTES_MAX))
        assert answer.status_code == 413, path
    # A token is brought in the body: whoever shows one beside it is allowed no more.
    answer = await api.client.post("/api/session", content=members(90_000), headers=as_role(api, Role.VIEWER))
    assert answer.status_code == 413


@pytest.mark.requirement("B9")
@pytest.mark.catches("unknown-members-one-by-one")
@pytest.mark.parametrize(
    ("path", "role", "body"),
    [
        ("/api/tasks", Role.OPERATOR, members(90_000, kind="pay")),
        ("/api/plans", Role.OPERATOR, members(90_000)),
        ("/api/workers", Role.WORKER, b'{"name":"w","kinds":["x"],"secrets":' + members(90_000) + b"}"),
        ("/api/workers/x/claim", Role.WORKER, b'{"holding":[' + members(90_000) + b"]}"),
        ("/api/workers/x/claim", Role.WORKER, b'{"holding":[' + b",".join([members(10)] * 1_000) + b"]}"),
    ],
    ids=["task", "plan", "secrets", "holding", "many held"],
)
async def test_unknown_members_are_not_looked_at_one_by_one(
    api: Api, path: str, role: Role, body: bytes
) -> None:
    answer = await api.client.post(path, content=body, headers=as_role(api, role))
    assert answer.status_code == 422
    # One for each that is wrong; not one for each member.
    assert len(answer.json()["wrong"]) <= 20


async def test_a_few_errors_are_told_and_the_others_counted(api: Api) -> None:
    answer = await api.client.post(
        "/api/plans", content=members(25, reason="x"), headers=as_role(api, Role.OPERATOR)
    )
    assert answer.status_code == 422
    wrong = answer.json()["wrong"]
    assert (len(wrong), wrong[0], wrong[-1]) == (21, "body.0: Extra inputs are not permitted", "and 5 more")


@pytest.mark.requirement("B9")
@pytest.mark.catches("parameters-without-end")
async def test_an_address_with_thousands_of_parameters_is_refused_before_it_is_read(api: Api) -> None:
    headers = as_role(api, Role.VIEWER)
    for query in ("&".join(f"{n}=" for n in range(PARAMETERS_MAX + 1)), "x=" + "y" * 32_000):
        answer = await api.client.get(f"/api/tasks/dead-letters?{query}", headers=headers)
        assert answer.status_code == 414, answer.text
    many = "&".join(f"taskIds={'0' * 36}" for _ in range(500))
    answer = await api.client.get(f"/api/tasks/dead-letters?{many}", headers=headers)
    assert answer.status_code != 414
    began = time.monotonic()
    query = "&".join(f"{n}=" for n in range(PARAMETERS_MAX))
    answer = await api.client.get(f"/api/tasks/dead-letters?{query}", headers=headers)
    assert (answer.status_code, time.monotonic() - began < 1) == (422, True)


class Client:
    """Sends a body in pieces, as it is told to."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[Message] = asyncio.Queue()

    def send(self, size: int, *, more: bool = True) -> None:
        self.pieces.put_nowait({"type": "http.request", "body": b"x" * size, "more_body": more})


async def received(bodies: Bodies, client: Client, done: asyncio.Event) -> int:
    with bodies.hold() as body:
        await bodies.receive(body, client.pieces.get, 1_000, 10, 60)
        await done.wait()
        return len(body.read)


@pytest.mark.requirement("B9")
@pytest.mark.catches("bodies-without-end")
async def test_half_sent_bodies_have_one_budget_and_the_oldest_of_them_ends() -> None:
    bodies, clients, done = Bodies(2_000), [Client() for _ in range(3)], asyncio.Event()
    tasks = [asyncio.create_task(received(bodies, client, done)) for client in clients]
    for client in clients:
        client.send(900)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    ended, _ = await asyncio.wait(tasks, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert ended == {tasks[0]}
    with pytest.raises(TimeoutError):
        await tasks[0]
    clients[1].send(90, more=False)
    clients[2].send(90, more=False)
    done.set()
    assert await asyncio.gather(*tasks[1:]) == [990, 990]
    assert bodies._held == 0


async def test_whole_bodies_are_not_dropped_for_others() -> None:
    bodies, done = Bodies(2_000), asyncio.Event()
    clients = [Client() for _ in range(2)]
    tasks = [asyncio.create_task(received(bodies, client, done)) for client in clients]
    for client in clients:
        client.send(990, more=False)
    await asyncio.sleep(0)
    late, small = Client(), Client()
    late.send(500, more=False)
    with pytest.raises(NoRoom):
        await received(bodies, late, done)
    done.set()
    # What every act needs is not counted.
    small.send(10, more=False)
    assert await received(bodies, small, done) == 10
    await asyncio.gather(*tasks)


async def test_a_long_body_of_somebody_known_still_arrives(served: httpx.AsyncClient) -> None:
    body = {"kind": "double", "payload": {"text": "x" * 200_000}}
    assert (await served.post("/api/tasks", json=body)).status_code == 201
