"""What the engine does to one task, by the table in which its row stands before."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import uuid4

import psycopg

from holdfast.core.handler import Handler, Task, task_of
from holdfast.core.outcome import Complete, Fail, Outcome, Retry, Snooze
from holdfast.core.task import Claim, NewTask, Unique
from holdfast.db.connect import Conn
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.plan_driver import PlanDriver
from holdfast.ops.plan_view import PlanView
from holdfast.ops.plans import Plans
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.followups import Followups
from holdfast.store.permits import BlockedRequest, whole_line
from holdfast.store.unserved_kinds import UnservedKinds
from holdfast.worker.executor.finish import Finishing
from tests.world import World

KIND = "mail.send"


@dataclass
class Scene:
    """One task in a queue of its own, and the claim on it if there is one."""

    world: World
    queue: str
    worker: str
    task: str = ""
    claim: Claim | None = None
    plan: PlanView | None = None

    @property
    def held(self) -> Claim:
        """The claim that an act is about to end."""
        assert self.claim is not None
        return self.claim

    async def enqueue(self, kind: str = KIND, **options: object) -> str:
        return await self.world.enqueue(kind, None, queue=self.queue, **options)

    async def take(self) -> Claim:
        """Claim the one that is there."""
        return await self.world.claim_one(queues=[self.queue], worker=self.worker)

    async def still_there(self) -> bool:
        """Whether nobody has deleted its rows in tasks and running."""
        cursor = await self.world.conn.execute(
            "select exists (select from holdfast.tasks where id = %(id)s and mark is null)"
            " and exists (select from holdfast.running where id = %(id)s)",
            {"id": self.task},
        )
        return await cursor.fetchone() == (True,)


Prepare: TypeAlias = Callable[[Scene], Awaitable[None]]
Perform: TypeAlias = Callable[[Scene, Conn], Awaitable[object]]


# Where a task can stand before an act.


async def queued(scene: Scene) -> None:
    scene.task = await scene.enqueue()


async def keyed(scene: Scene) -> None:
    scene.task = await scene.enqueue(key=scene.queue, unique=Unique.REPLACE)


async def _out_of_time(scene: Scene) -> None:
    await scene.world.conn.execute(
        "update holdfast.tasks set expires_at = now() - interval '1 s' where id = %s", [scene.task]
    )


async def overdue(scene: Scene) -> None:
    await queued(scene)
    await _out_of_time(scene)


async def snoozed(scene: Scene) -> None:
    await running(scene)
    await scene.world.settle((scene.held, Snooze(60)))
    scene.claim = None


async def _step_aside(scene: Scene) -> None:
    """What stands behind a bucket goes to waiting."""
    await scene.world.register(scene.worker, [scene.queue], [KIND])
    await scene.world.store.claims.claim(
        scene.world.conn, scene.worker, 10, ClaimRequest(all_ranges([scene.queue]))
    )


async def in_lane(scene: Scene) -> None:
    scene.task = await scene.enqueue(bucket=f"lane:{scene.queue}")


async def behind(scene: Scene) -> None:
    await in_lane(scene)
    await _step_aside(scene)


async def overdue_behind(scene: Scene) -> None:
    await behind(scene)
    await _out_of_time(scene)


async def unknown(scene: Scene) -> None:
    """Of a kind that no worker has known for long."""
    kind, world = f"kind-{scene.queue}", scene.world
    await world.mark_unserved(kind)
    scene.task = await scene.enqueue(kind)
    await _step_aside(scene)
    await world.conn.execute("update holdfast.buckets set unserved_at = now() - interval '1 hour'")


async def following(scene: Scene) -> None:
    first = await scene.enqueue(priority=0)
    (made,) = await scene.world.store.enqueue_many(
        scene.world.conn, [NewTask(KIND, after=[first], queue=scene.queue)]
    )
    await scene.world.complete(await scene.take())
    scene.task = made.id


async def following_aside(scene: Scene) -> None:
    await following(scene)
    await _step_aside(scene)


async def running(scene: Scene) -> None:
    await queued(scene)
    scene.claim = await scene.take()


async def lost(scene: Scene) -> None:
    await running(scene)
    await scene.world.lapse(scene.worker)


async def paused(scene: Scene) -> None:
    await queued(scene)
    await scene.world.operator.pause(scene.world.conn, scene.task, "wait")


async def failed(scene: Scene) -> None:
    await running(scene)
    await scene.world.settle((scene.held, Fail("REFUSED", "no")))
    scene.claim = None


async def planned(scene: Scene) -> None:
    await failed(scene)
    plans = Plans(scene.world.store.settings, by="ada")
    plan = await plans.freeze(scene.world.conn, DeadFilter(ids=[scene.task]), "the cause is fixed")
    scene.plan, _ = await plans.start(scene.world.conn, plan.id)


# What the engine does to it.


async def claim(scene: Scene, conn: Conn) -> None:
    await scene.world.register(scene.worker)
    found = await scene.world.store.claims.claim(
        conn, scene.worker, 10, ClaimRequest(all_ranges([scene.queue]))
    )
    scene.claim = next(iter(found.claims), None)


async def claim_blocked(scene: Scene, conn: Conn) -> None:
    request = BlockedRequest(whole_line([scene.queue], [KIND]), [scene.queue])
    found = await scene.world.store.permits.claim_blocked(conn, scene.worker, 10, request)
    scene.claim = next(iter(found.claims), None)


async def block_heads(scene: Scene, conn: Conn) -> None:
    await scene.world.store.claims.block_heads(conn, all_ranges([scene.queue]))


def settle(outcome: Outcome) -> Perform:
    """The verdict of the holder: heard, unless the task is not there any more."""

    async def perform(scene: Scene, conn: Conn) -> None:
        verdict, scene.claim = scene.world.verdict(scene.held, outcome), None
        settled = await scene.world.store.settler.settle(conn, [verdict])
        assert settled.accepted or not await scene.still_there(), "its holder is heard"

    return perform


async def settle_several(scene: Scene, conn: Conn) -> None:
    """Verdicts of several kinds, in one transaction."""
    await scene.enqueue()
    await scene.enqueue()
    first, second = await scene.world.claim(queues=[scene.queue], worker=scene.worker)
    group = [
        scene.world.verdict(scene.held, Complete()),
        scene.world.verdict(first, Retry("again", after=0)),
        scene.world.verdict(second, Complete()),
    ]
    scene.claim = None
    settled = await scene.world.store.settler.settle(conn, group)
    others = {one.id for one, _ in settled.accepted}
    assert others >= {first.id, second.id}, "whatever becomes of the first, the others are settled"
    assert len(others) == 3 or not await scene.still_there()


async def finish(scene: Scene, conn: Conn) -> None:
    """The last act of a handler; where that is refused, its holder tries again later."""
    finishing = Finishing(scene.world.store.settings, {KIND: Handler(KIND, _nothing, awaits=True)})
    try:
        async with task_of(scene.held, {}, finishing).finish(conn=conn):
            pass
    except psycopg.errors.SerializationFailure:
        return
    finally:
        await finishing.close()
    scene.claim = None


async def _nothing(task: Task[object]) -> None:
    """Never called: the act finishes by itself."""


async def reclaim(scene: Scene, conn: Conn) -> None:
    scene.claim = None
    await scene.world.reclaim(conn)


async def cancel(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.cancel(conn, scene.task, "stop")


async def pause(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.pause(conn, scene.task, "wait")


async def resume(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.resume(conn, scene.task)


async def redrive(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.redrive(conn, [scene.task], "again")


async def redrive_planned(scene: Scene, conn: Conn) -> None:
    """As its driver does, which comes again when nothing could be sent."""
    assert scene.plan is not None
    driver = PlanDriver(scene.world.store.settings, {})
    sent = [await driver.send(conn, scene.plan.id, "redrive", 1, 1, {}) for _ in range(2)]
    plans = Plans(scene.world.store.settings, by="ada")
    assert sum(sent) == 1
    if await plans.skips(scene.world.conn, scene.plan.id) not in ({}, {"it is gone": 1}):
        raise AssertionError("an item was skipped that is as it was")


async def wake(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.wake(conn, [scene.task])


async def expire(scene: Scene, conn: Conn) -> None:
    await scene.world.operator.expire(conn)


async def replace(scene: Scene, conn: Conn) -> None:
    again = NewTask(KIND, json.dumps({"n": 2}), key=scene.queue, unique=Unique.REPLACE, queue=scene.queue)
    await scene.world.store.enqueue(conn, again)


async def release(scene: Scene, conn: Conn) -> None:
    await Followups(scene.world.store.settings).release(conn)


async def unroute(scene: Scene, conn: Conn) -> None:
    await UnservedKinds(scene.world.store.settings).tend(conn, 60.0)


ACTS: dict[str, dict[str, tuple[Prepare, Perform]]] = {
    "ready": {
        "claim": (queued, claim),
        "block_heads": (in_lane, block_heads),
        "cancel": (queued, cancel),
        "pause": (queued, pause),
        "expire": (overdue, expire),
        "wake": (snoozed, wake),
        "replace": (keyed, replace),
        "release": (following, release),
    },
    "blocked": {
        "claim": (behind, claim_blocked),
        "cancel": (behind, cancel),
        "pause": (behind, pause),
        "expire": (overdue_behind, expire),
        "release": (following_aside, release),
        "unroute": (unknown, unroute),
    },
    "running": {
        "complete": (running, settle(Complete())),
        "retry": (running, settle(Retry("again", after=0))),
        "snooze": (running, settle(Snooze(0))),
        "fail": (running, settle(Fail("REFUSED", "no"))),
        "settle several": (running, settle_several),
        "finish": (running, finish),
        "reclaim": (lost, reclaim),
        "cancel": (running, cancel),
    },
    "tasks": {
        "resume": (paused, resume),
        "cancel": (paused, cancel),
        "redrive": (failed, redrive),
        "redrive by a plan": (planned, redrive_planned),
    },
}


def new_scene(world: World) -> Scene:
    """A queue and a worker that nobody else has."""
    worker = str(uuid4())
    return Scene(world, f"q-{worker[:8]}", worker)
