"""A state machine over the store: late commits, rolled-back claims, re-entries, lost answers.

Two claimers live through each run, so that their floors rise. At the end everything committed and
eligible must be claimed within 1.5 s of their clock while slots are free.
"""

import asyncio
import copy
from collections.abc import Awaitable, Iterable
from typing import TypeVar
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from holdfast.core.decide import CRASHES_MAX
from holdfast.core.errors import MoveRefused
from holdfast.core.outcome import Cancel, Complete, Fail, Outcome, Release, Released, Retry, Snooze
from holdfast.core.state import Move, State, after
from holdfast.core.task import Claim, NewTask
from holdfast.db.connect import Conn, connect
from holdfast.ops.repair import Repair
from holdfast.worker.executor.claimer import Claimer
from tests.store.test_floor import Clock
from tests.world import World

T = TypeVar("T")
ENDINGS: list[tuple[Move, Outcome]] = [
    (Move.COMPLETE, Complete('"done"')),
    (Move.RETRY, Retry("again", after=0)),
    (Move.SNOOZE, Snooze(0, progress=0.5)),
    (Move.RELEASE, Released(Release.DRAINED)),
    (Move.FAIL, Fail("TASK_ENTITY_NOT_FOUND", "gone")),
    (Move.CANCEL, Cancel("not wanted")),
]


def chosen(names: Iterable[str], pick: int) -> str:
    """One of the names. What there is depends on the clock, so Hypothesis only draws a number."""
    known = sorted(names)
    return known[pick % len(known)]


