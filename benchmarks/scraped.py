"""A real Prometheus beside workers whose processes are killed: what it has seen at the end, and what is true.

python -m benchmarks.scraped --write docs/benchmarks/metrics.json      about 6 minutes; needs prometheus

Then what counting costs: drains of a worker with `--metrics-port`, scraped every second, and without, in
turn; by the time of the cores that the worker and PostgreSQL use, and by that of the listener alone.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import DURABLE, Cluster, cluster, free_port
from tests.tree import Tree

from benchmarks.apps import TOOK
from benchmarks.cpu import cpu_seconds
from benchmarks.engines import Ours, connect
from benchmarks.loops import about, spread, write
from benchmarks.worker import DRAIN_TASKS, enqueue, settled, worker
from holdfast.config import Settings
from holdfast.db.connect import connect as connect_async
from holdfast.ops.tokens import Role, Tokens

ROOT = Path(__file__).parent.parent
KILLS = 12
PAIRS = 5
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: workers
    static_configs: [{{targets: [{workers}]}}]
  - job_name: api
    authorization: {{credentials: "{token}"}}
    static_configs: [{{targets: ["127.0.0.1:{api}"]}}]
"""


@contextmanager
def running(*command: str, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A program that ends with the block."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def asked(port: int, query: str) -> float:
    """One figure of Prometheus; none is 0."""
    url = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(url, timeout=5) as answer:
        found = json.load(answer)["data"]["result"]
    return float(found[0]["value"][1]) if found else 0.0


async def token_of(url: str) -> str:
    """For the scraper."""
    async with await connect_async(url) as conn:
        return (await Tokens(Settings(database_url=url), by="x").create(conn, "p", Role.VIEWER, None)).token


def scraped(url: str, tasks: int) -> dict[str, object]:
    """Fifty thousand tasks, processes killed on the way, then what each of three records says."""
    program = shutil.which("prometheus")
    assert program is not None, "apt-get install prometheus"
    api, prometheus, *ports = (free_port() for _ in range(4))
    enqueue(url, "effect", tasks)
    rng = random.Random(3)
    with tempfile.TemporaryDirectory(prefix="holdfast-scraped-") as name:
        folder = Path(name)
        workers = ", ".join(f'"127.0.0.1:{port}"' for port in ports)
        config = CONFIG.format(workers=workers, token=asyncio.run(token_of(url)), api=api)
        (folder / "prometheus.yml").write_text(config)
        trees = [Tree(url, folder, f"w{port}") for port in ports]
        with (
            running(sys.executable, "-m", "holdfast", "api", "--port", str(api), HOLDFAST_DATABASE_URL=url),
            running(
                program,
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{prometheus}",
            ),
            connect(url) as conn,
        ):
            try:
                for tree, port in zip(trees, ports, strict=True):
                    tree.start("--processes", 2, "--metrics-port", port, "--lease", 5)
                killed = _drained(conn, trees, tasks, rng)
                # The last scrape.
                time.sleep(5)
                effects = {effect.task for effect in trees[0].effects()}
                row = conn.execute("select count(*) from holdfast.task_history").fetchone()
                assert row is not None
                complete = 'outcome="complete"'
                return {
                    "tasks": tasks,
                    "processes killed": killed,
                    "in history": row[0],
                    "different tasks in the record of effects": len(effects),
                    "Prometheus, by the API": asked(
                        prometheus, f"sum(holdfast_tasks_settled_total{{{complete}}})"
                    ),
                    "Prometheus, by the workers": asked(
                        prometheus, f"sum(holdfast_worker_settled_total{{{complete}}})"
                    ),
                    "crashes seen": asked(prometheus, "sum(holdfast_worker_crashes_total)"),
                    "oldest ready age": asked(prometheus, "max(holdfast_queue_oldest_ready_age_seconds)"),
                }
            finally:
                for tree in trees:
                    tree.close()


def _drained(conn: object, trees: list[Tree], tasks: int, rng: random.Random) -> int:
    """Until all have completed, some processes die."""
    killed = 0
    while True:
        row = conn.execute("select count(*) from holdfast.task_history").fetchone()  # type: ignore[attr-defined]
        if row[0] >= tasks:
            return killed
        if killed < KILLS and row[0] >= tasks * (killed + 0.5) / KILLS:
            pids = rng.choice(trees).executors()
            if pids:
                os.kill(rng.choice(pids), signal.SIGKILL)
                killed += 1
        time.sleep(0.05)


@contextmanager
def scraping(port: int) -> Iterator[None]:
    """Its page is read every second."""
    stop = threading.Event()

    def scrape() -> None:
        while not stop.wait(1):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
                    answer.read()
            except OSError:
                # It is not up yet, or gone already.
                continue

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def drained(server: Cluster, *options: object) -> dict[str, float]:
    """Microseconds of a core that a task takes: in all, and in the listener of counts if there is one.

    Not by the clock: rates differ by half from one minute to the next where others use the machine too.
    """
    url = f"{server.url}/postgres"
    postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
    with connect(url) as conn, tempfile.TemporaryDirectory(prefix="holdfast-took-") as folder:
        Ours.install(conn)
        enqueue(url, "noop", DRAIN_TASKS)
        conn.execute("vacuum analyze")
        os.environ[TOOK] = folder
        with worker(
            url, "--processes", 2, "--concurrency", 100, *options, app="benchmarks.timed:app"
        ) as tree:
            pids = [postmaster, tree.process.pid]
            while (first := settled(conn)) < DRAIN_TASKS * 0.1:
                time.sleep(0.05)
            began = cpu_seconds(pids)
            while (last := settled(conn)) < DRAIN_TASKS * 0.9:
                time.sleep(0.05)
            whole = (cpu_seconds(pids) - began) / (last - first)
            while settled(conn) < DRAIN_TASKS:
                time.sleep(0.05)
        took = sum(float(one.read_text()) for one in Path(folder).iterdir())
    return {"a task": whole * 1e6, "of it counting": took / DRAIN_TASKS * 1e6}


def cost(server: Cluster) -> dict[str, object]:
    """Drains with and without counts, in turn."""
    drains: dict[str, list[dict[str, float]]] = {"silent": [], "counted": []}
    for _ in range(PAIRS):
        drains["silent"].append(drained(server))
        port = free_port()
        with scraping(port):
            drains["counted"].append(drained(server, "--metrics-port", port))
    ratios = [b["a task"] / a["a task"] for a, b in zip(*drains.values(), strict=True)]
    parts = [drain["of it counting"] / drain["a task"] for drain in drains["counted"]]
    return {
        "silent, microseconds": spread([drain["a task"] for drain in drains["silent"]]),
        "counted, microseconds": spread([drain["a task"] for drain in drains["counted"]]),
        "counting alone, microseconds": spread([drain["of it counting"] for drain in drains["counted"]]),
        "counting, part of the drain": spread(parts),
        "counted / silent": spread(ratios),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50_000)
    parser.add_argument("--only", choices=["scraped", "cost"])
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    found: dict[str, object] = {"about": about()}
    with cluster(15, DURABLE) as server:
        url = f"{server.url}/postgres"
        with connect(url) as conn:
            Ours.install(conn)
        if chosen.only != "cost":
            found["scraped"] = scraped(url, chosen.tasks)
            print(found["scraped"], flush=True)
        if chosen.only != "scraped":
            found["cost, by the time of the cores"] = cost(server)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
