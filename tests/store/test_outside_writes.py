"""A task's rows are updated, deleted or locked from outside at every moment of every act: no task is lost.

After an update or a lock every live task has one row in ready, blocked or running, and ends by an ordinary
worker alone. After a delete of such a row the doctor names the task, and its repair puts it back. A task
whose own row was deleted is reported and never made up.
"""

from contextlib import suppress
from uuid import uuid4

import pytest

from holdfast.core.errors import HoldfastError, TaskStranded
from holdfast.core.outcome import Complete
from holdfast.core.state import State
from holdfast.ops.doctor import Doctor, Misplaced
from holdfast.ops.repair import Repair
from holdfast.store.followups import Followups
from holdfast.views.why import WaitCause, Why
from tests.store.acts import ACTS, Scene, new_scene
from tests.store.outsider import Outsider, Write
from tests.world import World

CASES = [
    pytest.param(place, act, table, id=f"{act} from {place}, {table}")
    for place, acts in ACTS.items()
    for act in acts
    for table in dict.fromkeys([place, "tasks"])
]
NARROW = [case for case in CASES if case.values[2] != "tasks"]
FACTS = [case for case in CASES if case.values[2] == "tasks"]


async def play_all(
    world: World, direct_url: str, place: str, act: str, table: str, write: Write
) -> dict[str, Scene]:
    """The act with the write at each of its moments, each time on a new task; by the moment."""
    engine, conn, watching = [await world.open_direct(direct_url) for _ in range(3)]
    prepare, perform = ACTS[place][act]
    scenes: dict[str, Scene] = {}
    # A lock that is released at once stands in nobody's way.
    for waits in [True] if write is Write.LOCK else [False, True]:
        at, messages = 0, 0
        while at <= messages:
            scene = new_scene(world)
            await prepare(scene)
            outsider = Outsider(conn, watching, write, table, scene.task, at, waits)
            # What was deleted cannot be operated.
            with suppress(*([HoldfastError] if write is Write.DELETE else [])):
                async with outsider.beside(engine):
                    await perform(scene, engine)
            scenes[f"{'open' if waits else 'committed'} before message {at}"] = scene
            at, messages = at + 1, outsider.messages
    return scenes


async def end_all(world: World) -> None:
    """Workers work, maintenance does its chores, and whoever paused a task lets it go on: everything ends."""
    await world.conn.execute("delete from holdfast.buckets")
    for _ in range(8):
        rows = await world.rows_of("tasks where mark is null or mark = 'paused'", "id::text, queue, mark")
        if not rows:
            return
        for id_, _, mark in rows:
            if mark == "paused":
                await world.operator.resume(world.conn, str(id_))
        await world.elapse(120)
        await world.reclaim(world.conn, limit=1_000)
        await Followups(world.store.settings).release(world.conn)
        await world.store.permits.relist(world.conn)
        await world.check()
        worker = str(uuid4())
        claims = await world.claim(1_000, queues=sorted({str(queue) for _, queue, _ in rows}), worker=worker)
        assert len((await world.settle(*((claim, Complete()) for claim in claims))).accepted) == len(claims)
    raise AssertionError(f"these do not end: {await world.rows_of('tasks where mark is null', 'id, queue')}")


async def settle_claims(scenes: dict[str, Scene]) -> None:
    """What the acts have claimed is completed by its holders, unless it was deleted."""
    for moment, scene in scenes.items():
        if scene.claim is not None:
            settled = await scene.world.settle((scene.claim, Complete()))
            assert settled.accepted or not await scene.still_there(), moment


