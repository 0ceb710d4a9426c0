"""Ten thousand hostile payloads, messages and answers through every door: `python -m tests.hostile`.

Fails if an executor dies, if an answer is a 5xx, or if one of them takes a function more than 50 ms of CPU.
"""

import argparse
import asyncio
import sys
from concurrent.futures import ProcessPoolExecutor

from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from tests.cluster import postgres
from tests.hostile.attack import Report, add, attack, weigh

DATABASE = "hostile"


async def _attacked(server: str, count: int, first: int) -> Report:
    async with await connect(f"{server}/postgres") as conn:
        await conn.execute(f"create database {DATABASE}")
    async with await connect(f"{server}/{DATABASE}") as conn:
        await migrate_up(conn, "holdfast")
    return await attack(f"{server}/{DATABASE}", count, first)


def main() -> int:
    """Print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="The first number; another one, other attacks.")
    chosen = parser.parse_args()
    with postgres(15) as server:
        report = asyncio.run(_attacked(server, chosen.count, chosen.first))
    for door, became in report.counted.doors.items():
        sys.stdout.write(f"{door:10} {sum(became.values()):6}  {dict(became.most_common())}\n")
    sys.stdout.write(f"{'tasks':10} {sum(report.states.values()):6}  {dict(report.states)}\n")
    for line in report.wrong[:50]:
        sys.stdout.write(f"wrong: {line}\n")
    sys.stdout.flush()
    end = chosen.first + chosen.count
    with ProcessPoolExecutor() as pool:
        parts = [range(at, min(at + 100, end)) for at in range(chosen.first, end, 100)]
        for weighed in pool.map(weigh, parts):
            add(report, weighed)
    for name, seconds in sorted(report.dearest.items(), key=lambda one: -one[1]):
        sys.stdout.write(f"{name:24} {seconds * 1000:6.1f} ms at most\n")
    for line in report.too_dear[:50]:
        sys.stdout.write(f"wrong: {line}\n")
    sys.stdout.write(f"{len(report.wrong)} wrong, {report.deaths} executors died\n")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
