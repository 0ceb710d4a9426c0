"""Whatever is sent, the answer is documented and quick, and never a mistake of ours."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from holdfast.http.application import create
from holdfast.http.permissions import ROUTES
from holdfast.http.problems import TITLES
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.tokens import Role, Tokens
from holdfast.worker.http_workers import HttpWorkers
from tests.ops.conftest import Shift, shift_of
from tests.world import World

REQUESTS = int(os.environ.get("HOLDFAST_TEST_FUZZ", "1000"))
PARTS = 2
SLOW_SECONDS = 1.0
# A stream that goes on; its own test looks at it.
LEFT_OUT = {"/api/live"}
# A documented operation has its method, and the API makes no mistake.
NEVER = {405, 500}

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    template: str
    path: str
    query: Mapping[str, Any]
    body: Any = None
    raw: bytes | None = None
    headers: Mapping[bytes, bytes] = field(default_factory=dict)


class Document:
    """An OpenAPI document, as a source of requests that fit it, nearly fit it, or do not."""

    def __init__(
        self, document: Mapping[str, Any], ids: Mapping[str, list[str]], admin: str, worker: str
    ) -> None:
        self._admin, self._worker = admin, worker
        self._document = document
        self._ids = ids
        self.operations = [
            (method.upper(), path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if path not in LEFT_OUT
        ]

    def requests(self) -> SearchStrategy[Asked]:
        return st.sampled_from(self.operations).flatmap(lambda found: self._request(*found))

    def token(self, asked: Asked) -> str:
        """Of somebody who may."""
        return self._worker if ROUTES.get((asked.method, asked.template)) is Role.WORKER else self._admin

    def documented(self, method: str, path: str) -> set[int]:
        responses = self._document["paths"][path][method.lower()]["responses"]
        return {int(code) for code in responses if code != "default"} | (TITLES.keys() - NEVER)

    def _request(self, method: str, template: str, operation: Mapping[str, Any]) -> SearchStrategy[Asked]:
        parameters = operation.get("parameters", [])
        paths = {one["name"]: self._in_path(one) for one in parameters if one["in"] == "path"}
        queries = {
            one["name"]: self.values(one["schema"]).map(_as_query)
            for one in parameters
            if one["in"] == "query"
        }
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        body = st.none() if content is None else self.values(content["schema"]) | _JSON
        keys = st.none() if method == "GET" else st.none() | st.text("abcdé ", max_size=210)
        raw = st.none() | st.binary(max_size=40) if content else st.none()
        return st.builds(
            lambda named, query, sent, bytes_, key: Asked(
                method,
                template,
                template.format(**{name: _quoted(value) for name, value in named.items()}),
                query,
                sent,
                bytes_,
                {} if key is None else {b"Idempotency-Key": key.encode("latin-1", "ignore")},
            ),
            st.fixed_dictionaries(paths),
            st.fixed_dictionaries({}, optional=queries),
            body,
            # Mostly a document.
            st.one_of(st.none(), st.none(), st.none(), raw),
            keys,
        )

    def _in_path(self, parameter: Mapping[str, Any]) -> SearchStrategy[str]:
        known = self._ids.get(parameter["name"], [])
        odd = st.text(min_size=1, max_size=30)
        return odd | st.sampled_from(known) if known else odd

    def values(self, schema: Mapping[str, Any], depth: int = 0) -> SearchStrategy[Any]:
        """What the schema allows, and now and then something else."""
        fitting = self._fitting(schema, depth)
        return st.one_of(fitting, fitting, fitting, fitting, _JSON) if depth else fitting

    def _fitting(self, schema: Mapping[str, Any], depth: int) -> SearchStrategy[Any]:  # noqa: C901 (one for each word)
        if "$ref" in schema:
            *_, name = schema["$ref"].split("/")
            return self._fitting(self._document["components"]["schemas"][name], depth)
        if "anyOf" in schema:
            return st.one_of([self.values(one, depth) for one in schema["anyOf"]])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "const" in schema:
            return st.just(schema["const"])
        match schema.get("type"):
            case "object":
                known = {
                    name: self.values(inner, depth + 1)
                    for name, inner in schema.get("properties", {}).items()
                }
                needed = set(schema.get("required", ()))
                return st.fixed_dictionaries(
                    {name: made for name, made in known.items() if name in needed},
                    optional={name: made for name, made in known.items() if name not in needed},
                )
            case "array":
                return st.lists(self.values(schema.get("items", {}), depth + 1), max_size=3)
            case "integer":
                low, high = schema.get("minimum", -(2**40)), schema.get("maximum", 2**70)
                return st.integers(low, high) | st.sampled_from([low, high, low - 1, high + 1])
            case "number":
                return st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**20), 10**20)
            case "boolean":
                return st.booleans()
            case "null":
                return st.none()
            case "string":
                return self._text(schema)
            case _:
                return _JSON

    def _text(self, schema: Mapping[str, Any]) -> SearchStrategy[str]:
        words = st.text(max_size=min(schema.get("maxLength", 40), 40))
        if schema.get("format") == "date-time":
            return st.datetimes(timezones=st.none() | st.timezones()).map(lambda at: at.isoformat()) | words
        known = [one for ids in self._ids.values() for one in ids]
        return words | st.sampled_from(
            [*known, "\0", "a" * 201, "default", "pay", "\ud800".encode("utf-8", "replace").decode()]
        )


def _quoted(value: str) -> str:
    # A path that ends elsewhere is another path.
    return quote(value, safe="").replace(".", "%2E")


def _as_query(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [str(one) for one in value]
    return "" if value is None else str(value)


@pytest.fixture
async def fuzzed(world: World) -> AsyncIterator[tuple[httpx.AsyncClient, Document]]:
    """An API over a little of everything, asked by an admin as often as one likes."""
    shift: Shift = shift_of(world, {})
    failed = await shift.fail(3, kind="pay")
    queued = [await world.enqueue("pay") for _ in range(3)]
    plan = await shift.plans.freeze(world.conn, DeadFilter(), "fuzz")
    groups = [row[0] for row in await world.rows_of("failure_groups", "fingerprint")]
    app = create(shift.settings, rate=1e9)
    tokens = Tokens(shift.settings, by="test")
    admin = (await tokens.create(world.conn, "ada", Role.ADMIN, None)).token
    outside = await tokens.create(world.conn, "outside", Role.WORKER, None)
    workers = HttpWorkers(world.store, {}, outside.id)
    lease = await workers.enter(world.conn, "w", ["default"], ["pay"], 600)
    ids = {
        "task_id": [*failed, *queued],
        "plan_id": [plan.id],
        "fingerprint": [str(group) for group in groups],
        "name": ["default", "pay"],
        "worker_id": [lease.worker, world.worker],
    }
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://api.test") as client:
            yield client, Document(app.openapi(), ids, admin, outside.token)


# In parts, for as many processes.
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(60 + REQUESTS * 0.1)
async def test_nothing_that_is_sent_is_answered_with_a_mistake_of_ours(
    fuzzed: tuple[httpx.AsyncClient, Document], part: int
) -> None:
    client, document = fuzzed
    assert part < PARTS
    loop = asyncio.get_running_loop()

    async def send(asked: Asked) -> httpx.Response:
        # As lenient as some clients are: Infinity and halves of characters go out too.
        sent = json.dumps(asked.body).encode() if asked.raw is None else asked.raw
        headers: dict[bytes, bytes] = {
            **asked.headers,
            b"Content-Type": b"application/json",
            b"Authorization": f"Bearer {document.token(asked)}".encode(),
        }
        body = None if asked.method == "GET" else sent
        return await client.request(
            asked.method, asked.path, params=asked.query, headers=headers, content=body
        )

    def timed(asked: Asked) -> tuple[httpx.Response, float]:
        began = time.monotonic()
        answer = asyncio.run_coroutine_threadsafe(send(asked), loop).result()
        return answer, time.monotonic() - began

    @settings(
        max_examples=REQUESTS // PARTS,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(document.requests())
    def hold(asked: Asked) -> None:
        answer, took = timed(asked)
        if took >= SLOW_SECONDS:
            # What makes the requests up runs in this process too, and may have taken that second.
            answer, took = timed(asked)
        assert answer.status_code < 500, (asked, answer.text)
        assert answer.status_code in document.documented(asked.method, asked.template), (asked, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", asked
        assert took < SLOW_SECONDS, (asked, took)

    await asyncio.to_thread(hold)
