"""What a worker says: one JSON line for each transition, under the names that requirement T5 gives."""

import json
import os
import socket
from collections.abc import Callable

import pytest

from holdfast.core.decide import Policy, decide
from holdfast.core.events import LateResultsRefused, TasksClaimed, TasksSettled
from holdfast.core.outcome import Complete, Fail, Outcome, Retry
from holdfast.observe.log import GROUPS_MAX, LogLines
from tests.tree import Tree, until
from tests.world import World


@pytest.mark.requirement("T5")
@pytest.mark.catches("requeued-called-failed")
async def test_every_transition_is_a_line(world: World, trees: Callable[..., Tree]) -> None:
    names = {
        "effect": ["task.claimed", "task.completed"],
        "hopeless": ["task.claimed", "task.failed"],
        "poll": ["task.claimed", "task.requeued", "task.claimed", "task.completed"],
    }
    tasks = {
        kind: await world.enqueue(kind, trace_id=f'trace "{kind}"', payload={"times": 1}) for kind in names
    }
    tree = trees().start("--until-empty", "--sleep", 0.05)
    await tree.left()
    rest = trees("rest").start("--sleep", 0.05)
    await until(lambda: len(tree.lines("task.completed") + rest.lines("task.completed")) == 2, what="all")
    lines = tree.lines() + rest.lines()
    for kind, wanted in names.items():
        told = [line for line in lines if line.get("task") == tasks[kind]]
        assert [line["event"] for line in told] == wanted
        assert {line["kind"] for line in told} == {kind}
        assert {line["trace_id"] for line in told} == {f'trace "{kind}"'}
    (failed,) = [line for line in lines if line["event"] == "task.failed"]
    assert failed["error_code"] == "TASK_ENTITY_NOT_FOUND"
    assert failed["dead_reason"] == "non_retryable"


async def test_what_names_and_errors_say_does_not_break_a_line(world: World) -> None:
    for _ in range(3):
        await world.enqueue('odd "kind"\n')
    claims = await world.claim()
    outcomes: list[Outcome] = [Complete(), Fail("X", 'it said "no"\n'), Retry("again")]
    settled = [(c, decide(c, outcome, Policy())) for c, outcome in zip(claims, outcomes, strict=True)]
    reader, writer = os.pipe()
    lines_out = LogLines(writer)
    for event in (TasksClaimed(world.worker, claims), TasksSettled(settled), LateResultsRefused(settled[:1])):
        lines_out(event)
    lines_out.flush()
    os.close(writer)
    with os.fdopen(reader) as stream:
        lines = [json.loads(line) for line in stream]
    assert [line["event"] for line in lines] == [
        *["task.claimed"] * 3, "task.completed", "task.failed", "task.requeued", "task.late_result_refused",
    ]  # fmt: skip
    kind = 'odd "kind"\n'
    assert {line["kind"] for line in lines} == {kind}
    await world.settle(*zip(claims, outcomes, strict=True))


@pytest.mark.catches("lines-cut-in-two")
async def test_what_is_written_to_a_pipe_at_once_is_whole_lines_that_fit(world: World) -> None:
    """Several processes write to the same pipe, and only so much is never cut by another's."""
    await world.enqueue()
    claim = await world.claim_one()
    # Here every write is a message of its own.
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader, writer:
        listen = LogLines(writer.fileno())
        listen(TasksClaimed(world.worker, [claim] * 100))
        listen.flush()
        reader.setblocking(False)
        lines: list[object] = []
        while len(lines) < 100:
            written = reader.recv(1_000_000)
            assert len(written) <= 4_096
            lines += [json.loads(line) for line in written.splitlines()]
    await world.complete(claim)


@pytest.mark.catches("log-reader-stops-the-worker")
async def test_a_reader_that_stops_reading_stops_nobody(world: World) -> None:
    task = await world.enqueue()
    claim = await world.claim_one()
    reader, writer = os.pipe()
    listen = LogLines(writer)
    event = TasksClaimed(world.worker, [claim] * 100)
    # A pipe holds 64 kB, each of these is twenty: nothing can be written after the first few.
    for _ in range(GROUPS_MAX + 100):
        listen(event)
    with os.fdopen(reader, "rb") as stream:
        written = 0
        for line in stream:
            told = json.loads(line)
            if told["event"] == "log.dropped":
                dropped = told["lines"]
                break
            assert told["task"] == task
            written += 1
        else:
            raise AssertionError("nothing was said of the lines that are missing")
    assert dropped > 0
    assert written + dropped <= (GROUPS_MAX + 100) * 100
    await world.complete(claim)
