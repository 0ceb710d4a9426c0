"""Rates before and while a reader holds an old snapshot: of the minimal client, and of a whole worker."""

import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import LiteralString

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from benchmarks.engines import connect
from benchmarks.loops import WINDOW_SECONDS, Loop, run
from benchmarks.worker import settled, worker

KEPT_WAITING = 20_000
CHUNK = 1_000
OPTIONS = ("--concurrency", 100, "--processes", 2)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A reader that keeps its snapshot and does nothing."""
    with psycopg.connect(url) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from holdfast.settled_deltas")
        yield


def beside_the_loop(url: str, held: float) -> dict[str, object]:
    """Rates in windows of five seconds, before and while a reader holds an old snapshot.

    As long without it as with it: so one sees what the worst of so many windows is by itself.
    """
    # A little longer than what is looked at, so that every window is a whole one.
    total = held + held + 2 * WINDOW_SECONDS
    done: list[list[int]] = []
    loop = threading.Thread(target=lambda: done.append(run(Loop(url, "holdfast", total)).windows))
    loop.start()
    # The loop's own processes take about a second to start; windows on the edge are left out below.
    time.sleep(held + 1)
    with old_snapshot(url):
        time.sleep(held)
    loop.join()
    windows = [count / WINDOW_SECONDS for count in done[0]]
    first, last = int(held / WINDOW_SECONDS) + 1, int((held + held) / WINDOW_SECONDS)
    return _told(held, windows[1 : first - 1], windows[first:last])


def beside_a_worker(
    url: str, held: float, enqueue: LiteralString, values: Mapping[str, object]
) -> dict[str, object]:
    """The same of a whole worker, which is fed by a statement that enqueues `n`."""
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(url, stop, enqueue, values))
    feeder.start()
    try:
        with connect(url) as conn, worker(url, *OPTIONS):
            time.sleep(WINDOW_SECONDS)
            calm = _windows(conn, held)
            with old_snapshot(url):
                under = _windows(conn, held)
    finally:
        stop.set()
        feeder.join()
    return _told(held, calm, under)


def _told(held: float, calm: list[float], under: list[float]) -> dict[str, object]:
    before = statistics.median(calm)
    return {
        "held_seconds": held,
        "before": round(before),
        "worst_over_before": round(min(under) / before, 3),
        "worst_before_over_before": round(min(calm) / before, 3),
        "median_over_before": round(statistics.median(under) / before, 3),
        "windows_before": [round(window) for window in calm],
        "windows_while_held": [round(window) for window in under],
    }


def _windows(conn: Connection[TupleRow], seconds: float) -> list[float]:
    windows = []
    for _ in range(int(seconds / WINDOW_SECONDS)):
        first, began = settled(conn), time.monotonic()
        time.sleep(WINDOW_SECONDS)
        windows.append((settled(conn) - first) / (time.monotonic() - began))
    return windows


def _feed(url: str, stop: threading.Event, enqueue: LiteralString, values: Mapping[str, object]) -> None:
    """Keep some waiting; they are not counted where they stand, because the dead stand there too."""
    done = 0
    with connect(url) as conn:
        while not stop.is_set():
            if done - settled(conn) < KEPT_WAITING:
                conn.execute(enqueue, {**values, "n": CHUNK})
                done += CHUNK
            else:
                time.sleep(0.05)
