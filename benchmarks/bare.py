"""Bare rates: our statements against the frozen ones, side by side in one run (ABAB).

    python -m benchmarks.bare --pairs 5 --seconds 20 --write docs/benchmarks/bare.json

Both are driven by the same minimal client, in batches of 100, on a cluster of their own with fsync and
synchronous_commit on. The ratio of each pair is ours / frozen.
"""

import argparse
import statistics

from tests.cluster import DURABLE, postgres

from benchmarks.engines import Frozen, Ours, connect
from benchmarks.loops import Loop, about, drain, rate, spread, write


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
            found[f"closed loop, {size} B"] = _pairs(
                chosen.pairs, lambda engine, size=size: rate(Loop(url, engine, chosen.seconds, size))
            )
            backlog = chosen.backlog if size < 1_000 else chosen.backlog // 6
            found[f"drain, {size} B"] = _pairs(
                chosen.pairs, lambda engine, size=size, backlog=backlog: drain(url, engine, backlog, size)
            )
    write(chosen.write, found)


def _pairs(pairs: int, measure: object) -> dict[str, object]:
    rates: dict[str, list[float]] = {"frozen": [], "holdfast": []}
    for _ in range(pairs):
        for engine, kept in rates.items():
            kept.append(measure(engine))  # type: ignore[operator]
    ratios = [ours / frozen for frozen, ours in zip(rates["frozen"], rates["holdfast"], strict=True)]
    return {
        "frozen": round(statistics.median(rates["frozen"])),
        "holdfast": round(statistics.median(rates["holdfast"])),
        "ratio": spread(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


if __name__ == "__main__":
    main()
