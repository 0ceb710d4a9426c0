"""Every state × every move against the real SQL, generated from the table of moves."""

from dataclasses import dataclass

import pytest

from holdfast.core.errors import MoveRefused
from holdfast.core.outcome import (
    Cancel,
    Complete,
    Fail,
    Outcome,
    Release,
    Released,
    Retry,
    Snooze,
)
from holdfast.core.state import Move, State, after
from holdfast.core.task import Claim
from holdfast.db.connect import Conn
from holdfast.store.claim import ClaimRequest, all_ranges
from tests.world import World

BY_HOLDER: dict[Move, Outcome] = {
    Move.COMPLETE: Complete(),
    Move.RETRY: Retry("again"),
    Move.SNOOZE: Snooze(0),
    Move.RELEASE: Released(Release.DRAINED),
    Move.FAIL: Fail("TASK_PRECONDITION_FAILED", "no"),
    Move.CANCEL: Cancel("not wanted"),
}

# A queued task may stand in ready, ahead of its time, or behind a bucket.
STANDINGS = [*State, "scheduled", "blocked"]


@dataclass
class Case:
    world: World
    id: str
    claim: Claim


async def bring(world: World, standing: str) -> Case:
    """A task in the state, with the claim by which someone once held it."""
    bucket = "lane:7" if standing == "blocked" else None
    task_id = await world.enqueue(bucket=bucket)
    claim = await world.claim_one()
    match standing:
        case State.RUNNING:
            pass
        case State.COMPLETED:
            await world.complete(claim)
        case State.FAILED:
            await world.settle((claim, Fail("TASK_ENTITY_NOT_FOUND", "gone")))
        case State.CANCELLED:
            await world.settle((claim, Cancel("not wanted")))
        case "scheduled":
            await world.settle((claim, Snooze(3600)))
        case _:
            await world.settle((claim, Released(Release.DRAINED)))
    if standing == State.PAUSED:
        await world.operator.pause(world.conn, task_id, "looking")
    if standing == "blocked":
        await world.operator.pause_kind(world.conn, "mail.send", "hold")
        assert await world.claim() == []
        assert await world.rows("blocked") == 1
        await world.operator.resume_kind(world.conn, "mail.send")
    world.events.clear()
    return Case(world, task_id, claim)


async def perform(case: Case, move: Move) -> None:
    world, conn, operator = case.world, case.world.conn, case.world.operator
    match move:
        case Move.CLAIM:
            await world.claim()
        case Move.RECLAIM:
            await world.lapse(world.worker)
            await world.reclaim(conn)
        case Move.REQUEST_CANCEL:
            await operator.cancel(conn, case.id, "stop")
        case Move.EXPIRE:
            await conn.execute("update holdfast.tasks set expires_at = now() - interval '1 s'")
            await operator.expire(conn)
        case Move.PAUSE:
            await operator.pause(conn, case.id, "looking")
        case Move.RESUME:
            await operator.resume(conn, case.id)
        case Move.REDRIVE:
            await operator.redrive(conn, [case.id], "fixed")
        case Move.PARK:
            await operator.pause_kind(conn, "mail.send", "no handler")
            await world.claim()
        case Move.UNROUTE:
            # No live worker has said that it serves the kind.
            await world.store.claims.claim(
                conn, world.worker, 100, ClaimRequest(all_ranges(["default"]), kinds=["another"])
            )
            await world.unserved.tend(conn, grace_seconds=0)
            await world.unserved.tend(conn, grace_seconds=0)
        case _:
            await world.settle((case.claim, BY_HOLDER[move]))


async def refused(case: Case, move: Move) -> str | None:
    """Try the move; answers what an operator was told where it was refused."""
    try:
        await perform(case, move)
    except MoveRefused as refusal:
        return str(refusal)
    return None


@pytest.mark.catches(
    "cancel-marks-a-running-task", "redrive-takes-paused", "success-stays-alive", "pause-forgets-waiting",
    "claim-before-its-time", "claim-ignores-a-closed-kind", "permit-not-returned", "no-fence-on-retry",
)  # fmt: skip
@pytest.mark.requirement("F1", "F2", "T7", "B8")
@pytest.mark.parametrize("move", Move)
async def test_a_move_leads_where_the_table_says_or_nowhere(conn: Conn, url: str, move: Move) -> None:
    for standing in STANDINGS:
        await World.empty(conn)
        world = World(conn, url)
        try:
            await _check(await bring(world, standing), standing, move)
            await world.check()
        except Exception as error:
            error.add_note(f"{standing} × {move}")
            raise


async def _check(case: Case, standing: str, move: Move) -> None:
    before = State.QUEUED if standing in ("scheduled", "blocked") else State(standing)
    expected = after(before, move)
    if standing == "scheduled" and move in (Move.CLAIM, Move.UNROUTE):
        expected = None
    refusal = await refused(case, move)
    if refusal is not None:
        assert expected is None
        assert f"task {case.id} is {before}" in refusal
    assert await case.world.state(case.id) is (expected or before)
    if expected is not None and move is not Move.PARK:
        assert case.world.events, "a move that happened is told"
