"""A worker that is watched: counts that outlive the processes that made them, and pages for those who ask."""

import socket
from collections.abc import Callable

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.core.events import LateResultsRefused, TasksClaimed, TasksSettled, TasksSettling
from holdfast.core.failure import FailureClass
from holdfast.core.outcome import Complete
from holdfast.observe.counted import Counted, Figure, name_of
from holdfast.runtime.burials import Burials
from holdfast.runtime.options import WorkerOptions
from holdfast.runtime.tally import RECORDS_MAX, Tallies, Tally
from tests.cluster import free_port
from tests.tree import Tree, until, until_true
from tests.world import World, broken


def samples(page: str) -> dict[tuple[str, ...], float]:
    """Every sample of a page, by its name and the values of its labels in the order of their names."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@pytest.mark.catches("counts-of-the-dead-lost")
def test_what_a_dead_process_had_counted_is_kept_and_the_newest_moment_is_not_a_sum() -> None:
    tallies = Tallies()
    first, second = tallies.open(), tallies.open()
    first.add("a", 2)
    second.add("a", 3)
    first.set("@at", 7.0)
    second.set("@at", 5.0)
    tallies.own.add("b")
    assert tallies.read() == {"a": 5.0, "@at": 7.0, "b": 1.0}
    tallies.ended(first)
    assert tallies.read() == {"a": 5.0, "@at": 7.0, "b": 1.0}


@pytest.mark.catches("last-group-uncounted")
async def test_what_landed_without_its_process_hearing_of_it_is_counted_by_the_one_above(
    world: World,
) -> None:
    tallies = Tallies()
    tally = tallies.open()
    hear = Counted(tally)
    ids = [await world.enqueue("pay") for _ in range(3)]
    claims = await world.claim(3)
    group = [world.verdict(claim, Complete()) for claim in claims]
    hear(TasksSettling(group))
    # Two are written, nobody says so, and the process is gone.
    await world.store.settle(world.conn, group[:2])
    options = WorkerOptions(url=world.url)
    pending = tallies.ended(tally)
    assert {id_ for one in pending for id_ in one.ids} == set(ids)
    burials = Burials(options, world.store)
    landed = await burials.landed(pending)
    await burials.close()
    assert landed == {name_of(Figure.SETTLED, "pay", "complete", ""): 2}


def test_a_group_that_was_heard_of_is_not_pending_any_more() -> None:
    tally = Tally.create()
    tally.about_to("a 1 complete x")
    tally.about_to("")
    assert tally.pending() == ""
    tally.about_to("x" * 1_000_000)
    assert tally.pending() == ""
    tally.close()


def test_names_that_are_too_many_or_too_long_are_left_out() -> None:
    tally = Tally.create()
    tally.add("x" * 300)
    for number in range(RECORDS_MAX + 5):
        tally.add(f"n{number}")
    tally.add("n0")
    found = tally.read()
    assert (len(found), found["n0"]) == (RECORDS_MAX, 2.0)
    tally.close()


@pytest.mark.requirement("O7")
@pytest.mark.catches("counts-of-the-dead-lost", "never-ready")
async def test_o7_a_watched_worker_counts_to_the_last_task_though_its_processes_are_killed(
    world: World, trees: Callable[..., Tree]
) -> None:
    port = free_port()
    tree = await trees().start("--metrics-port", port, "--processes", 2, "--sleep", 0.1).ready(2)
    for _ in range(300):
        await world.enqueue("effect")
    await world.enqueue("sleep", payload={"seconds": 60})
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:

        async def done() -> bool:
            return await world.rows("task_history") == 300

        await until_true(done, 60, "300 tasks")

        async def ready() -> bool:
            return bool((await client.get("/readyz")).json()["executors"] == 2)

        await until_true(ready, 60, "two processes at work")
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
    tally = Tally.create()
    hear = Counted(tally)
    await world.enqueue("pay")
    claim = await world.claim_one()
    lost = [world.verdict(claim, broken(kind=FailureClass.TIMEOUT))]
    for event in (TasksClaimed(world.worker, [claim]), TasksSettled(lost), LateResultsRefused(lost)):
        hear(event)
    found = tally.read()
    assert found[name_of(Figure.CLAIMED, "pay")] == 1
    assert found[name_of(Figure.SETTLED, "pay", "retry", "timeout")] == 1
    assert found[name_of(Figure.LATE, "pay")] == 1
    assert name_of(Figure.SUCCESS_AT) not in found
    tally.close()


async def test_a_port_that_is_taken_is_said_in_a_line(trees: Callable[..., Tree]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        tree = trees().start("--metrics-port", taken.getsockname()[1])
        assert await tree.left() == 2
    assert "cannot be used" in tree.said()
    assert "Traceback" not in tree.said()