class StoreMachine(RuleBasedStateMachine):
    """The model is a dictionary of states and the set of claims that are still good."""

    def __init__(self, url: str, direct_url: str) -> None:
        super().__init__()
        self.url, self.direct_url = url, direct_url
        self.runner = asyncio.Runner()
        self.states: dict[str, State] = {}
        self.good: dict[str, Claim] = {}
        self.stale: list[Claim] = []
        self.unknown: dict[str, str] = {}
        self.open: list[tuple[Conn, list[str]]] = []
        self.fence = 0
        self.asked: set[str] = set()
        self.laned: set[str] = set()
        self.results: set[tuple[str, int]] = set()

    def do(self, work: Awaitable[T]) -> T:
        async def run() -> T:
            return await work

        return self.runner.run(run())

    @initialize()
    def begin(self) -> None:
        conn = self.do(connect(self.url))
        self.do(World.empty(conn))
        self.world = World(conn, self.url)
        self.clock = Clock()
        self.claimers: dict[str, Claimer] = {}
        for _ in range(2):
            self.hire()

    def claimer(self, worker: str) -> Claimer:
        return Claimer(self.world.store, ["default"], worker, kinds=["mail.send"], clock=self.clock)

    def hire(self) -> None:
        worker = str(uuid4())
        self.claimers[worker] = self.claimer(worker)
        self.do(self.world.register(worker))

    # What producers do.

    @rule(priority=st.sampled_from([0, 2]), bucket=st.sampled_from([None, None, "lane:1"]))
    def enqueue(self, priority: int, bucket: str | None) -> None:
        task_id = self.do(self.world.enqueue(priority=priority, bucket=bucket))
        self.states[task_id] = State.QUEUED
        if bucket is not None:
            self.laned.add(task_id)

    @rule(tasks=st.integers(1, 3))
    def enqueue_in_a_transaction_that_stays_open(self, tasks: int) -> None:
        if len(self.open) >= 3:
            return
        conn = self.do(connect(self.direct_url))
        self.do(conn.execute("begin"))
        made = self.do(self.world.store.enqueue_many(conn, [NewTask("mail.send")] * tasks))
        self.open.append((conn, [one.id for one in made]))

    @rule(pick=st.integers(0, 9_999), commit=st.booleans())
    def end_a_transaction(self, pick: int, commit: bool) -> None:  # noqa: FBT001
        if not self.open:
            return
        conn, ids = self.open.pop(pick % len(self.open))
        self.do(conn.execute("commit" if commit else "rollback"))
        self.do(conn.close())
        if commit:
            self.states |= dict.fromkeys(ids, State.QUEUED)

    # What workers do.

    def took(self, claims: list[Claim]) -> None:
        for claim in claims:
            assert self.states[claim.id] is State.QUEUED, "only a queued task is claimed"
            assert claim.fence > self.fence, "fences only grow"
            self.states[claim.id] = State.RUNNING
            self.good[claim.id] = claim
            if claim.limits:
                permits = self.claimers[claim.worker].permits
                permits.add(claim)
                assert permits.next() == claim, "it came with its permit"
        self.fence = max([self.fence, *(claim.fence for claim in claims)])

    @rule(pick=st.integers(0, 9_999), limit=st.integers(1, 4))
    def claim(self, pick: int, limit: int) -> None:
        worker = chosen(self.claimers, pick)
        self.claim_as(worker, limit)

    def claim_as(self, worker: str, limit: int) -> int:
        claims = self.do(self.claimers[worker].claim(self.world.conn, limit))
        # One call may make several statements, each with a fence of its own.
        for fence in sorted({claim.fence for claim in claims}):
            self.took([claim for claim in claims if claim.fence == fence])
        return len(claims)

    @rule(pick=st.integers(0, 9_999), limit=st.integers(1, 4))
    def claim_and_roll_back(self, pick: int, limit: int) -> None:
        worker = chosen(self.claimers, pick)
        conn = self.do(connect(self.direct_url))
        self.do(conn.execute("begin"))
        # A claimer that dies before its commit; its floor dies with it.
        self.do(self.claimer(worker).claim(conn, limit))
        # Said, not left to the server, which hears of a closed connection when it gets to it: until then
        # the rows stay locked, and the clock of this model does not wait for that.
        self.do(conn.execute("rollback"))
        self.do(conn.close())

    @rule(pick=st.integers(0, 9_999), limit=st.integers(1, 4))
    def claim_and_lose_the_answer(self, pick: int, limit: int) -> None:
        worker = chosen(self.claimers, pick)
        claimer = self.claimers[worker]
        before = copy.deepcopy(claimer.permits)
        claims = self.do(claimer.claim(self.world.conn, limit))
        claimer.permits = before
        for claim in claims:
            assert self.states[claim.id] is State.QUEUED
            self.states[claim.id] = State.RUNNING
            self.unknown[claim.id] = worker
            self.fence = max(self.fence, claim.fence)

    @rule(pick=st.integers(0, 9_999))
    def reconcile(self, pick: int) -> None:
        worker = chosen(self.claimers, pick)
        held = [claim for claim in self.good.values() if claim.worker == worker]
        back = self.do(self.world.store.workers.reconcile(self.world.conn, worker, held))
        self.do(
            self.world.store.permits.set_permits(
                self.world.conn, worker, 0, self.claimers[worker].permits.held()
            )
        )
        expected = {task_id for task_id, owner in self.unknown.items() if owner == worker}
        assert {claim.id for claim, _ in back.accepted} == expected
        for task_id in expected:
            del self.unknown[task_id]
            self.back(task_id, State.QUEUED)

    @rule(pick=st.integers(0, 9_999), ending=st.sampled_from(ENDINGS), lost_answer=st.booleans())
    def settle(self, pick: int, ending: tuple[Move, Outcome], lost_answer: bool) -> None:  # noqa: FBT001
        if not self.good:
            return
        claim = self.good[chosen(self.good, pick)]
        move, outcome = ending
        group = [self.world.verdict(claim, outcome)]
        group += [self.world.verdict(late, Complete()) for late in self.stale[-2:]]
        store, conn = self.world.store, self.world.conn
        settled = self.do(store.settler.settle(conn, group))
        if lost_answer:
            settled = self.do(store.settler.settle_again(conn, group[:1]))
        assert [one.id for one, _ in settled.accepted] == [claim.id], "the holder is heard, the late are not"
        assert (claim.id, claim.fence) not in self.results
        self.results.add((claim.id, claim.fence))
        self.end(claim, move)

    def end(self, claim: Claim, move: Move) -> None:
        del self.good[claim.id]
        if claim.limits:
            self.claimers[claim.worker].permits.ended(claim, 0.0)
        self.stale.append(claim)
        reached = after(State.RUNNING, move)
        if move is Move.RETRY and claim.failures + 1 >= self.world.policy.max_attempts:
            reached = State.FAILED
        assert reached is not None
        self.back(claim.id, reached)

    def back(self, task_id: str, reached: State) -> None:
        """Where a task goes when its claim ends; one that was asked to stop does not go back."""
        asked = task_id in self.asked
        self.asked.discard(task_id)
        self.states[task_id] = State.CANCELLED if asked and reached is State.QUEUED else reached

    @rule(pick=st.integers(0, 9_999))
    def lose_a_worker(self, pick: int) -> None:
        worker = chosen(self.claimers, pick)
        self.do(self.world.lapse(worker))
        self.do(self.world.reclaim(self.world.conn, limit=1_000))
        held = [claim for claim in self.good.values() if claim.worker == worker]
        unknown = [task_id for task_id, owner in self.unknown.items() if owner == worker]
        alone = len(held) + len(unknown) == 1
        for claim in held:
            poison = alone and claim.crashes + 1 >= CRASHES_MAX
            self.end(claim, Move.FAIL if poison else Move.RECLAIM)
        for task_id in [task_id for task_id, owner in self.unknown.items() if owner == worker]:
            del self.unknown[task_id]
            self.back(task_id, State.QUEUED)
        del self.claimers[worker]
        self.hire()

    # What an operator does.

    @rule(
        pick=st.integers(0, 9_999),
        move=st.sampled_from([Move.PAUSE, Move.RESUME, Move.REQUEST_CANCEL, Move.REDRIVE]),
    )
    def operate(self, pick: int, move: Move) -> None:
        if not self.states:
            return
        task_id = chosen(self.states, pick)
        reached = after(self.states[task_id], move)
        operator, conn = self.world.operator, self.world.conn
        try:
            match move:
                case Move.PAUSE:
                    self.do(operator.pause(conn, task_id, "look"))
                case Move.RESUME:
                    self.do(operator.resume(conn, task_id))
                case Move.REQUEST_CANCEL:
                    self.do(operator.cancel(conn, task_id, "stop"))
                case _:
                    moved = self.do(operator.redrive(conn, [task_id], "fixed"))
                    assert bool(moved) == (reached is not None)
        except MoveRefused:
            assert reached is None
        if reached is State.RUNNING:
            self.asked.add(task_id)
        if reached is not None:
            self.states[task_id] = reached

    @rule(pick=st.integers(0, 9_999))
    def lose_a_row_and_repair(self, pick: int) -> None:
        """Somebody deletes the row by which a live task is found; the repair puts it back into the queue."""
        live = [task_id for task_id, state in self.states.items() if state in (State.QUEUED, State.RUNNING)]
        if not live:
            return
        task_id = chosen(live, pick)
        for table in ("ready", "blocked", "running"):
            self.do(self.world.conn.execute(f"delete from holdfast.{table} where id = '{task_id}'"))
        repaired = self.do(Repair(self.world.store.settings, by="ada").run(self.world.conn, "deleted"))
        assert repaired == [task_id]
        self.states[task_id] = State.QUEUED
        self.unknown.pop(task_id, None)
        self.asked.discard(task_id)
        claim = self.good.pop(task_id, None)
        if claim is not None:
            self.stale.append(claim)
            if claim.limits:
                self.claimers[claim.worker].permits.ended(claim, 0.0)

    @rule(seconds=st.floats(0.1, 2.0))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        self.do(
            self.world.conn.execute(
                "update holdfast.sweeps set due_at = due_at - make_interval(secs => %s)",
                [seconds],
            )
        )

    # What always holds.

    @invariant()
    def nothing_is_in_two_places(self) -> None:
        if hasattr(self, "world"):
            self.do(self.world.check())

    def say_permits(self, worker: str) -> None:
        held = self.claimers[worker].permits.held()
        self.do(self.world.store.permits.set_permits(self.world.conn, worker, 0, held))
