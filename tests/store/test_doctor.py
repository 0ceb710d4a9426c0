"""What the doctor says of tasks whose row is missing or wrong, and what its repair makes of them."""

import asyncio
from typing import LiteralString

import psycopg
import pytest

from holdfast.core.audit import Action
from holdfast.core.errors import TaskStranded
from holdfast.core.events import LateResultsRefused, TasksMissing
from holdfast.core.operator_events import TasksRepaired
from holdfast.core.outcome import Complete, Retry
from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn
from holdfast.ops.dead_letters import DeadLetters
from holdfast.ops.doctor import Doctor, Finding, Health, Misplaced
from holdfast.ops.repair import Repair
from holdfast.store.audit import AuditWriter
from holdfast.store.followups import Followups
from holdfast.views.why import WaitCause, Why
from tests.world import World


async def finding(world: World, seconds_max: float = 0.0) -> Finding:
    """What the doctor says of the rows of tasks."""
    found = await Doctor(world.store.settings).examine(world.conn, seconds_max)
    return next(one for one in found if one.name == "rows of tasks")


async def repair(world: World, conn: Conn | None = None) -> list[str]:
    return await Repair(world.store.settings, world.events.append, by="ada").run(conn or world.conn, "mend")


async def blocked(world: World) -> str:
    """A task in waiting, behind another one of its lane."""
    first, second = [await world.enqueue(bucket="lane:1") for _ in range(2)]
    assert [claim.id for claim in await world.claim()] == [first]
    assert await world.rows_of("blocked", "id::text") == [(second,)]
    return second


IN_READY: LiteralString = (
    "insert into holdfast.ready (run_at, id, priority, queue, kind, bucket, position)"
    " select run_at, id, priority, queue, kind, bucket, position from holdfast.tasks where id = %s"
)
# How a row goes wrong: what somebody writes, where the task stands before it, and where after the repair.
WRONG: dict[Misplaced, list[tuple[str, LiteralString, str]]] = {
    Misplaced.NO_ROW: [
        ("ready", "delete from holdfast.ready where id = %s", "ready"),
        ("blocked", "delete from holdfast.blocked where id = %s", "ready"),
        ("running", "delete from holdfast.running where id = %s", "ready"),
        ("failed", "update holdfast.tasks set mark = null, dead_reason = null where id = %s", "ready"),
    ],
    Misplaced.SEVERAL: [("running", IN_READY, "running"), ("blocked", IN_READY, "blocked")],
    Misplaced.DIFFERENT: [
        ("ready", "update holdfast.tasks set priority = 0 where id = %s", "ready"),
        ("ready", "update holdfast.tasks set queue = 'other' where id = %s", "ready"),
        ("ready", "update holdfast.tasks set run_at = run_at + interval '1 hour' where id = %s", "ready"),
    ],
    Misplaced.MARKED: [
        (place, "update holdfast.tasks set mark = 'cancelled', marked_at = now() where id = %s", "nowhere")
        for place in ("ready", "blocked", "running")
    ],
    Misplaced.NO_TASK: [
        (place, "delete from holdfast.tasks where id = %s", "nowhere")
        for place in ("ready", "blocked", "running")
    ],
}
CASES = [
    pytest.param(how, *case, id=f"{how} from {case[0]}, {number}")
    for how, cases in WRONG.items()
    for number, case in enumerate(cases)
]


async def stand(world: World, place: str) -> str:
    """A task that stands there."""
    if place == "blocked":
        return await blocked(world)
    task = await world.enqueue()
    if place == "running":
        await world.claim_one()
    elif place == "failed":
        await world.settle((await world.claim_one(), Retry("no", after=0)))
        await world.conn.execute("delete from holdfast.ready")
        await world.conn.execute(
            "update holdfast.tasks set mark = 'failed', marked_at = now(), dead_reason = 'non_retryable'"
        )
    return task


@pytest.mark.parametrize(("how", "place", "written", "after"), CASES)
@pytest.mark.catches("doctor-blind-to-differences", "repair-adds-a-second-row")
async def test_each_way_in_which_a_row_can_be_wrong_is_named_and_put_right(
    world: World, how: Misplaced, place: str, written: LiteralString, after: str
) -> None:
    task = await stand(world, place)
    assert (await finding(world)).health is Health.GOOD
    await world.conn.execute(written, [task])
    found = await finding(world)
    assert (found.health, task in found.found) == (Health.BAD, True)
    assert await Doctor(world.store.settings).misplaced(world.conn) == {how: [task]}
    assert await repair(world) == [task]
    assert (await finding(world)).health is Health.GOOD
    places = [
        name for name in ("ready", "blocked", "running")
        if await world.rows_of(f"{name} where id = '{task}'", "id")
    ]  # fmt: skip
    assert places == ([] if after == "nowhere" else [after])
    entries = await world.rows_of(f"audit_log where task_id = '{task}'", "action, actor, reason, details")
    assert entries == [(Action.TASK_REPAIR, "ada", "mend", {"found": how})]
    assert [event.ids for event in world.events if isinstance(event, TasksRepaired)] == [[task]]
    await world.store.permits.relist(world.conn)


