"""Runs single tasks in forked processes of a server that has loaded the app.

The executor starts the server by exec when it is first needed. Each run has a socket of its own, whose
other end the server passes to the child: the claim goes in, the outcome comes out, and its end without
an outcome means that the process died. Server and children die with the process above them.
"""

import asyncio
import gc
import os
import pickle
import selectors
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from holdfast.core.handler import Finisher, Handlers
from holdfast.core.outcome import Finished, Outcome
from holdfast.core.task import Claim
from holdfast.worker.executor.handlers import execute_alone
from holdfast.worker.signals import (
    describe_exit,
    die_with_parent,
    group_signals_blocked,
    hear_no_group_signals,
)

_LENGTH = struct.Struct("<I")
_STATUS = struct.Struct("<ii")
_STATUS_SECONDS = 0.5
START_SECONDS = 60.0


@dataclass(slots=True)
class ForkedRun:
    """One task in its own process, from the executor's side."""

    pidfd: int | None = None
    killed: bool = False
    # Called once the process is there: its time counts from then on.
    started: Callable[[], None] | None = None

    def begin(self, pid: int) -> None:
        """The process is there; if it was to be killed meanwhile, it is now."""
        try:
            self.pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            # It is over already.
            return
        except OSError:
            # Without a handle on it nothing could end it at its time.
            os.kill(pid, signal.SIGKILL)
            raise
        if self.killed:
            self.kill()
        elif self.started is not None:
            self.started()

    def end(self) -> None:
        """It is gone, and cannot be killed any more."""
        if self.pidfd is not None:
            descriptor, self.pidfd = self.pidfd, None
            os.close(descriptor)

    def kill(self) -> None:
        """End it at once; it cannot object."""
        self.killed = True
        if self.pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class Died:
    """The process ended without an outcome."""

    how: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """There was no process to run it in; the task has no part in that."""

    why: str


class ForkServer:
    """The executor's end of the fork server."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self._orders: socket.socket | None = None
        self._ends: dict[int, int] = {}
        self._ended = asyncio.Event()

    async def run(self, claim: Claim, run: ForkedRun) -> Outcome | Finished | Died | NotStarted:
        """Run one claim; `run` can kill it meanwhile."""
        try:
            server, ours = self._ask()
            reader, writer = await asyncio.open_connection(sock=ours)
        except OSError as error:
            return NotStarted(str(error))
        pid = 0
        try:
            writer.write(_packed(claim))
            async with asyncio.timeout(START_SECONDS):
                pid = pickle.loads(await _receive(reader))  # noqa: S301 (from our own child)
            run.begin(pid)
            outcome: Outcome | Finished = pickle.loads(await _receive(reader))  # noqa: S301
        except (asyncio.IncompleteReadError, ConnectionError):
            if not pid:
                return NotStarted("the fork server has died")
            how_it_ended = await self._how(pid)
            if pid not in self._ends and server.poll() is not None:
                return NotStarted("the fork server died, and its processes with it")
            return Died(how_it_ended)
        except TimeoutError:
            self.close()
            return NotStarted("the fork server does not answer")
        except OSError as error:
            return NotStarted(str(error))
        else:
            return outcome
        finally:
            writer.close()
            run.end()
            asyncio.get_running_loop().call_later(1.0, self._ends.pop, pid, None)

    def close(self) -> None:
        """End the server and whatever it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._orders is not None:
            asyncio.get_running_loop().remove_reader(self._orders)
            self._orders.close()
            self._orders = None

    def _ask(self) -> "tuple[subprocess.Popen[bytes], socket.socket]":
        """Ask for a process; answers the server that makes it, and our end of the line to it."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._orders is not None, "it was just started"
        assert self._process is not None, "it was just started"
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                socket.send_fds(self._orders, [b"f"], [theirs.fileno()])
        except OSError:
            ours.close()
            raise
        return self._process, ours

    def _start(self) -> None:
        loop = asyncio.get_running_loop()
        if self._orders is not None:
            loop.remove_reader(self._orders)
            self._orders.close()
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, group_signals_blocked():
            self._process = subprocess.Popen(  # noqa: S603 (ourselves)
                [*self._command, str(theirs.fileno()), str(os.getpid())], pass_fds=[theirs.fileno()]
            )
        loop.add_reader(self._orders, self._heard)

    def _heard(self) -> None:
        assert self._orders is not None, "it is being read"
        try:
            message = self._orders.recv(_STATUS.size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except ConnectionError:
            message = b""
        if not message:
            asyncio.get_running_loop().remove_reader(self._orders)
            return
        pid, status = _STATUS.unpack(message)
        self._ends[pid] = status
        self._ended.set()

    async def _how(self, pid: int) -> str:
        """How a process ended, as far as the server tells in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STATUS_SECONDS):
                while pid not in self._ends:
                    self._ended.clear()
                    await self._ended.wait()
        return describe_exit(self._ends.get(pid))


def serve(descriptor: int, parent: int, load: Callable[[], tuple[Handlers, Finisher]]) -> None:
    """The fork server: load the app, then fork for every socket that comes in, until nobody is above."""
    die_with_parent(parent)
    # What is sent to the whole group is not for it, nor for what it loads.
    hear_no_group_signals()
    orders = socket.socket(fileno=descriptor)
    handlers, finisher = load()
    # What is there now is shared by every child for as long as nobody touches it.
    gc.freeze()
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(orders, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 4096)
                _reap(orders)
            if orders in ready:
                try:
                    message, descriptors, _, _ = socket.recv_fds(orders, 1, 1)
                except ConnectionError:
                    # Whoever was above died with something from us unread.
                    return
                if not message:
                    return
                _fork_one(descriptors[0], orders, handlers, finisher)


def _reap(orders: socket.socket) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with suppress(OSError):
                orders.send(_STATUS.pack(pid, os.waitstatus_to_exitcode(status)))


def _fork_one(descriptor: int, orders: socket.socket, handlers: Handlers, finisher: Finisher) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    server = os.getpid()
    try:
        child = os.fork()
    except OSError:
        # No process to be had: the end of its socket tells.
        os.close(descriptor)
        return
    if child:
        os.close(descriptor)
        return
    status = 1
    try:
        orders.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        die_with_parent(server)
        _child(socket.socket(fileno=descriptor), handlers, finisher)
        status = 0
    except ConnectionError:
        # Whoever asked for it is gone, and nobody is left to tell.
        status = 0
    except BaseException:  # noqa: BLE001 (the process ends here, and says why)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _child(ours: socket.socket, handlers: Handlers, finisher: Finisher) -> None:
    with ours, ours.makefile("rwb") as stream:
        head = stream.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            # Whoever asked for it is gone.
            return
        (length,) = _LENGTH.unpack(head)
        claim: Claim = pickle.loads(stream.read(length))  # noqa: S301 (from our own parent)
        stream.write(_packed(os.getpid()))
        stream.flush()
        stream.write(_packed(execute_alone(handlers[claim.kind], claim, finisher)))


def _packed(value: object) -> bytes:
    message = pickle.dumps(value)
    return _LENGTH.pack(len(message)) + message


async def _receive(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)
