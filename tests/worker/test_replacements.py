"""Executors wear out, die and find nothing to do in any order: the number of those at work is kept."""

import random
from collections.abc import Callable

import pytest

from holdfast.worker.supervisor.executor_process import ExecutorProcess, Leaving
from holdfast.worker.supervisor.replacements import RESTART_SECONDS_MAX, Replacements

HISTORIES = 5_000
ACTS_MAX = 60
ROUNDS = 10


class Worker:
    """A supervisor whose executors have no processes."""

    def __init__(self, processes: int) -> None:
        self.children: list[ExecutorProcess] = []
        self.now = 0.0
        self.room = True
        self.wanted = processes
        self.replacements = Replacements(self.children, processes, self._start, self._drain, lambda: self.now)
        self.replacements.keep()

    def _start(self) -> bool:
        if self.room:
            nothing: dict[str, object] = {"process": None, "channel": None, "flight": None}
            self.children.append(ExecutorProcess("", pidfd=-1, began_at=self.now, **nothing))  # type: ignore[arg-type]
        return self.room

    def _drain(self, child: ExecutorProcess) -> None:
        assert child in self.working()
        child.leaving = Leaving.RECYCLED
        assert len(self.working()) >= self.wanted, "a drain left a slot missing"

    def working(self) -> list[ExecutorProcess]:
        return [child for child in self.children if child.ready and child.leaving is None]

    def becomes_ready(self, child: ExecutorProcess) -> None:
        child.ready = True

    def wears_out(self, child: ExecutorProcess) -> None:
        child.worn = child.ready

    def loses_its_lease(self, child: ExecutorProcess) -> None:
        if child in self.working():
            child.leaving = Leaving.LEASE_LOST

    def ends(self, child: ExecutorProcess) -> None:
        self.children.remove(child)
        self.replacements.ended(child, done=False)

    def finds_nothing_to_do(self, child: ExecutorProcess) -> None:
        if child in self.working():
            self.wanted -= not child.worn
            self.children.remove(child)
            self.replacements.ended(child, done=True)

    def time_passes(self, chance: random.Random) -> None:
        self.now += chance.choice([0.1, 1.0, 6.0, 60.0])
        self.room = chance.random() < 0.7

    def check(self) -> None:
        assert sum(not child.worn for child in self.children) <= self.wanted, "a place was filled twice"
        assert self.replacements.finished == (self.wanted == 0)

    def come_to_rest(self) -> None:
        self.room = True
        for _ in range(ROUNDS):
            self.now += RESTART_SECONDS_MAX
            for child in self.children[:]:
                child.ready = True
                if child.leaving is not None:
                    self.ends(child)
            self.replacements.keep()


def history(chance: random.Random, acts: int) -> Worker:
    worker = Worker(chance.randint(1, 4))
    of_one: list[Callable[[ExecutorProcess], None]] = [
        *[worker.becomes_ready, worker.wears_out] * 3,
        worker.loses_its_lease,
        worker.ends,
    ]
    if chance.random() < 0.3:
        of_one.append(worker.finds_nothing_to_do)
    for _ in range(acts):
        if worker.children and chance.random() < 0.8:
            chance.choice(of_one)(chance.choice(worker.children))
        else:
            worker.time_passes(chance)
        worker.replacements.keep()
        worker.check()
    worker.come_to_rest()
    return worker


@pytest.mark.catches("recycled-without-successor", "worn-executor-keeps-its-place")
def test_no_history_leaves_a_slot_missing_and_all_end_at_the_number_of_processes() -> None:
    # Short histories first, so that the first one that fails is easy to follow.
    for seed in range(HISTORIES):
        worker = history(random.Random(seed), 1 + seed * ACTS_MAX // HISTORIES)
        assert len(worker.working()) == len(worker.children) == worker.wanted, f"seed {seed}"
        assert not any(child.worn for child in worker.children), f"seed {seed}"


@pytest.mark.catches("restarts-without-pause")
def test_executors_that_die_of_their_start_are_started_ever_more_slowly() -> None:
    worker = Worker(1)
    pauses = []
    for _ in range(12):
        worker.ends(worker.children[0])
        before = worker.now
        while not worker.children:
            worker.replacements.keep()
            worker.now += 0.1
        pauses.append(round(worker.now - before - 0.1))
    assert pauses[:2] == [0, 0], "the first are replaced at once"
    assert pauses == sorted(pauses)
    assert pauses[-1] == RESTART_SECONDS_MAX
    worker.now += 60
    worker.ends(worker.children[0])
    worker.replacements.keep()
    assert worker.children, "one that lived for a while is replaced at once"
