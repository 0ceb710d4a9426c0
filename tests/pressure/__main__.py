"""Limits, rates, turns and lanes, with real workers that are killed: `python -m tests.pressure`."""

import argparse
import asyncio
import json
import math
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import psycopg

from holdfast.config import Settings
from holdfast.core.limit import Limit, Scope
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import migrate_up
from holdfast.store.limits import Limits
from holdfast.store.store import Store
from tests.cluster import postgres
from tests.pressure.record import (
    Interval,
    intervals,
    longest_way_back,
    most_at_once,
    most_in_window,
    used,
)
from tests.tree import Tree

LEASE = 3.0
TREES, PROCESSES = 4, 2


@dataclass(slots=True)
class Pressure:
    """A database, workers on it, and the deaths that were dealt out."""

    url: str
    trees: list[Tree]
    chance: random.Random
    deaths: list[float] = field(default_factory=list)
    lost: list[tuple[float, float]] = field(default_factory=list)
    slower: float = 1.0
    waited_until: float = math.inf

    def kill(self) -> None:
        """An executor, or sometimes a whole tree, which is started again."""
        tree = self.chance.choice(self.trees)
        executors = tree.executors()
        if self.chance.random() < 0.3:
            self.deaths.append(time.monotonic())
            tree.signal_group(signal.SIGKILL)
            tree.process.wait()
            self.lost.append((self.deaths[-1], time.monotonic() + LEASE + 1))
            tree.start(*OPTIONS)
        elif executors:
            self.deaths.append(time.monotonic())
            with suppress(ProcessLookupError):
                os.kill(self.chance.choice(executors), signal.SIGKILL)
            self.lost.append((self.deaths[-1], time.monotonic() + 1.0))

    async def run(self, tasks: list[NewTask], kills: int, seconds: float = 300.0) -> list[Interval]:
        """Enqueue, let them run while workers die, wait until all have ended; what the handlers did."""
        settings = Settings(database_url=self.url)
        async with await connect(self.url) as conn:
            for at in range(0, len(tasks), 1_000):
                await Store(settings).enqueue_many(conn, tasks[at : at + 1_000])
            await self.until_ended(conn, len(tasks), kills, seconds)
        return intervals(self.trees[0].record, self.deaths)

    async def until(self, conn: Conn, left: int) -> None:
        """Wait until so many are left."""
        while await _left(conn) > left:  # noqa: ASYNC110 (other processes do it)
            await asyncio.sleep(0.02)

    async def until_ended(self, conn: Conn, tasks: int, kills: int, seconds: float) -> None:
        """Wait for everything, and deal out deaths meanwhile."""
        began = time.monotonic()
        dealt = 0
        while left := await _left(conn):
            assert time.monotonic() - began < seconds, f"{left} of {tasks} left after {seconds:.0f} s"
            if dealt < kills and left < tasks * (kills - dealt) / (kills + 1):
                self.kill()
                dealt += 1
            if self.waited_until == math.inf and not await _waits(conn):
                self.waited_until = time.monotonic()
            await asyncio.sleep(0.05)


OPTIONS: list[object] = ["--lease", LEASE, "--concurrency", 20, "--processes", PROCESSES, "--sleep", 0.2]


async def _left(conn: Conn) -> int:
    row = await (await conn.execute("select count(*) from holdfast.tasks where mark is null")).fetchone()
    assert row is not None
    left: int = row[0]
    return left


async def _waits(conn: Conn) -> bool:
    """Whether a task could start now if there were room; not so what the dead hold or backs off."""
    row = await (
        await conn.execute(
            "select exists (select from holdfast.ready where run_at <= now())"
            " or exists (select from holdfast.blocked)"
        )
    ).fetchone()
    return row == (True,)


async def _set(url: str, limits: dict[str, Limit], scope: Scope = Scope.KIND) -> None:
    async with await connect(url) as conn:
        for name, limit in limits.items():
            await Limits(Settings(database_url=url), by="pressure").set(conn, scope, name, limit)


