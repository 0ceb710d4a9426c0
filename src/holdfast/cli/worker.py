"""`holdfast worker`: runs a supervisor in this process."""

import asyncio
import os
import socket
import sys
from typing import Annotated

import psycopg
import typer

from holdfast.cli.metrics_port import MetricsPort
from holdfast.cli.output import AsJson, refusals_named, say_error
from holdfast.cli.processes.describe import describe
from holdfast.cli.status import list_workers
from holdfast.config import Settings
from holdfast.core.decide import MAX_ATTEMPTS_DEFAULT
from holdfast.core.events import both
from holdfast.core.task import RESERVED_QUEUE, TIMEOUT_SECONDS
from holdfast.db.connect import away, connect
from holdfast.db.migrate import require_current, require_read_committed
from holdfast.observe.log import LogLines
from holdfast.store.kinds import Declarations
from holdfast.store.store import Store
from holdfast.worker.options import Until, WorkerOptions
from holdfast.worker.supervisor.lock_watch import LockWatch
from holdfast.worker.supervisor.supervisor import Supervisor

# What waiting does not mend, as the server or libpq say it.
HOPELESS = (
    "does not exist",
    "authentication failed",
    "no password supplied",
    "for connection option",
    "invalid port number",
    "invalid sslmode value",
)


def worker(  # noqa: PLR0913 (one for each option)
    app: Annotated[
        str,
        typer.Argument(metavar="MODULE:APP|list", help="Where the app is, from this folder on; or `list`."),
    ],
    queues: Annotated[
        str, typer.Option(envvar="HOLDFAST_QUEUES", help="Queues to serve, the most urgent first.")
    ] = "default",
    concurrency: Annotated[
        int,
        typer.Option(
            min=1,
            max=10_000,
            envvar=["HOLDFAST_CONCURRENCY", "CONCURRENCY"],
            show_envvar=False,
            help="Tasks at once in each process (env var: HOLDFAST_CONCURRENCY, else CONCURRENCY).",
        ),
    ] = 10,
    processes: Annotated[
        int, typer.Option(envvar="HOLDFAST_PROCESSES", min=1, max=256, help="Processes that run tasks.")
    ] = 1,
    sleep: Annotated[
        float,
        typer.Option(envvar="HOLDFAST_SLEEP", min=0.01, help="Seconds between looks when there is nothing."),
    ] = 1.0,
    tries: Annotated[
        int,
        typer.Option(
            envvar="HOLDFAST_TRIES",
            min=1,
            help="Failed attempts a task has, unless it or its kind says otherwise.",
        ),
    ] = MAX_ATTEMPTS_DEFAULT,
    timeout: Annotated[
        float,
        typer.Option(
            envvar="HOLDFAST_TIMEOUT",
            min=0.1,
            help="Seconds a task has, unless it or its kind says otherwise.",
        ),
    ] = TIMEOUT_SECONDS,
    lease: Annotated[
        float,
        typer.Option(envvar="HOLDFAST_LEASE", min=2.0, help="Seconds after which a silent worker is lost."),
    ] = 30.0,
    grace: Annotated[
        float, typer.Option(envvar="HOLDFAST_GRACE", min=0.0, help="Seconds to finish in when told to leave.")
    ] = 300.0,
    kill_after: Annotated[
        float,
        typer.Option(
            envvar="HOLDFAST_KILL_AFTER",
            min=0.1,
            help="Seconds between telling a handler to stop and killing it.",
        ),
    ] = 5.0,
    max_time: Annotated[
        float | None,
        typer.Option(envvar="HOLDFAST_MAX_TIME", min=1.0, help="Replace a process after so many seconds."),
    ] = None,
    max_tasks: Annotated[
        int | None,
        typer.Option(envvar="HOLDFAST_MAX_TASKS", min=1, help="Replace a process after so many tasks."),
    ] = None,
    unroutable: Annotated[
        float,
        typer.Option(
            envvar="HOLDFAST_UNROUTABLE", min=0.0, help="Seconds before a task that no worker can run fails."
        ),
    ] = 600.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            envvar="HOLDFAST_METRICS_PORT",
            min=1,
            max=65_535,
            help="Serve /metrics, /healthz and /readyz there, to anybody.",
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(envvar="HOLDFAST_METRICS_HOST", help="On which address.")
    ] = "127.0.0.1",
    once: Annotated[bool, typer.Option("--once", help="Run one task, if there is one, and leave.")] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Leave when there is nothing to run now.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="What to call it; the host and process id unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run tasks, or list the workers that do.

    SIGTERM: finish and leave; a second one: leave now, everything given back.
    """
    if app == "list":
        list_workers(as_json=as_json)
        return
    named = tuple(queue.strip() for queue in queues.split(",") if queue.strip())
    if not named:
        raise typer.BadParameter("name at least one queue", param_hint="--queues")
    if once and until_empty:
        raise typer.BadParameter("choose one of --once and --until-empty")
    # What is wrong with the environment is said here, in a line, rather than by the app's import.
    Settings()
    described = describe(app)
    settings = described.settings
    options = WorkerOptions(
        url=settings.database_url,
        direct_url=settings.direct_url,
        schema=settings.schema_name,
        queues=tuple(dict.fromkeys((RESERVED_QUEUE, *named))),
        name=name or f"{socket.gethostname()}:{os.getpid()}",
        concurrency=concurrency,
        processes=1 if once else processes,
        sleep_seconds=sleep,
        max_attempts=tries,
        timeout_seconds=timeout,
        lease_seconds=lease,
        grace_seconds=grace,
        kill_seconds=kill_after,
        max_time_seconds=max_time,
        max_tasks=max_tasks,
        unroutable_seconds=unroutable,
        counted=metrics_port is not None,
        until=Until.ONCE if once else Until.EMPTY if until_empty else Until.STOPPED,
    )
    lines = LogLines()
    watched = None if metrics_port is None else MetricsPort(metrics_host, metrics_port)
    listen = lines if watched is None else both(lines, watched.counted)
    asyncio.run(_supervise(options, app, Store(settings, LockWatch(options, listen)), lines, watched))


async def _supervise(
    options: WorkerOptions, app: str, store: Store, lines: LogLines, watched: MetricsPort | None
) -> None:
    # A server that is away is waited for. One that is there must have this database, and our tables.
    try:
        async with await connect(options.url) as conn:
            with refusals_named(conn, options.url):
                await require_current(conn, options.schema)
                await require_read_committed(conn)
                # No kind, so nothing is written; but PostgreSQL checks the rights that executors need.
                await Declarations(store.settings).declare(conn, ())
    except psycopg.Error as error:
        if isinstance(error, psycopg.ProgrammingError) or any(text in str(error) for text in HOPELESS):
            raise away(options.url, error) from error
        say_error(f"{away(options.url, error)}; it is waited for")
    command = [sys.executable, "-m", "holdfast.cli.processes.executor", app]
    supervisor = Supervisor(options, command, store)
    if watched is not None:
        await watched.serve(supervisor)
    status = await supervisor.run()
    lines.flush()
    # No waiting for what still runs in this process, and no cancelling of it: commits are never cancelled.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