@pytest.mark.parametrize("write", [Write.UPDATE, Write.LOCK])
@pytest.mark.parametrize(("place", "act", "table"), CASES)
@pytest.mark.catches(
    "complete-strands",
    "settle-strands",
    "moved-claim-called-late",
    "finish-calls-moved-late",
    "moved-item-skipped",
)
async def test_an_update_or_a_lock_from_outside_strands_no_task(
    world: World, direct_url: str, place: str, act: str, table: str, write: Write
) -> None:
    scenes = await play_all(world, direct_url, place, act, table, write)
    assert len(scenes) > 1
    await world.store.permits.relist(world.conn)
    await world.check()
    await settle_claims(scenes)
    await end_all(world)
    assert await Doctor(world.store.settings).misplaced(world.conn) == {}
    states = {moment: await world.state(scene.task) for moment, scene in scenes.items()}
    assert set(states.values()) <= {State.COMPLETED, State.FAILED, State.CANCELLED}, states
    assert not await world.rows_of("task_attempts where ended_as = 'late'", "task_id"), "nobody was refused"


async def without_a_row(world: World, ids: list[str]) -> list[str]:
    """Which of these are live and stand nowhere, asked in another way than the doctor asks."""
    cursor = await world.conn.execute(
        "select t.id::text from holdfast.tasks t where t.mark is null and t.id = any (%s::uuid[])"
        " and t.id not in (select id from holdfast.ready union all select id from holdfast.blocked"
        " union all select id from holdfast.running)",
        [ids],
    )
    return sorted(id_ for (id_,) in await cursor.fetchall())


@pytest.mark.parametrize(("place", "act", "table"), NARROW)
@pytest.mark.catches(
    "doctor-blind", "repair-without-audit", "stranded-called-contended", "stranded-about-to-start"
)
async def test_a_task_whose_row_was_deleted_is_named_and_repaired(
    world: World, direct_url: str, place: str, act: str, table: str
) -> None:
    scenes = await play_all(world, direct_url, place, act, table, Write.DELETE)
    await world.store.permits.relist(world.conn)
    stranded = await without_a_row(world, [scene.task for scene in scenes.values()])
    assert stranded, "at one moment at least the delete wins"
    doctor = Doctor(world.store.settings)
    assert await doctor.misplaced(world.conn) == {Misplaced.NO_ROW: stranded}
    (finding,) = [one for one in await doctor.examine(world.conn) if one.name == "rows of tasks"]
    assert all(task in finding.found for task in stranded[:5])
    why = Why(world.store.settings)
    assert (await why.of(world.conn, await world.show(stranded[0])))[0].cause is WaitCause.STRANDED
    for task in stranded:
        with pytest.raises(TaskStranded, match="doctor --repair"):
            await world.operator.cancel(world.conn, task, "stop")
    repair = Repair(world.store.settings, by="ada")
    assert sorted(await repair.run(world.conn, "somebody deleted rows")) == stranded
    audited = await world.rows_of("audit_log where action = 'TASK_REPAIR'", "task_id::text, actor, reason")
    assert sorted(audited) == [(task, "ada", "somebody deleted rows") for task in stranded]
    assert await repair.run(world.conn, "again") == []
    await world.check()
    await end_all(world)


@pytest.mark.parametrize(("place", "act", "table"), FACTS)
async def test_a_task_that_was_deleted_is_reported_and_never_made_up(
    world: World, direct_url: str, place: str, act: str, table: str
) -> None:
    scenes = await play_all(world, direct_url, place, act, table, Write.DELETE)
    ids = [scene.task for scene in scenes.values()]
    ended = await world.rows_of("task_history where queue like 'q-%'", "id::text")
    left = await world.rows_of("tasks", "id::text")
    there = {str(id_) for (id_,) in [*ended, *left]}
    deleted = [task for task in ids if task not in there]
    assert deleted, "at one moment at least the delete wins"
    await settle_claims(scenes)
    found = await Doctor(world.store.settings).misplaced(world.conn)
    assert set(found) <= {Misplaced.NO_TASK}
    assert set(found.get(Misplaced.NO_TASK, [])) <= set(deleted)
    await Repair(world.store.settings, by="ada").run(world.conn, "somebody deleted tasks")
    await world.store.permits.relist(world.conn)
    await world.check()
    await end_all(world)
    assert not await world.rows_of(f"tasks where id = any ('{{{','.join(deleted)}}}'::uuid[])", "id")
    assert not await world.rows_of(f"task_history where id = any ('{{{','.join(deleted)}}}'::uuid[])", "id")
