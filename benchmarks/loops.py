"""The closed loop of enqueue, claim, settle, and the drain; each process has one connection."""

import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from benchmarks.engines import connect, engine_for, payload_of

_BEGAN = time.monotonic()
BATCH = 100
PROCESSES = 2
WINDOW_SECONDS = 5.0
EMPTY_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Loop:
    """One run of a loop."""

    url: str
    engine: str
    seconds: float
    payload_bytes: int = 220
    enqueue: bool = True
    queue: str = "default"
    batch: int = BATCH


@dataclass(frozen=True, slots=True)
class Ran:
    """Tasks completed in each window of five seconds, all processes together, and how long it took."""

    windows: list[int]
    seconds: float

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return sum(self.windows) / self.seconds


def run(loop: Loop) -> Ran:
    """Drive the loop with every process; starting them is not part of the time."""
    windows = int(loop.seconds / WINDOW_SECONDS) + 1
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(PROCESSES)
    counts = context.Array("l", windows * PROCESSES)
    lasted = context.Array("d", PROCESSES)
    processes = [
        context.Process(target=_work, args=(loop, gate, counts, lasted, number))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"a process of the {loop.engine} loop ended with {process.exitcode}")
    done = [sum(counts[n * windows + w] for n in range(PROCESSES)) for w in range(windows)]
    return Ran(done, max(lasted[:]))


def _work(loop: Loop, gate: Barrier, counts: Any, lasted: Any, number: int) -> None:
    windows = len(counts) // PROCESSES
    with connect(loop.url) as conn:
        engine = engine_for(loop.engine, conn, loop.queue, payload_of(loop.payload_bytes))
        gate.wait()
        began = time.monotonic()
        while (now := time.monotonic() - began) < loop.seconds:
            if loop.enqueue:
                engine.enqueue(loop.batch)
            taken = engine.claim(loop.batch)
            done = engine.complete(taken) if taken.count else 0
            if not loop.enqueue and not done:
                break
            counts[number * windows + int(now / WINDOW_SECONDS)] += done
        lasted[number] = time.monotonic() - began


def rate(loop: Loop) -> float:
    """Tasks per second over a whole run."""
    return run(loop).rate


def fill(url: str, engine: str, tasks: int, payload_bytes: int) -> None:
    """Enqueue so many, on as many connections as a loop has."""
    with ThreadPoolExecutor(PROCESSES) as fillers:
        for filler in [
            fillers.submit(_fill, url, engine, tasks // PROCESSES, payload_bytes) for _ in range(PROCESSES)
        ]:
            filler.result()


def drain(
    url: str, engine: str, payload_bytes: int, batch: int = BATCH, seconds: float = EMPTY_SECONDS
) -> float:
    """Tasks per second while what waits is emptied, or for so long."""
    return run(Loop(url, engine, seconds, payload_bytes, enqueue=False, batch=batch)).rate


def _fill(url: str, engine: str, tasks: int, payload_bytes: int) -> None:
    with connect(url) as conn:
        filler = engine_for(engine, conn, "default", payload_of(payload_bytes))
        for _ in range(tasks // 1_000):
            filler.enqueue(1_000)


def pairs(count: int, names: tuple[str, str], measure: Callable[[str], float]) -> dict[str, object]:
    """Two engines in turn (ABAB); the ratio of each pair is second / first."""
    return compared(in_turn(count, names, measure), *names)


def in_turn(count: int, names: Sequence[str], measure: Callable[[str], float]) -> dict[str, list[float]]:
    """Each of them once, so many times over."""
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(count):
        for name, kept in rates.items():
            kept.append(measure(name))
    return rates


def compared(rates: dict[str, list[float]], first: str, second: str) -> dict[str, object]:
    """The rates of two, and the ratio second / first of each turn."""
    ratios = [b / a for a, b in zip(rates[first], rates[second], strict=True)]
    found: dict[str, object] = {name: round(statistics.median(rates[name])) for name in (first, second)}
    return found | {"ratio": spread(ratios), "ratios": [round(ratio, 3) for ratio in ratios]}


def spread(values: Sequence[float]) -> dict[str, float]:
    """The median and the range."""
    return {
        "median": round(statistics.median(values), 3),
        "lowest": round(min(values), 3),
        "highest": round(max(values), 3),
    }


def yardstick() -> float:
    """Seconds for five million additions: how fast a core is in this hour, to read other seconds by."""
    began, total = time.perf_counter(), 0
    for number in range(5_000_000):
        total += number
    return round(time.perf_counter() - began, 2)


def about() -> dict[str, object]:
    """Where and on what it was measured."""
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "batch": BATCH,
        "processes": PROCESSES,
        "five million additions, s": yardstick(),
    }


def write(path: str | None, found: dict[str, object]) -> None:
    """Keep what was found, and how long that took, and show it."""
    text = json.dumps(found | {"minutes": round((time.monotonic() - _BEGAN) / 60, 1)}, indent=2)
    print(text)
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text + "\n")
