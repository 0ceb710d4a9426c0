"""Rates before and while a reader holds an old snapshot: of the minimal client, and of a whole worker."""

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from benchmarks.engines import connect
from benchmarks.loops import Loop, run
from benchmarks.worker import settled, worker

WINDOW_SECONDS = 5
KEPT_WAITING = 20_000
OPTIONS = ("--concurrency", 100, "--processes", 2)


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A reader that keeps its snapshot and does nothing."""
    with psycopg.connect(url) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select count(*) from holdfast.settled_deltas")
        yield


def beside_the_loop(url: str, held: float, after: float = 20.0) -> dict[str, object]:
    """Rates in windows of five seconds, before, while and after a reader holds an old snapshot.

    As long without it as with it: so one sees what the worst of so many windows is by itself.
    """
    total = held + held + after
    done: list[list[int]] = []
    loop = threading.Thread(target=lambda: done.append(run(Loop(url, "holdfast", total)).windows))
    loop.start()
    # The loop's own processes take about a second to start; windows on the edge are left out below.
    time.sleep(held + 1)
    with old_snapshot(url):
        time.sleep(held)
    loop.join()
    windows = [count / 5 for count in done[0]]
    first, last = int(held / 5) + 1, int((held + held) / 5)
    calm, under = windows[1 : first - 1], windows[first:last]
    rate = statistics.median(calm)
    return {
        "held_seconds": held,
        "before": round(rate),
        "while_held": round(statistics.median(under)),
        "worst_window": round(min(under)),
        "worst_over_before": round(min(under) / rate, 3),
        "worst_before_over_before": round(min(calm) / rate, 3),
        "median_over_before": round(statistics.median(under) / rate, 3),
        "windows": [round(window) for window in windows],
    }


def beside_a_worker(url: str, held: float, put: Callable[[Connection[TupleRow]], int]) -> dict[str, object]:
    """The same of a whole worker, fed with what `put` enqueues; as long without the snapshot as with it."""
    stop = threading.Event()
    feeder = threading.Thread(target=_feed, args=(url, stop, put))
    feeder.start()
    try:
        with connect(url) as conn, worker(url, *OPTIONS):
            time.sleep(WINDOW_SECONDS)
            calm = _windows(conn, held)
            with old_snapshot(url):
                windows = _windows(conn, held)
    finally:
        stop.set()
        feeder.join()
    before = statistics.median(calm)
    return {
        "held_seconds": held,
        "before": round(before),
        "worst_over_before": round(min(windows) / before, 3),
        "worst_before_over_before": round(min(calm) / before, 3),
        "median_over_before": round(statistics.median(windows) / before, 3),
        "windows": [round(window) for window in calm + windows],
    }


def _windows(conn: Connection[TupleRow], seconds: float) -> list[float]:
    windows = []
    for _ in range(int(seconds / WINDOW_SECONDS)):
        first, began = settled(conn), time.monotonic()
        time.sleep(WINDOW_SECONDS)
        windows.append((settled(conn) - first) / (time.monotonic() - began))
    return windows


def _feed(url: str, stop: threading.Event, put: Callable[[Connection[TupleRow]], int]) -> None:
    """Keep some waiting; they are not counted where they stand, because the dead stand there too."""
    done = 0
    with connect(url) as conn:
        while not stop.is_set():
            if done - settled(conn) < KEPT_WAITING:
                done += put(conn)
            else:
                time.sleep(0.05)
