"""Insert-to-claim latency of tasks whose transactions stay open for 50 to 300 ms, under load."""

import asyncio
import random
import statistics
import threading
import time
from uuid import uuid4

from benchmarks.loops import Loop, run
from holdfast.config import Settings
from holdfast.core.decide import Policy, decide
from holdfast.core.outcome import Complete
from holdfast.core.task import NewTask
from holdfast.db.connect import connect
from holdfast.store.store import Store
from holdfast.worker.executor.claimer import Claimer

PRODUCERS = 8
SECONDS = 20.0
POLL_SECONDS = 0.005


async def _produce(
    url: str, store: Store, seed: int, until: float, made: dict[str, tuple[float, float]]
) -> None:
    """Enqueue, stay open for a while, commit; keep when it was inserted and how long it was open."""
    chance = random.Random(seed)
    async with await connect(url) as conn:
        while time.monotonic() < until:
            length = chance.uniform(0.05, 0.3)
            inserted = time.monotonic()
            async with conn.transaction():
                task = await store.enqueue(conn, NewTask("late", queue="late"))
                made[task.id] = (inserted, 0.0)
                await asyncio.sleep(length)
            made[task.id] = (inserted, time.monotonic() - inserted)


async def _consume(url: str, store: Store, until: float, seen: dict[str, float]) -> None:
    worker = str(uuid4())
    async with await connect(url) as conn:
        await store.workers.register(conn, worker, "late", 3_600)
        claimer = Claimer(store, ["late"], worker, kinds=["late"])
        while time.monotonic() < until:
            claims = await claimer.claim(conn, 100)
            now = time.monotonic()
            seen |= {claim.id: now for claim in claims}
            if claims:
                await store.settler.settle(
                    conn, [(claim, decide(claim, Complete(), Policy())) for claim in claims]
                )
            else:
                await asyncio.sleep(POLL_SECONDS)


async def _both(url: str) -> dict[str, object]:
    store = Store(Settings(database_url=url))
    until = time.monotonic() + SECONDS
    made: dict[str, tuple[float, float]] = {}
    seen: dict[str, float] = {}
    await asyncio.gather(
        *(_produce(url, store, seed, until - 2, made) for seed in range(PRODUCERS)),
        _consume(url, store, until, seen),
    )
    waits = sorted(seen[id_] - inserted for id_, (inserted, _) in made.items() if id_ in seen)
    over = sorted(seen[id_] - inserted - length for id_, (inserted, length) in made.items() if id_ in seen)
    return {
        "tasks": len(made),
        "never_claimed": len(made) - len(seen),
        "insert_to_claim_ms": _percentiles(waits),
        "over_the_transaction_ms": _percentiles(over),
    }


def _percentiles(values: list[float]) -> dict[str, float]:
    cut = statistics.quantiles(values, n=100)
    return {
        "p50": round(cut[49] * 1000, 1),
        "p99": round(cut[98] * 1000, 1),
        "max": round(values[-1] * 1000, 1),
    }


def measure_late_commits(url: str) -> dict[str, object]:
    """Slow transactions in one queue while the closed loop runs in another."""
    load = threading.Thread(target=run, args=(Loop(url, "holdfast", SECONDS),))
    load.start()
    found = asyncio.run(_both(url))
    load.join()
    return found
