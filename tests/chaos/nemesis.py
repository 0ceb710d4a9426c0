"""The faults, chosen by a seed: the same seed makes the same choices, round by round."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import psycopg

from tests.chaos.proxy import Proxy
from tests.cluster import Cluster
from tests.flights import flight_record
from tests.tree import Tree

# The database crashes in every run, so that nobody need be lucky to see it.
RESTART_EVERY = 30
GROWN_SECONDS = 3.0
CONCURRENCY = 20


@dataclass(slots=True)
class Nemesis:
    """Does one harmful thing after another, and repairs what a process supervisor would."""

    cluster: Cluster
    database: str
    proxy: Proxy
    trees: list[Tree]
    options: list[object]
    lease: float
    seed: int
    rounds: int = 0
    chance: random.Random = field(default_factory=random.Random)
    done: Counter[str] = field(default_factory=Counter)
    resumed: list[float] = field(default_factory=list)
    # What the processes that were killed held, by their own records.
    hit: Counter[str] = field(default_factory=Counter)

    def round(self) -> None:
        """One fault: which, and how, depends on the seed and the round alone."""
        self.rounds += 1
        self.chance = random.Random(f"{self.seed}:{self.rounds}")
        faults: list[tuple[int, Callable[[], None]]] = [
            (30, self.kill_executor),
            (6, self.kill_supervisor),
            (6, self.kill_tree),
            (6, self.stop_tree),
            (4, self.stop_executor),
            (12, self.terminate_backends),
            (12, self.cut_before_answers),
            (6, self.cut_connections),
            (12, self.write_from_outside),
        ]
        (fault,) = self.chance.choices([f for _, f in faults], [weight for weight, _ in faults])
        if self.rounds % RESTART_EVERY == RESTART_EVERY // 2:
            fault = self.restart_database
        self.done[fault.__name__] += 1
        fault()
        self.mend()

    def mend(self) -> None:
        """Start every tree that is gone, as a process supervisor would."""
        for tree in self.trees:
            if tree.process.poll() is not None:
                tree.start(*self.options)

    def kill_executor(self) -> None:
        executors = self._tree().executors()
        if executors:
            pid = self.chance.choice(executors)
            self._look(pid)
            _kill(pid, signal.SIGKILL)

    def _look(self, pid: int) -> None:
        """Take note of what a process holds that is about to be killed."""
        # One that has just been started, or has died, has no record to be read.
        with suppress(OSError, ValueError, LookupError), flight_record(pid, CONCURRENCY) as record:
            entries = record.entries()
            ended = sum(flight.ended for flight in entries)
            self.hit["kills"] += 1
            self.hit["kills that hit a claim"] += bool(entries)
            self.hit["handlers at work"] += len(entries) - ended
            self.hit["ended, not written"] += ended

    def kill_supervisor(self) -> None:
        tree = self._tree()
        for pid in tree.executors():
            self._look(pid)
        tree.process.kill()
        tree.process.wait()

    def kill_tree(self) -> None:
        tree = self._tree()
        for pid in tree.executors():
            self._look(pid)
        tree.signal_group(signal.SIGKILL)
        tree.process.wait()

    def stop_tree(self) -> None:
        tree = self._tree()
        tree.signal_group(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.2, 1.5) * self.lease)
        tree.signal_group(signal.SIGCONT)

    def stop_executor(self) -> None:
        executors = self._tree().executors()
        if not executors:
            return
        pid = self.chance.choice(executors)
        _kill(pid, signal.SIGSTOP)
        time.sleep(self.chance.uniform(0.1, 0.5) * self.lease)
        _kill(pid, signal.SIGCONT)

    def terminate_backends(self) -> None:
        with suppress(psycopg.Error), self._admin() as admin:
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name like 'holdfast%%' and random() < %s",
                [self.chance.uniform(0.1, 1.0)],
            )

    def cut_before_answers(self) -> None:
        self.proxy.cut_before_an_answer(self.chance.uniform(0.2, 1.0))

    def cut_connections(self) -> None:
        self.proxy.cut_all()

    def write_from_outside(self) -> None:
        """Somebody holds rows of tasks that run, or moves them, for a moment."""
        table, column = self.chance.choice([("tasks", "trace_id"), ("running", "worker")])
        # A deadlock with a worker may end this one.
        with suppress(psycopg.Error), self._admin() as admin, admin.transaction():
            admin.execute(
                f"update holdfast.{table} set {column} = {column}"
                " where id in (select id from holdfast.running)"
            )
            time.sleep(self.chance.uniform(0.0, 0.5))

    def restart_database(self) -> None:
        # How soon work resumes is asked of workers that are there. Every other crash comes amid whatever
        # else is going on, and is judged by the end of all tasks alone.
        judged = self.done["restart_database"] % 2 == 1
        asked = time.monotonic()
        while judged and not self._grown() and time.monotonic() - asked < 20:
            self.mend()
            time.sleep(0.1)
        self.cluster.stop("immediate")
        time.sleep(self.chance.uniform(0.0, 0.5))
        self.cluster.start()
        back = time.monotonic()
        with self._admin() as admin:
            if not judged or not _work(admin):
                return
            before = _settled(admin)
            while _settled(admin) == before:
                if time.monotonic() - back > 30:
                    break
                time.sleep(0.01)
        self.resumed.append(round(time.monotonic() - back, 3))

    def _grown(self) -> bool:
        """Whether every tree has its executors, and none was started within the last few seconds."""
        now = datetime.now(UTC)
        for tree in self.trees:
            alive = set(tree.executors())
            started = [line for line in tree.lines("executor.started") if line["pid"] in alive]
            ages = [(now - datetime.fromisoformat(str(line["at"]))).total_seconds() for line in started]
            if not ages or min(ages) < GROWN_SECONDS:
                return False
        return True

    def _tree(self) -> Tree:
        return self.chance.choice(self.trees)

    def _admin(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(f"{self.cluster.url}/{self.database}", autocommit=True)


def _work(admin: "psycopg.Connection[tuple[object, ...]]") -> bool:
    """Whether there is anything to resume."""
    return admin.execute("select exists (select from holdfast.tasks where mark is null)").fetchone() == (
        True,
    )


def _settled(admin: "psycopg.Connection[tuple[object, ...]]") -> object:
    return admin.execute(
        "select (select count(*) from holdfast.settled_deltas where ended_as <> 'late'),"
        " (select sum(tasks) from holdfast.settled_minutes where ended_as <> 'late')"
    ).fetchone()


def _kill(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
