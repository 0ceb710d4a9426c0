"""Every order of the steps of two workers, an operator and a reclaimer, on a real database.

A small model says what each step must answer; the database is asked the same and must agree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from holdfast.core.errors import MoveRefused
from holdfast.core.outcome import Complete, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import Move, State, after
from holdfast.core.task import Claim
from tests.world import World

# It walks more than a thousand orders, however long that takes.
pytestmark = pytest.mark.timeout(600)
A, B = "0aaaaaaa-0000-7000-8000-000000000000", "0bbbbbbb-0000-7000-8000-000000000000"
Step = tuple[str, str]

# Each row is what one actor does, in its own order; the orders between actors are all tried.
PLAYS: dict[str, list[list[Step]]] = {
    "complete": [
        [(A, "claim"), (A, "complete")],
        [(B, "claim"), (B, "release")],
        [("operator", "pause")],
        [("operator", "cancel")],
        [("reclaimer", "reclaim")],
    ],
    "retry": [
        [(A, "claim"), (A, "retry")],
        [(B, "claim"), (B, "complete")],
        [("operator", "pause"), ("operator", "resume")],
        [("reclaimer", "reclaim")],
    ],
    "snooze": [
        [(A, "claim"), (A, "snooze")],
        [(B, "claim"), (B, "complete")],
        [("operator", "cancel"), ("operator", "redrive")],
        [("reclaimer", "reclaim")],
    ],
}
OUTCOMES: dict[str, Outcome] = {
    "complete": Complete(),
    "release": Released(Release.DRAINED),
    "retry": Retry("again", after=0),
    "snooze": Snooze(0),
}


def merges(rows: Sequence[Sequence[Step]]) -> Iterator[list[Step]]:
    """Every order that keeps each row's own."""
    rows = [row for row in rows if row]
    if not rows:
        yield []
        return
    for index, row in enumerate(rows):
        rest = [*rows[:index], row[1:], *rows[index + 1 :]]
        for tail in merges(rest):
            yield [row[0], *tail]


@dataclass
class Model:
    """What must be true, by the table of moves and one number."""

    state: State = State.QUEUED
    holder: Claim | None = None
    fences: list[int] = field(default_factory=list)
    asked: bool = False

    def move(self, move: Move) -> bool:
        reached = after(self.state, move)
        if reached is None:
            return False
        if move is Move.REQUEST_CANCEL and reached is State.RUNNING:
            self.asked = True
        elif self.asked and self.state is State.RUNNING and reached is State.QUEUED:
            reached = State.CANCELLED
        self.state = reached
        if reached is not State.RUNNING:
            self.holder, self.asked = None, False
        return True


async def play(world: World, order: Sequence[Step]) -> None:
    await world.empty(world.conn)
    world._registered.clear()
    await world.register(A)
    await world.register(B)
    task_id = await world.enqueue()
    model, claims = Model(), dict[str, Claim]()
    for who, what in order:
        await step(world, model, claims, who, what, task_id)
        assert await world.state(task_id) is model.state, f"after {what} by {who[:2]} in {order}"
    await world.check()


async def step(
    world: World, model: Model, claims: dict[str, Claim], who: str, what: str, task_id: str
) -> None:
    match what:
        case "claim":
            got = await world.claim(1, worker=who)
            assert bool(got) == (model.state is State.QUEUED)
            if got:
                model.move(Move.CLAIM)
                assert all(got[0].fence > fence for fence in model.fences)
                model.fences.append(got[0].fence)
                claims[who] = model.holder = got[0]
        case "complete" | "release" | "retry" | "snooze":
            if who not in claims:
                return
            settled = await world.settle((claims[who], OUTCOMES[what]))
            valid = model.holder == claims[who]
            assert bool(settled.accepted) == valid, "only the holder is heard"
            assert bool(settled.refused) != valid
            if valid:
                model.move(Move(what))
        case "reclaim":
            await world.conn.execute(
                "update holdfast.workers set lease_expires_at = now() - interval '1 s' where id = %s", [A]
            )
            taken = await world.reclaim(world.conn)
            held = model.holder is not None and model.holder.worker == A
            assert bool(taken.accepted) == held
            if held:
                model.move(Move.RECLAIM)
        case _:
            await operate(world, model, what, task_id)


async def operate(world: World, model: Model, what: str, task_id: str) -> None:
    operator, conn = world.operator, world.conn
    move = Move.REQUEST_CANCEL if what == "cancel" else Move(what)
    allowed = after(model.state, move) is not None
    try:
        match what:
            case "cancel":
                await operator.cancel(conn, task_id, "stop")
            case "pause":
                await operator.pause(conn, task_id, "look")
            case "resume":
                await operator.resume(conn, task_id)
            case _:
                assert bool(await operator.redrive(conn, [task_id], "fixed")) == allowed
    except MoveRefused:
        assert not allowed
        return
    if allowed:
        model.move(move)


@pytest.mark.requirement("T2", "T3", "B8")
@pytest.mark.catches("no-fence", "no-fence-on-retry", "fence-does-not-grow", "cancel-marks-a-running-task")
@pytest.mark.parametrize("play_name", PLAYS)
async def test_every_order_ends_as_the_model_says(world: World, play_name: str) -> None:
    orders = 0
    for order in merges(PLAYS[play_name]):
        await play(world, order)
        orders += 1
    print(f"{play_name}: {orders} orders, no violation")  # noqa: T201


def test_there_are_more_than_a_thousand_orders() -> None:
    assert sum(sum(1 for _ in merges(rows)) for rows in PLAYS.values()) == 1260 + 630 + 630
