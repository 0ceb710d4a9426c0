"""Webhooks at speed and beside dead receivers: real workers, a real receiver, processes killed with -9.

python -m benchmarks.webhooks --write docs/benchmarks/webhooks.json       about 6 minutes
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import DURABLE, free_port, postgres
from tests.tree import Tree

from benchmarks.engines import Ours, connect
from benchmarks.loops import about, spread, write
from benchmarks.scraped import running
from holdfast import Holdfast
from holdfast.config import Settings
from holdfast.db.connect import connect as connect_async
from holdfast.webhooks.endpoints import Created, Endpoints, NewEndpoint

RATE_EVENTS = 20_000
ROUNDS = 3
ENDPOINTS = 50
DEAD = 10
EVENTS = 10_000
PER_SECOND = 200
KILLS = 6
APP = "benchmarks.apps:hooks"
os.environ |= {"HOLDFAST_WEBHOOKS_PLAIN": "1", "HOLDFAST_WEBHOOKS_ALLOW": "127.0.0.0/8"}


@dataclass(slots=True)
class Line:
    """A request that the receiver answered."""

    at: float
    event: str
    path: str
    said: str


class Place:
    """Endpoints at one receiver, and what has come in there."""

    def __init__(self, folder: Path, port: int) -> None:
        self._file, self._port = folder / "received", port
        self.secrets = folder / "secrets"

    def url(self, path: str) -> str:
        """Where a path is."""
        return f"http://127.0.0.1:{self._port}{path}"

    def lines(self) -> list[Line]:
        """What it has answered so far."""
        if not self._file.exists():
            return []
        whole = self._file.read_text().rpartition("\n")[0]
        parts = [line.split(" ") for line in whole.split("\n") if line]
        return [Line(float(at), event, path, said) for at, event, path, said in parts]

    @contextmanager
    def open(self, secrets: dict[str, str]) -> Iterator[None]:
        """It receives during the block."""
        self.secrets.write_text(json.dumps(secrets))
        self._file.unlink(missing_ok=True)
        module = [sys.executable, "-m", "benchmarks.receiver"]
        with running(*module, str(self._port), str(self._file), str(self.secrets)):
            time.sleep(1)
            yield


async def endpoints_of(
    settings: Settings, place: Place, paths: Sequence[str], running_max: int | None = None
) -> dict[str, Created]:
    """One endpoint for each path, which gets events of the type that ends as the path does."""
    async with await connect_async(settings.database_url) as conn:
        known = Endpoints(settings, by="bench")
        return {
            path: await known.create(
                conn,
                NewEndpoint(place.url(path), [f"bench.{path.rpartition('/')[2]}"], running_max=running_max),
            )
            for path in paths
        }


def fast(url: str, folder: Path) -> dict[str, float]:
    """Deliveries a second of one worker, from 20 % to 90 % of a backlog of events for one endpoint."""
    place = Place(folder, free_port())
    settings = Settings(database_url=url)
    with connect(url) as conn:
        Ours.install(conn)
    made = asyncio.run(endpoints_of(settings, place, ["/ok/0"], 200))
    with place.open({"/ok/0": made["/ok/0"].secret}):
        asyncio.run(_backlog(settings))
        tree = Tree(url, folder, "fast", APP).start("--processes", 2, "--concurrency", 100)
        try:
            until(lambda: len(place.lines()) >= RATE_EVENTS, 120)
        finally:
            tree.close()
        lines = place.lines()
    assert len({line.event for line in lines}) == RATE_EVENTS
    assert all(line.said == "good" for line in lines)
    first, last = lines[RATE_EVENTS // 5], lines[RATE_EVENTS * 9 // 10]
    return {"deliveries a second": RATE_EVENTS * 0.7 / (last.at - first.at)}


async def _backlog(settings: Settings) -> None:
    async with await connect_async(settings.database_url) as conn:
        for start in range(0, RATE_EVENTS, 1_000):
            async with Holdfast(settings=settings, webhooks=True) as app, conn.transaction():
                for number in range(start, start + 1_000):
                    await app.webhooks.publish("bench.0", {"n": number}, conn=conn)


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for what other processes do, with looks so rare that reading the lines takes nothing from them."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"waited {seconds} s")
        time.sleep(0.2)


def steady(url: str, folder: Path, dead: int, kills: int) -> dict[str, object]:
    """Events at a steady rate for endpoints of which some never answer: how soon the others have them."""
    place = Place(folder, free_port())
    settings = Settings(database_url=url)
    with connect(url) as conn:
        Ours.install(conn)
    paths = [f"/{'dead' if number < dead else 'ok'}/{number}" for number in range(ENDPOINTS)]
    made = asyncio.run(endpoints_of(settings, place, paths))
    healthy = [path for path in paths if path.startswith("/ok/")]
    with place.open({path: made[path].secret for path in healthy}):
        trees = [
            Tree(url, folder, f"w{number}", APP).start("--processes", 2, "--concurrency", 100, "--lease", 5)
            for number in range(2)
        ]
        try:
            until(lambda: _at_work(url) == len(trees) * 2, 60)
            published, killed = asyncio.run(_publish(settings, made, paths, trees, kills))
            wanted = {event for event, (path, _) in published.items() if path in healthy}
            until(lambda: wanted <= {line.event for line in place.lines()}, 180)
        finally:
            for tree in trees:
                tree.close()
        lines = place.lines()
    first: dict[str, float] = {}
    for line in lines:
        first.setdefault(line.event, line.at)
    waits = sorted(first[event] - at for event, (path, at) in published.items() if path in healthy)
    return {
        "events": len(published),
        "to healthy endpoints": len(waits),
        "received": len(lines),
        "different": len(first),
        "signatures refused": sum(line.said != "good" for line in lines),
        "processes killed": killed,
        "p50, ms": round(statistics.median(waits) * 1_000, 1),
        "p99, ms": round(waits[int(len(waits) * 0.99)] * 1_000, 1),
    }


def _at_work(url: str) -> int:
    """How many processes have come up; before that an event waits for a start."""
    with connect(url) as conn:
        row = conn.execute("select count(*) from holdfast.workers").fetchone()
    assert row is not None
    return int(row[0])


def beside_dead(url: str, folder: Path) -> dict[str, object]:
    """Without and with endpoints that never answer, in turn."""
    runs = [(steady(url, folder, 0, 0), steady(url, folder, DEAD, 0)) for _ in range(ROUNDS)]
    ratios = [float(str(with_dead["p99, ms"])) / float(str(whole["p99, ms"])) for whole, with_dead in runs]
    return {
        "runs": [{"none dead": whole, f"{DEAD} of {ENDPOINTS} dead": dead} for whole, dead in runs],
        "p99 beside dead ones / without": spread(ratios),
    }


async def _publish(
    settings: Settings, made: dict[str, Created], paths: Sequence[str], trees: Sequence[Tree], kills: int
) -> tuple[dict[str, tuple[str, float]], int]:
    """Publish at a steady rate; on the way keys change, and processes die: how many did."""
    rng, published, killed = random.Random(7), {}, 0
    began = time.monotonic()
    async with (
        Holdfast(settings=settings, webhooks=True) as app,
        await connect_async(settings.database_url) as conn,
    ):
        for number in range(EVENTS):
            ahead = began + number / PER_SECOND - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
            path = paths[number % len(paths)]
            at = time.monotonic()
            event = await app.webhooks.publish(f"bench.{path.rpartition('/')[2]}", {"n": number}, conn=conn)
            published[event] = path, at
            due = killed < kills and number >= EVENTS * (killed + 1) // (kills + 1)
            if due and (pids := rng.choice(trees).executors()):
                # It may have just been replaced; then the next event finds another.
                with suppress(ProcessLookupError):
                    os.kill(rng.choice(pids), signal.SIGKILL)
                    killed += 1
            if number == EVENTS // 2:
                for created in made.values():
                    # Receivers know the old keys only, and those go on signing.
                    await Endpoints(settings, by="bench").rotate(conn, created.endpoint.id)
    return published, killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["fast", "dead", "kills"])
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about()}
    with postgres(15, DURABLE) as server, tempfile.TemporaryDirectory(prefix="holdfast-hooks-") as name:
        url, folder = f"{server}/postgres", Path(name)
        if chosen.only in (None, "fast"):
            rates = [fast(url, folder)["deliveries a second"] for _ in range(ROUNDS)]
            found["deliveries a second"] = spread(rates)
            print(found, flush=True)
        if chosen.only in (None, "dead"):
            found["beside dead ones"] = beside_dead(url, folder)
            print(found, flush=True)
        if chosen.only in (None, "kills"):
            found[f"{DEAD} of {ENDPOINTS} dead, processes killed"] = steady(url, folder, DEAD, KILLS)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
