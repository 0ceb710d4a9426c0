"""`holdfast queue …`: what waits where, and pausing it."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from holdfast.cli.screen import AsJson, By, me, on_database, refuse, say, show_json, show_table
from holdfast.config import Settings
from holdfast.store.browse import Browser, QueueView
from holdfast.store.operate import Operator
from holdfast.store.pool import Conn

queues = typer.Typer(help="Queues: what waits, and pausing it.", no_args_is_help=True)


@queues.command("list")
def list_queues(as_json: AsJson = False) -> None:
    """List every queue that holds something, is paused or is served."""

    async def work(conn: Conn, settings: Settings) -> list[QueueView]:
        return await Browser(settings).queues(conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["queue", "ready", "scheduled", "waiting", "running", "oldest", "workers", "paused"],
        [
            (
                q.name,
                q.ready,
                q.scheduled,
                q.behind,
                q.running,
                q.oldest_at,
                q.workers,
                q.paused,
            )
            for q in found
        ],
        empty="no queue holds anything, and no worker serves one",
    )


@queues.command()
def pause(
    queue: Annotated[str, typer.Argument(help="The queue.")],
    reason: Annotated[str, typer.Option(help="Why; everybody who looks is told.")],
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Resume by itself after so long.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Start nothing more from a queue; what runs goes on."""
    until = datetime.now(UTC) + timedelta(minutes=minutes) if minutes else None

    async def work(conn: Conn, settings: Settings) -> None:
        await Operator(settings, by=by or me()).pause_queue(conn, queue, reason, until)

    on_database(work)
    if as_json:
        show_json({"queue": queue, "paused": True, "until": until})
    else:
        say(f"queue {queue} is paused" + (f" for {minutes:g} minutes" if minutes else ""))


@queues.command()
def resume(
    queue: Annotated[str, typer.Argument(help="The queue.")], by: By = "", as_json: AsJson = False
) -> None:
    """Serve a queue again."""

    async def work(conn: Conn, settings: Settings) -> bool:
        return await Operator(settings, by=by or me()).resume_queue(conn, queue)

    done = on_database(work)
    if as_json:
        show_json({"queue": queue, "resumed": done})
    elif done:
        say(f"queue {queue} is served again")
    if not done:
        refuse(f"queue {queue} is not paused")
