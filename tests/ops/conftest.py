"""What the stories of this folder begin with: an operator, dead letters, and someone who drives plans."""

from dataclasses import dataclass

import pytest

from holdfast.config import Settings
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Complete
from holdfast.core.task import Claim
from holdfast.ops.audit import AuditReader
from holdfast.ops.dead_letters import DeadFilter, DeadLetters
from holdfast.ops.groups import Groups
from holdfast.ops.plan_driver import PlanDriver
from holdfast.ops.plan_view import How, PlanView
from holdfast.ops.plans import Plans
from holdfast.store.audit import AuditWriter
from holdfast.store.upkeep import Upkeep
from tests.world import World, broken, proven


def last(claim: Claim) -> Claim:
    """The same claim, on its last attempt."""
    return claim._replace(failures=2)


@dataclass(slots=True)
class Shift:
    """Everything that an operator named ada has, and a second one named bob."""

    world: World
    settings: Settings
    dead: DeadLetters
    groups: Groups
    plans: Plans
    others_plans: Plans
    driver: PlanDriver
    audit: AuditReader
    writer: AuditWriter
    upkeep: Upkeep

    async def fail(self, count: int = 1, message: str = "boom", **options: object) -> list[str]:
        """Tasks that have failed for good."""
        ids = [await self.world.enqueue(**options) for _ in range(count)]  # type: ignore[arg-type]
        await self.fail_again(message)
        return ids

    async def fail_again(self, message: str = "boom") -> None:
        """Let everything that is due fail for the last time."""
        claims = await self.world.claim(10_000)
        await self.world.settle(*[(last(claim), broken(message)) for claim in claims])

    async def succeed(self) -> int:
        """Let everything that is due succeed."""
        claims = await self.world.claim(10_000)
        await self.world.settle(*[(claim, Complete()) for claim in claims])
        return len(claims)

    async def drive(self, plan: PlanView) -> float | None:
        """Bring a plan forward until it has to wait, or is done."""
        return await self.driver.drive(self.world.conn, plan.id)

    async def start(self, only: DeadFilter | None = None, how: How | None = None) -> PlanView:
        """A plan of everything, started."""
        plan = await self.plans.freeze(self.world.conn, only or DeadFilter(), "the cause is fixed", how)
        return (await self.plans.start(self.world.conn, plan.id))[0]

    async def seen(self, plan: PlanView) -> PlanView:
        return await self.plans.show(self.world.conn, plan.id)

    async def approve(self, plan: str, identity: str = "of-bob", reason: str = "") -> PlanView:
        """As bob, who is proven by a token."""
        async with proven(self.world.conn, identity):
            return await self.others_plans.approve(self.world.conn, plan, reason)

    async def actions(self, batch: str | None = None) -> list[str]:
        """What the audit says was done, the oldest first."""
        cursor = await self.world.conn.execute(
            "select action from holdfast.audit_log where %(b)s::uuid is null or batch_id = %(b)s::uuid"
            " order by chunk, place",
            {"b": batch},
        )
        return [action for (action,) in await cursor.fetchall()]


def shift_of(world: World, handlers: Handlers | None = None, **settings: object) -> Shift:
    """A shift with the handlers of an app."""
    given = Settings(database_url=world.url, **settings)  # type: ignore[arg-type]
    listen = world.events.append
    return Shift(
        world,
        given,
        DeadLetters(given, listen, by="ada", handlers=handlers),
        Groups(given, listen, by="ada"),
        Plans(given, listen, by="ada", handlers=handlers),
        Plans(given, listen, by="bob", handlers=handlers),
        PlanDriver(given, handlers or {}, listen),
        AuditReader(given),
        AuditWriter(given, listen),
        Upkeep(given, listen),
    )


@pytest.fixture
def shift(world: World) -> Shift:
    return shift_of(world)
