"""A bench with endpoints: an app that delivers events to loopback, and who looks after its endpoints."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from holdfast import Holdfast
from holdfast.config import Settings
from holdfast.db.connect import Conn
from holdfast.testing import Bench, Ran
from holdfast.webhooks.delivery_log import Attempt, DeliveryLog
from holdfast.webhooks.endpoints import Created, Endpoint, Endpoints, NewEndpoint
from tests.world import World


@dataclass(slots=True)
class Hooks:
    """Everything around deliveries."""

    app: Holdfast
    bench: Bench
    endpoints: Endpoints
    log: DeliveryLog

    @property
    def conn(self) -> Conn:
        return self.bench.conn

    async def endpoint(self, url: str, *events: str, **options: object) -> Created:
        return await self.endpoints.create(self.conn, NewEndpoint(url, events, **options))  # type: ignore[arg-type]

    async def show(self, created: Created) -> Endpoint:
        return await self.endpoints.show(self.conn, created.endpoint.id)

    async def attempts(self, created: Created) -> list[Attempt]:
        """The oldest first."""
        return (await self.log.page(self.conn, endpoint=created.endpoint.id))[::-1]

    async def look_anew(self) -> None:
        """As after a second: nothing is known of endpoints any more."""
        await self.app.close()

    async def delivered(self, type_: str = "render.done", data: object = None) -> list[Ran]:
        """Publish an event and run what is due."""
        await self.app.webhooks.publish(type_, data or {"n": 1})
        return (await self.bench.drain())[1:]


@pytest.fixture
async def hooks(world: World, url: str) -> AsyncIterator[Hooks]:
    settings = Settings(
        database_url=url, webhooks_plain=True, webhooks_allow="127.0.0.0/8", webhooks_deadline_seconds=1.0
    )
    app = Holdfast(settings=settings, webhooks=True)
    bench = await Bench.open(app)
    await bench.empty()
    yield Hooks(app, bench, Endpoints(settings, by="ada"), DeliveryLog(settings))
    await bench.empty()
    await bench.close()
