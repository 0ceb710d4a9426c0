"""The entry of an executor: `python -m holdfast.cli.processes.executor APP WORKER WIRE FLIGHT PARENT`.

Started by a supervisor, with the options in its environment. It composes what runs tasks.
"""

import asyncio
import gc
import json
import os
import socket
import sys
import traceback
from contextlib import suppress

from holdfast.cli.load import load
from holdfast.core.errors import NotAllowed
from holdfast.core.events import both
from holdfast.observe.counters import ProcessCounters
from holdfast.observe.log import LogLines
from holdfast.store.store import Store
from holdfast.worker.channel import Channel
from holdfast.worker.executor.executor import Executor
from holdfast.worker.executor.fork_server import ForkServer
from holdfast.worker.flight_record import FlightRecord
from holdfast.worker.options import WorkerOptions
from holdfast.worker.signals import die_with_parent, hear_no_group_signals
from holdfast.worker.supervisor.executor_process import OPTIONS_VARIABLE
from holdfast.worker.supervisor.lock_watch import over_the_channel

FAILED = 1
# How long a process that leaves waits for its supervisor to read its last report.
REPORT_SECONDS = 1.0
# A group of tasks makes thousands of objects that end with it. Measured: with Python's own 700, collecting
# them took 9 % of the time of a process that only ran tasks.
COLLECT_AFTER = 20_000


def main() -> None:
    """Run until the supervisor says otherwise; threads that do not end are left behind."""
    path, worker, channel, flight, parent = sys.argv[1:]
    die_with_parent(int(parent))
    hear_no_group_signals()
    options = WorkerOptions.from_json(json.loads(os.environ.pop(OPTIONS_VARIABLE)))
    asyncio.run(_run(path, worker, Channel(socket.socket(fileno=int(channel))), int(flight), options))


async def _run(path: str, worker: str, channel: Channel, flight: int, options: WorkerOptions) -> None:
    app = load(path)
    await channel.open()
    lines = LogLines()
    told = both(lines, over_the_channel(channel))
    counts: dict[str, float] = {}
    app.listener = both(told, ProcessCounters(counts)) if options.counted else told
    fork_server = ForkServer([sys.executable, "-m", "holdfast.cli.processes.fork_server", path])
    executor = Executor(
        worker,
        options,
        app.handlers,
        Store(app.settings, app.listener),
        channel,
        FlightRecord(flight, options.concurrency),
        fork_server,
        counts,
    )
    _collect_seldom()
    try:
        status = await executor.run()
    except NotAllowed as error:
        sys.stderr.write(f"holdfast: {error}\n")
        status = FAILED
    except BaseException:  # noqa: BLE001 (it ends here, without waiting for what runs and without cancelling a commit)
        traceback.print_exc()
        status = FAILED
    with suppress(TimeoutError):
        await asyncio.wait_for(channel.leave(), REPORT_SECONDS)
    lines.flush()
    # No waiting for threads here: what still runs was given back.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _collect_seldom() -> None:
    """What is loaded stays, and is looked at no more; an app that collects more seldom still goes on so."""
    gc.collect()
    gc.freeze()
    first, *others = gc.get_threshold()
    if 0 < first < COLLECT_AFTER:
        gc.set_threshold(COLLECT_AFTER, *others)


if __name__ == "__main__":
    main()
