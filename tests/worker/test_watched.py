"""A watched worker: the counts that its processes report, and the pages that show them."""

import asyncio
import json
import os
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.core.events import CountsReported, LateResultsRefused, TasksClaimed, TasksSettled
from holdfast.core.failure import FailureClass
from holdfast.core.task import NewTask
from holdfast.observe.counters import Figure, ProcessCounters, name_of
from tests.cluster import free_port
from tests.many_kinds_app import KINDS
from tests.tree import ROOT, Tree, until, until_true
from tests.world import World, broken


def samples(page: str) -> dict[tuple[str, ...], float]:
    """Every sample of a page, by its name and the values of its labels in the order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@pytest.mark.catches("moments-added-up")
def test_reports_are_added_up_and_of_moments_the_latest_counts() -> None:
    counts: dict[str, float] = {}
    hear = ProcessCounters(counts)
    moment = name_of(Figure.SUCCESS_AT)
    hear(CountsReported({"a": 2.0, moment: 7.0}))
    hear(CountsReported({"a": 3.0, "b": 1.0, moment: 5.0}))
    assert counts == {"a": 5.0, "b": 1.0, moment: 7.0}


@pytest.mark.catches("last-counts-lost", "last-counts-cut-off")
async def test_a_thousand_kinds_are_all_counted_though_only_the_last_report_tells_of_them(
    world: World,
) -> None:
    await world.store.enqueue_many(world.conn, [NewTask(kind) for kind in KINDS])
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.many_kinds_app",
        cwd=ROOT,
        env=os.environ | {"HOLDFAST_DATABASE_URL": world.url},
        stdout=PIPE,
    )
    printed, _ = await worker.communicate()
    # The executor logs to the same stream.
    counts = json.loads(printed.splitlines()[-1])
    for kind in KINDS:
        assert counts[name_of(Figure.CLAIMED, kind)] == 1.0
        assert counts[name_of(Figure.SETTLED, kind, "complete", "")] == 1.0


@pytest.mark.requirement("O7")
@pytest.mark.catches("counts-not-reported", "never-ready")
async def test_o7_a_watched_worker_keeps_its_counts_when_its_processes_are_killed(
    world: World, trees: Callable[..., Tree]
) -> None:
    port = free_port()
    tree = await trees().start("--metrics-port", port, "--processes", 2, "--sleep", 0.1).ready(2)
    for _ in range(300):
        await world.enqueue("effect")
    await world.enqueue("sleep", payload={"seconds": 60})
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

        async def counted() -> bool:
            found = samples((await client.get("/metrics")).text)
            return found.get(("holdfast_worker_settled_total", "", "effect", "complete")) == 300

        async def ready() -> bool:
            return bool((await client.get("/readyz")).json()["executors"] == 2)

        await until_true(ready, 60, "two processes at work")
        await until_true(counted, 30, "300 tasks")
        assert (await client.get("/readyz")).status_code == 200
        tree.kill_executors()
        await until(lambda: len(tree.lines("executor.started")) == 4, what="two new processes")
        await until_true(ready, 60, "them to be ready")
        assert (await client.get("/healthz")).json()["status"] == "ok"
        page = await client.get("/metrics")
        assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        found = samples(page.text)
        assert found["holdfast_worker_settled_total", "", "effect", "complete"] == 300
        assert found["holdfast_worker_run_seconds_count", "effect"] == 300
        assert found["holdfast_worker_start_latency_seconds_bucket", "effect", "+Inf"] >= 300
        assert found["holdfast_worker_crashes_total",] == 2
        assert found["holdfast_worker_processes_started_total",] == 4
        assert (await client.get("/nothing")).status_code == 404
        assert (await client.post("/metrics")).status_code == 404


@pytest.mark.catches("classes-not-counted")
async def test_outcomes_are_counted_by_class_and_late_ones_too(world: World) -> None:
    found: dict[str, float] = {}
    hear = ProcessCounters(found)
    await world.enqueue("pay")
    claim = await world.claim_one()
    lost = [world.verdict(claim, broken(kind=FailureClass.TIMEOUT))]
    for event in (TasksClaimed(world.worker, [claim]), TasksSettled(lost), LateResultsRefused(lost)):
        hear(event)
    assert found[name_of(Figure.CLAIMED, "pay")] == 1
    assert found[name_of(Figure.SETTLED, "pay", "retry", "timeout")] == 1
    assert found[name_of(Figure.LATE, "pay")] == 1
    assert name_of(Figure.SUCCESS_AT) not in found


async def test_a_port_that_is_taken_is_said_in_a_line(trees: Callable[..., Tree]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        tree = trees().start("--metrics-port", taken.getsockname()[1])
        assert await tree.left() == 2
    assert "cannot be used" in tree.said()
    assert "Traceback" not in tree.said()
