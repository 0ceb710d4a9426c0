"""An app of 1,000 kinds with long names. As a program it runs all tasks and prints what was counted.

Its executors never tick, so that everything that they count is in the report that they send as they leave.
"""

import asyncio
import json
import os
import sys

from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.observe.counters import ProcessCounters
from holdfast.store.store import Store
from holdfast.worker.executor import executor
from holdfast.worker.options import Until, WorkerOptions
from holdfast.worker.supervisor.supervisor import Supervisor

NEVER_TICK = "HOLDFAST_TEST_NEVER_TICK"
KINDS = [f"{number:04}.{'x' * 190}" for number in range(1_000)]

app = Holdfast()


async def do_nothing(task: Task[object]) -> None:
    """The handler of every kind."""


for kind in KINDS:
    app.task(kind)(do_nothing)

if NEVER_TICK in os.environ:
    executor.TICK_SECONDS = 3_600.0


def main() -> None:
    """Run a supervisor without a command line, whose counts are still there when it has ended."""
    os.environ[NEVER_TICK] = "1"
    settings = Settings()
    options = WorkerOptions(url=settings.database_url, concurrency=1_000, until=Until.EMPTY, counted=True)
    counts: dict[str, float] = {}
    store = Store(settings, ProcessCounters(counts))
    command = [sys.executable, "-m", "holdfast.cli.processes.executor", "tests.many_kinds_app:app"]

    async def work() -> None:
        await Supervisor(options, command, store).run()
        sys.stdout.write(json.dumps(counts) + "\n")
        sys.stdout.flush()
        os._exit(0)

    asyncio.run(work())


if __name__ == "__main__":
    main()
