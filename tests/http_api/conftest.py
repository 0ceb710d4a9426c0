"""The API over the test's own database, asked by people of every role."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.db.migrate import grants
from holdfast.http.application import create
from holdfast.ops.tokens import Role, Tokens
from tests.ops.conftest import Shift, shift_of
from tests.served import api_process
from tests.world import World

APP = "tests.apps:app"


@dataclass(slots=True)
class Api:
    """The API, and tokens of every role."""

    app: FastAPI
    client: httpx.AsyncClient
    tokens: dict[Role, str]
    shift: Shift

    async def ask(
        self,
        method: str,
        path: str,
        *,
        role: Role = Role.ADMIN,
        code: int = 200,
        once: str | None = None,
        **options: Any,
    ) -> Any:
        """What is answered; it must be with this status."""
        headers = {"Authorization": f"Bearer {self.tokens[role]}"}
        if once is not None:
            headers["Idempotency-Key"] = once
        answer = await self.client.request(method, path, headers=headers, **options)
        assert answer.status_code == code, answer.text
        return answer.json() if "json" in answer.headers["content-type"] else answer.text

    async def get(self, path: str, *, role: Role = Role.ADMIN, code: int = 200, **query: Any) -> Any:
        return await self.ask("GET", path, role=role, code=code, params=query)

    async def post(
        self, path: str, *, role: Role = Role.ADMIN, code: int = 200, once: str | None = None, **body: Any
    ) -> Any:
        return await self.ask("POST", path, role=role, code=code, once=once, json=body)


async def least_privileged(world: World) -> str:
    """The address of the tests' database for a login that is a member of holdfast_api and of nothing else."""
    await world.conn.execute(grants("holdfast"))
    await world.conn.execute(
        "do $$ begin create role a_least_api login in role holdfast_api;"
        " exception when duplicate_object or unique_violation then null; end $$"
    )
    return make_conninfo(world.url, user="a_least_api")


@pytest.fixture
async def api(world: World) -> AsyncIterator[Api]:
    holdfast = Holdfast(world.url)

    @holdfast.task("pay", secrets=("card",))
    async def pay(task: Task[dict[str, str]]) -> None:
        """Nothing."""

    app = create(Settings(database_url=await least_privileged(world)), holdfast.handlers)
    shift = shift_of(world, holdfast.handlers)
    known = Tokens(Settings(database_url=world.url), by="test")
    tokens = {role: (await known.create(world.conn, role.value, role, None)).token for role in Role}
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=transport, base_url="http://api.test")
        )
        yield Api(app, client, tokens, shift)


@asynccontextmanager
async def serving(
    world: World, url: str, app: str = APP, **environment: str
) -> AsyncIterator[tuple[httpx.AsyncClient, "subprocess.Popen[bytes]"]]:
    """An API that runs as a process of its own, and a client of it."""
    token = await Tokens(Settings(database_url=url), by="test").create(world.conn, "ada", Role.ADMIN, None)
    headers = {"Authorization": f"Bearer {token.token}"}
    async with (
        api_process(url, app, environment={"HOLDFAST_TEST_RECORD": "/dev/null"} | environment) as (
            address,
            process,
        ),
        httpx.AsyncClient(base_url=address, headers=headers) as client,
    ):
        yield client, process


@pytest.fixture
async def served(world: World, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of such an API."""
    async with serving(world, url) as (client, _):
        yield client
