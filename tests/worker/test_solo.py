"""The server for processes of their own, seen from the process above it."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.outcome import Complete
from holdfast.worker.executor.fork_server import ForkedRun, ForkServer
from tests.tree import until
from tests.world import World

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "holdfast.cli.processes.fork_server", "tests.apps:app"]


@pytest.mark.catches("orphan-complains")
async def test_a_server_whose_executor_died_leaves_without_a_word() -> None:
    """The executor dies with something unread: the connection is reset rather than closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(  # noqa: ASYNC220 (it is not waited for)
            [*COMMAND, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
            stderr=subprocess.PIPE,
        )
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(ours, [b"f"], [far.fileno()])
    # The child found nobody to serve and died; how is on its way to us, and is not read.
    await until(lambda: _unread(ours), what="word of its end")
    ours.close()
    _, said = await asyncio.to_thread(server.communicate, timeout=20)
    assert (server.returncode, said) == (0, b"")


@pytest.mark.catches("group-signal-finds-a-loading-server")
async def test_a_signal_to_the_group_does_not_end_a_server_that_still_loads(world: World) -> None:
    await world.enqueue("noop")
    (claim,) = await world.claim()
    server = ForkServer(COMMAND)
    before = _children()
    running = asyncio.ensure_future(server.run(claim, ForkedRun()))
    await until(lambda: _children() - before, what="the server")
    for pid in _children() - before:
        os.kill(pid, signal.SIGTERM)
    try:
        assert await running == Complete()
    finally:
        server.close()


def _children() -> set[int]:
    return {
        int(pid) for found in Path("/proc/self/task").glob("*/children") for pid in found.read_text().split()
    }


def _unread(ours: socket.socket) -> bool:
    try:
        return bool(ours.recv(8, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return False