async def _running(pressure: Pressure, kind: str, limit: int, tasks: int, kills: int) -> dict[str, object]:
    """One limit: never above, and used while work waits."""
    await _set(pressure.url, {kind: Limit(running=limit)})
    seconds = [pressure.slower * pressure.chance.uniform(0.001, 0.02) for _ in range(tasks)]
    found = await pressure.run([NewTask(kind, json.dumps({"seconds": one})) for one in seconds], kills)
    leases = [(death, max(until, death + LEASE)) for death, until in pressure.lost]
    trees_lost = [death for death, until in pressure.lost if until - death >= LEASE]
    return {
        "limit": limit,
        "tasks": len({one.task for one in found}),
        "at once": most_at_once(found),
        "used": round(used(found, limit, pressure.lost, pressure.waited_until), 3),
        "used, leases of the dead left out": round(used(found, limit, leases, pressure.waited_until), 3),
        "full again after a tree's death, s": longest_way_back(found, limit, trees_lost),
    }


async def rates(pressure: Pressure, tasks: int, kills: int) -> dict[str, object]:
    """A rate window with its burst: never exceeded by more, and used."""
    await _set(pressure.url, {"rated": Limit(rate="200/s", burst=20)})
    found = await pressure.run([NewTask("rated")] * tasks, kills)
    # Without the last tenth: what a dead tree holds starts again after its lease, when nobody else waits.
    waited = sorted(one.began for one in found)[: len(found) * 9 // 10]
    return {
        "rate": "200/s, burst 20",
        "most in a window": most_in_window(found, 1.0),
        "starts per second": round(len(waited) / (waited[-1] - waited[0]), 1),
    }


async def fairness(pressure: Pressure, tasks: int, kills: int) -> dict[str, object]:
    """Five tenants with weights 1 to 4 and one with 1, and a newcomer in the middle of it all."""
    weights = {"a": 1.0, "b": 1.0, "c": 2.0, "d": 3.0, "e": 4.0}
    keys = {f"fair/tenant={tenant}": Limit(weight=weight) for tenant, weight in weights.items()}
    await _set(pressure.url, keys, Scope.KEY)
    await _set(pressure.url, {"fair": Limit(running=40)})
    # As many of each as keep all of them waiting until the first ones run out.
    work = [
        NewTask("fair", json.dumps({"tenant": tenant, "seconds": 0.002}), bucket=f"fair/tenant={tenant}")
        for tenant in weights
        for _ in range(tasks // 2)
    ]
    pressure.chance.shuffle(work)
    settings = Settings(database_url=pressure.url)
    async with await connect(pressure.url) as conn:
        store = Store(settings)
        for at in range(0, len(work), 1_000):
            await store.enqueue_many(conn, work[at : at + 1_000])
        await pressure.until(conn, len(work) - tasks // 2)
        new = await store.enqueue(conn, NewTask("fair", '{"tenant": "new"}', bucket="fair/tenant=new"))
        came = time.monotonic()
        dealt = 0
        while (left := await _left(conn)) > len(work) - tasks:
            if dealt < kills and left < len(work) - tasks / 2 - tasks / 2 * dealt / (kills + 1):
                pressure.kill()
                dealt += 1
            await asyncio.sleep(0.02)
        over = time.monotonic()
        row = await (
            await conn.execute(
                "select json_object_agg(id, payload ->> 'tenant') from (select id, payload"
                " from holdfast.task_history union all select id, payload from holdfast.tasks) x"
            )
        ).fetchone()
    assert row is not None
    tenants: dict[str, str] = row[0]
    found = [one for one in intervals(pressure.trees[0].record, pressure.deaths) if one.began < over]
    first = next(one.began for one in found if one.task == new.id)
    shares = Counter(tenants[one.task] for one in found if tenants[one.task] != "new")
    total, weight = sum(shares.values()), sum(weights.values())
    return {
        "tasks": total,
        "share over weight": {
            tenant: round(shares[tenant] / total / (weights[tenant] / weight), 3) for tenant in weights
        },
        "starts before the newcomer": sum(1 for one in found if came < one.began < first),
        "newcomer waited, s": round(first - came, 3),
    }


async def lanes(pressure: Pressure, tasks: int, kills: int) -> dict[str, object]:
    """A tenth as many lanes as tasks: each in the order of its enqueuing, whatever is killed or retried."""
    count = max(1, tasks // 10)
    order: dict[str, list[str]] = defaultdict(list)
    work = [NewTask("laned", bucket=f"lane:{n % count}") for n in range(tasks)]
    settings = Settings(database_url=pressure.url)
    async with await connect(pressure.url) as conn:
        for at in range(0, tasks, 1_000):
            made = await Store(settings).enqueue_many(conn, work[at : at + 1_000])
            for new, one in zip(work[at : at + 1_000], made, strict=True):
                order[str(new.bucket)].append(one.id)
        await pressure.until_ended(conn, tasks, kills, 300.0)
    lane_of = {task: lane for lane, ids in order.items() for task in ids}
    place = {task: n for ids in order.values() for n, task in enumerate(ids)}
    reached: dict[str, int] = defaultdict(int)
    broken = 0
    runs = 0
    for line in pressure.trees[0].record.read_text().splitlines():
        what, _, task, *_ = line.split(" ")
        runs += what == "start"
        # Whatever starts is the first that has not ended; one whose worker died may run again after its end.
        broken += place[task] > reached[lane_of[task]]
        if what == "end" and place[task] == reached[lane_of[task]]:
            reached[lane_of[task]] += 1
    return {"lanes": count, "tasks": tasks, "runs": runs, "out of order": broken,
            "not reached": sum(1 for lane, ids in order.items() if reached[lane] != len(ids))}  # fmt: skip


Scene: TypeAlias = Callable[[Pressure, int, int], Coroutine[None, None, dict[str, object]]]
SCENES: dict[str, Scene] = {
    "one at once": lambda pressure, tasks, kills: _running(pressure, "one", 1, tasks, kills),
    "seven at once": lambda pressure, tasks, kills: _running(pressure, "seven", 7, tasks, kills),
    "fifty at once": lambda pressure, tasks, kills: _running(pressure, "fifty", 50, tasks, kills),
    "rates": rates,
    "fairness": fairness,
    "lanes": lanes,
}
TASKS = 20_000
SIZES = {"fairness": 50_000, "lanes": 50_000}


def play(scene: str, tasks: int, kills: int, seed: int, slower: float = 1.0) -> dict[str, object]:
    """One scene on a cluster and workers of its own."""
    with ExitStack() as stack:
        server = stack.enter_context(postgres(15))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-pressure-")))
        with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
            admin.execute("create database pressure")
        url = f"{server}/pressure"
        asyncio.run(_migrate(url))
        trees = [Tree(url, folder, f"tree-{n}", "tests.pressure.app:app") for n in range(TREES)]
        for tree in trees:
            stack.callback(tree.close)
            tree.start(*OPTIONS)
        asyncio.run(_ready(trees))
        pressure = Pressure(url, trees, random.Random(seed), slower=slower)
        report = asyncio.run(SCENES[scene](pressure, tasks, kills))
        said = "".join(tree.said() for tree in trees)
        assert "Traceback" not in said, said[said.find("Traceback") :][:3_000]
        return report | {"kills": len(pressure.deaths)}


async def _ready(trees: list[Tree]) -> None:
    for tree in trees:
        await tree.ready(PROCESSES)


async def _migrate(url: str) -> None:
    async with await connect(url) as conn:
        await migrate_up(conn, "holdfast")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=SCENES, action="append")
    parser.add_argument("--tasks", type=int, help="of each scene, where it is not the usual number")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--slower", type=float, default=1.0, help="so many times as long as 1 to 20 ms")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)))
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    report: dict[str, object] = {"seed": chosen.seed, "workers": TREES * PROCESSES}
    for scene in chosen.only or SCENES:
        tasks = chosen.tasks or SIZES.get(scene, TASKS)
        report[scene] = play(scene, tasks, chosen.kills, chosen.seed, chosen.slower)
        sys.stdout.write(f"{scene}: {json.dumps(report[scene])}\n")
        sys.stdout.flush()
    if chosen.write:
        Path(chosen.write).write_text(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
