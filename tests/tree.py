"""A real worker for tests: a tree of processes, its log lines, the effects of its handlers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.apps import OLD, RECORD

ROOT = Path(__file__).parent.parent


async def until(condition: Callable[[], object], seconds: float = 60.0, what: str = "") -> float:
    """Wait for something that other processes do; answers how long it took."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, f"waited {waited:.1f} s for {what or condition}"
        await asyncio.sleep(0.01)
    return time.monotonic() - began


async def until_true(condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    """The same for something that has to be asked for."""
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < seconds, f"waited {seconds:g} s for {what}"
        await asyncio.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Effect:
    """One line that a handler left."""

    what: str
    kind: str
    task: str
    fence: int
    pid: int
    at: float


class Tree:
    """One worker, in a session of its own so that its whole group can be signalled."""

    def __init__(
        self,
        url: str,
        folder: Path,
        name: str = "a",
        app: str = "tests.apps:app",
        module: str = "holdfast",
    ) -> None:
        self._url = url
        self._module = module
        self._app = app
        self.name = name
        self.record = folder / "effects"
        self._log = folder / f"log-{name}"
        # An earlier one of this name may have logged there.
        self._read = self._log.stat().st_size if self._log.exists() else 0
        self._lines: list[dict[str, object]] = []
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: object, old: bool = False, clock: Mapping[str, str] | None = None) -> "Tree":
        environment = os.environ | {"HOLDFAST_DATABASE_URL": self._url, RECORD: str(self.record)}
        environment |= clock or {}
        if old:
            environment[OLD] = "1"
        command = [sys.executable, "-m", self._module, "worker", self._app, "--name", self.name]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, *map(str, options)],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "it was started"
        return self._process

    def lines(self, event: str | None = None) -> list[dict[str, object]]:
        """What it has logged so far."""
        with self._log.open("rb") as log:
            log.seek(self._read)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                with suppress(ValueError):
                    self._lines.append(json.loads(line))
        return [line for line in self._lines if event is None or line["event"] == event]

    def said(self) -> str:
        return self._log.read_text()

    def effects(self, what: str = "start") -> list[Effect]:
        """What its handlers, and those of every other tree of the test, have done so far."""
        if not self.record.exists():
            return []
        found = []
        for line in self.record.read_text().splitlines():
            parts = line.split(" ")
            if parts[0] == what:
                found.append(Effect(what, parts[1], parts[2], int(parts[3]), int(parts[4]), float(parts[5])))
        return found

    def executors(self) -> list[int]:
        """The processes that run tasks now, in the order of their start."""
        ended = {line["pid"] for line in self.lines("executor.ended")}
        return [int(str(line["pid"])) for line in self.lines("executor.started") if line["pid"] not in ended]

    async def ready(self, executors: int = 1) -> "Tree":
        await until(lambda: len(self.executors()) >= executors, what="executors")
        return self

    def signal(self, number: int) -> None:
        """To the supervisor alone."""
        self.process.send_signal(number)

    def signal_group(self, number: int) -> None:
        """To the whole tree."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    async def left(self, seconds: float = 60.0) -> int:
        """Wait for its end; answers its exit status."""
        await until(lambda: self.process.poll() is not None, seconds, f"the end of {self.name}")
        return self.process.returncode

    def kill_executors(self) -> None:
        """Kill what runs tasks now with -9; one that has died already is not there to be killed."""
        for pid in self.executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave nothing behind, however the test went."""
        if self._process is not None:
            self.signal_group(signal.SIGCONT)
            self.signal_group(signal.SIGKILL)
            self._process.wait()


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")