@pytest.mark.parametrize("place", ["ready", "blocked", "running"])
@pytest.mark.parametrize("mark", ["paused", "failed", "cancelled"])
@pytest.mark.catches("resume-adds-a-second-row", "redrive-adds-a-second-row", "marked-with-a-row-is-well")
async def test_a_marked_task_with_a_row_goes_back_to_work_only_after_the_repair(
    world: World, mark: str, place: str
) -> None:
    """Two rows of one task would stop every claim of its queue."""
    task = await stand(world, place)
    await world.conn.execute(
        "update holdfast.tasks set mark = %s, marked_at = now(), dead_reason = %s where id = %s",
        [mark, "non_retryable" if mark == "failed" else None, task],
    )
    why = await Why(world.store.settings).of(world.conn, await world.show(task))
    assert why[0].cause is WaitCause.STRANDED

    async def back_to_work() -> str:
        """What an operator is told, or nothing if the task is queued again."""
        if mark == "paused":
            try:
                await world.operator.resume(world.conn, task)
            except TaskStranded as error:
                return str(error)
            return ""
        dead = DeadLetters(world.store.settings, by="ada")
        return (await dead.retry(world.conn, [task], "again")).refused.get(task, "")

    assert "still has a row" in await back_to_work()
    assert "doctor --repair --reason" in await back_to_work()
    assert await repair(world) == [task]
    assert await back_to_work() == ""
    assert (await finding(world)).health is Health.GOOD
    await world.store.permits.relist(world.conn)


@pytest.mark.catches("repair-starts-a-follow-up")
async def test_a_follow_up_that_was_put_back_still_waits_for_what_it_comes_after(world: World) -> None:
    first = await world.enqueue()
    (made,) = await world.store.enqueue_many(world.conn, [NewTask("last", after=[first])])
    followups = Followups(world.store.settings)
    claims = []
    for table in ("ready", "blocked"):
        await world.conn.execute(f"delete from holdfast.{table} where id = '{made.id}'")
        assert await repair(world) == [made.id]
        claims += await world.claim()
    assert [claim.id for claim in claims] == [first]
    assert await followups.release(world.conn), "it waits on"
    await world.complete(claims[0])
    assert not await followups.release(world.conn)
    assert (await world.claim_one()).id == made.id


@pytest.mark.catches("repair-before-its-audit")
async def test_a_repair_and_its_entry_in_the_audit_are_one_commit(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = await stand(world, "ready")
    await world.conn.execute("delete from holdfast.ready")

    async def refuse(*_given: object, **_named: object) -> None:
        raise psycopg.errors.InsufficientPrivilege("no rights to the audit")

    with monkeypatch.context() as patched:
        patched.setattr(AuditWriter, "note_tasks", refuse)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await repair(world)
    assert await Doctor(world.store.settings).misplaced(world.conn) == {Misplaced.NO_ROW: [task]}
    assert await repair(world) == [task]


async def test_two_who_repair_at_once_put_a_task_back_once(world: World) -> None:
    ids = [await world.enqueue() for _ in range(50)]
    await world.conn.execute("delete from holdfast.ready")
    conns = [await world.open() for _ in range(4)]
    done = await asyncio.gather(*(repair(world, conn) for conn in conns))
    assert sorted(id_ for some in done for id_ in some) == sorted(ids)
    assert await world.rows("ready") == 50


async def test_tasks_that_move_meanwhile_are_never_among_the_findings(world: World) -> None:
    doctor, looker = Doctor(world.store.settings), await world.open()
    looks = 0

    async def work() -> None:
        for _ in range(30):
            await world.store.enqueue_many(world.conn, [NewTask("mail.send")] * 20)
            first, *others = await world.claim()
            await world.settle((first, Retry("again", after=0)), *((one, Complete()) for one in others))

    working = asyncio.create_task(work())
    while not working.done():
        assert await doctor.misplaced(looker) == {}
        looks += 1
    await working
    assert looks > 3


async def test_a_look_that_takes_too_long_is_said_and_does_not_hold_up_the_others(world: World) -> None:
    other = await world.open()
    async with other.transaction():
        await other.execute("lock table holdfast.ready in access exclusive mode")
        found = await finding(world, seconds_max=0.05)
    assert (found.health, found.found) == (Health.WARNING, "not looked at: reading them took too long")


@pytest.mark.catches("deleted-task-settled-for-ever")
async def test_a_task_deleted_while_it_runs_is_told_of_and_its_neighbours_are_settled(world: World) -> None:
    ids = [await world.enqueue() for _ in range(4)]
    claims = await world.claim()
    await world.conn.execute("delete from holdfast.tasks where id = any (%s::uuid[])", [ids[1:3]])
    outcomes: list[Complete | Retry] = [Complete(), Complete('"7"'), Retry("again"), Complete()]
    settled = await world.settle(*zip(claims, outcomes, strict=True))
    assert [claim.id for claim, _ in settled.accepted] == [ids[0], ids[3]]
    assert [claim.id for claim, _ in settled.refused] == ids[1:3]
    assert [event.ids for event in world.events if isinstance(event, TasksMissing)] == [ids[1:3]]
    (told,) = [event for event in world.events if isinstance(event, LateResultsRefused)]
    assert [claim.id for claim, _ in told.refused] == ids[1:3]
    assert (await world.rows("running"), await world.rows("task_history")) == (0, 2)


@pytest.mark.catches("deleted-tasks-fill-the-limit")
async def test_claims_on_deleted_tasks_do_not_hold_up_what_lost_workers_held(world: World) -> None:
    gone = [await world.enqueue() for _ in range(60)]
    await world.claim(worker="00000000-0000-7000-8000-000000000001")
    await world.conn.execute("delete from holdfast.tasks")
    task = await world.enqueue()
    await world.claim_one(worker="ffffffff-0000-7000-8000-000000000002")
    await world.conn.execute("update holdfast.workers set lease_expires_at = now() - interval '1 s'")
    for _ in range(2):
        await world.reclaim(world.conn, limit=50)
    assert await world.state(task) is State.QUEUED
    told = [id_ for event in world.events if isinstance(event, TasksMissing) for id_ in event.ids]
    assert sorted(told) == sorted(gone)
    assert await world.rows("running") == 0
