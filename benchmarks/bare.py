"""Bare rates: our statements against the frozen ones, side by side in one run (ABAB).

    python -m benchmarks.bare --pairs 5 --seconds 20 --write docs/benchmarks/bare.json

Both are driven by the same minimal client, in batches of 100, on a cluster of their own with fsync and
synchronous_commit on. The ratio of each pair is ours / frozen.
"""

import argparse
from functools import partial

from tests.cluster import DURABLE, postgres

from benchmarks.engines import Frozen, Ours, connect
from benchmarks.loops import Loop, about, drain, fill, pairs, rate, write

ENGINES = ("frozen", "holdfast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--backlog", type=int, default=300_000, help="tasks per drain")
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about() | {"pairs": chosen.pairs, "seconds": chosen.seconds}}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        with connect(url) as conn:
            Frozen.install(conn)
            Ours.install(conn)
        for size in (220, 8_192):
            loop = partial(_loop, url, chosen.seconds, size)
            found[f"closed loop, {size} B"] = pairs(chosen.pairs, ENGINES, loop)
            emptying = partial(_drain, url, chosen.backlog if size < 1_000 else chosen.backlog // 6, size)
            found[f"drain, {size} B"] = pairs(chosen.pairs, ENGINES, emptying)
    write(chosen.write, found)


def _loop(url: str, seconds: float, size: int, engine: str) -> float:
    return rate(Loop(url, engine, seconds, size))


def _drain(url: str, backlog: int, size: int, engine: str) -> float:
    fill(url, engine, backlog, size)
    return drain(url, engine, size)


if __name__ == "__main__":
    main()
