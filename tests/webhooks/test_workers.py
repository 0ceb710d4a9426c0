"""Deliveries by real workers whose processes are killed, beside receivers that never answer."""

import os
import random
import signal
from collections.abc import Callable

import pytest

from holdfast import Holdfast
from holdfast.config import Settings
from holdfast.webhooks import verify
from holdfast.webhooks.endpoints import Endpoints, NewEndpoint
from tests.tree import Tree, until
from tests.webhooks.receivers import Received, hangs, receiver
from tests.world import World

EVENTS = 300
KILLS = 3


@pytest.mark.requirement("B7")
@pytest.mark.catches("published-without-its-deliveries")
async def test_b7_nothing_is_lost_when_processes_die_and_keys_change(
    world: World, url: str, trees: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOKS_PLAIN", "1")
    monkeypatch.setenv("HOLDFAST_WEBHOOKS_ALLOW", "127.0.0.0/8")
    settings = Settings(database_url=url)
    endpoints, rng = Endpoints(settings, by="test"), random.Random(5)
    async with (
        receiver() as first,
        receiver() as second,
        receiver(hangs) as dead,
        Holdfast(settings=settings, webhooks=True) as app,
    ):
        made = [
            await endpoints.create(world.conn, NewEndpoint(server.url(), ["a.*"]))
            for server in (first, second, dead)
        ]
        tree = trees("a", app="tests.webhooks.app:app").start("--processes", 2, "--lease", 2)
        published = set()
        for number in range(EVENTS):
            published.add(await app.webhooks.publish("a.b", {"n": number}))
            if number % (EVENTS // KILLS) == EVENTS // KILLS // 2:
                # One that has only just come up would be taken for a worker that cannot start.
                await until(lambda: first.requests, what="the first delivery")
                await tree.ready()
                os.kill(rng.choice(tree.executors()), signal.SIGKILL)
            if number == EVENTS // 2:
                await endpoints.rotate(world.conn, made[0].endpoint.id)

        def everywhere() -> bool:
            return all(published <= ids(server.requests) for server in (first, second))

        await until(everywhere, 60, "every event at both that answer")
        # Whoever knows the first key only refuses nothing while keys change.
        for server, created in ((first, made[0]), (second, made[1])):
            for request in server.requests:
                verify(request.body, request.headers, created.secret)


def ids(requests: list[Received]) -> set[str]:
    return {request.headers["webhook-id"] for request in requests}
