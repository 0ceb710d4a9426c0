"""`holdfast queue …`: shows queues and pauses them."""

from typing import Annotated

import typer

from holdfast.cli.output import AsJson, By, on_database, show_json, show_table
from holdfast.cli.pausing import Minutes, Why, end_of, tell_paused, tell_resumed
from holdfast.ops.caller import Caller
from holdfast.views.tasks import Browser, QueueView

queues = typer.Typer(help="Queues: what waits, and pausing it.", no_args_is_help=True)

Queue = Annotated[str, typer.Argument(help="The queue.")]


@queues.command("list")
def list_queues(as_json: AsJson = False) -> None:
    """List every queue that holds something, is paused or is served."""

    async def work(caller: Caller) -> list[QueueView]:
        return await Browser(caller.settings).queues(caller.conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["queue", "ready", "scheduled", "waiting", "running", "oldest", "workers", "counted", "paused"],
        [
            (
                q.name,
                q.ready,
                q.scheduled,
                q.behind,
                q.running,
                q.oldest_at,
                q.workers,
                "now" if q.exact else q.counted_at or "at least",
                q.paused,
            )
            for q in found
        ],
        empty="no queue holds anything, and no worker serves one",
    )


@queues.command()
def pause(queue: Queue, why: Why, minutes: Minutes = None, by: By = "", as_json: AsJson = False) -> None:
    """Start nothing more from a queue; what runs goes on."""
    until = end_of(minutes)

    async def work(caller: Caller) -> None:
        await caller.operator.pause_queue(caller.conn, queue, why, until)

    on_database(work, by=by)
    tell_paused("queue", queue, until, minutes, as_json=as_json)


@queues.command()
def resume(queue: Queue, by: By = "", as_json: AsJson = False) -> None:
    """Serve a queue again, more from second to second."""

    async def work(caller: Caller) -> bool:
        return await caller.operator.resume_queue(caller.conn, queue)

    tell_resumed("queue", queue, "is served again", done=on_database(work, by=by), as_json=as_json)
