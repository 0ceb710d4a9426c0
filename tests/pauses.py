"""When the machine itself stood still: a host that stops a core for a moment lengthens what runs on it."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LOOK_SECONDS = 0.005
# Waiting for one's turn is no pause.
LEAST_SECONDS = 0.02


@contextmanager
def pauses() -> Iterator[Callable[[float, float], float]]:
    """Watch every core; answers, at the end, how long one of them stood still between two moments."""
    cores = sorted(os.sched_getaffinity(0))
    seen: dict[int, list[tuple[float, float]]] = {core: [] for core in cores}
    done = threading.Event()

    def watch(core: int) -> None:
        os.sched_setaffinity(0, {core})
        while not done.is_set():
            due = time.monotonic() + LOOK_SECONDS
            time.sleep(LOOK_SECONDS)
            if (now := time.monotonic()) > due + LEAST_SECONDS:
                seen[core].append((due, now))

    def stood_still(began: float, ended: float) -> float:
        return max(
            sum(max(0.0, min(ended, to) - max(began, since)) for since, to in times)
            for times in seen.values()
        )

    watching = [threading.Thread(target=watch, args=[core]) for core in cores]
    for one in watching:
        one.start()
    try:
        yield stood_still
    finally:
        done.set()
        for one in watching:
            one.join()
