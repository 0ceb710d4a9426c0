"""The CPU time of trees of processes, read from /proc; it imports nothing of Holdfast."""

import os
from collections.abc import Iterable
from pathlib import Path


def cpu_seconds(pids: Iterable[int]) -> float:
    """What these processes, and those that they started, have used of the cores so far."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            # It has just ended.
            continue
        pid = int(stat.parent.name)
        parents.setdefault(int(fields[1]), []).append(pid)
        # Its own, and that of its children that have ended.
        ticks[pid] = sum(map(int, fields[11:15]))
    found, waiting = 0, list(pids)
    while waiting:
        pid = waiting.pop()
        found += ticks.get(pid, 0)
        waiting += parents.get(pid, ())
    return found / os.sysconf("SC_CLK_TCK")
