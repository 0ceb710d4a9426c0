"""`holdfast kind …`: pauses and resumes all tasks of a kind."""

from typing import Annotated

import typer

from holdfast.cli.output import AsJson, By, on_database
from holdfast.cli.pausing import Minutes, Why, end_of, tell_paused, tell_resumed
from holdfast.ops.caller import Caller

kinds = typer.Typer(help="Kinds: pausing every task of one.", no_args_is_help=True)

Kind = Annotated[str, typer.Argument(help="The kind.")]


@kinds.command()
def pause(kind: Kind, why: Why, minutes: Minutes = None, by: By = "", as_json: AsJson = False) -> None:
    """Start no more tasks of a kind; what runs goes on."""
    until = end_of(minutes)

    async def work(caller: Caller) -> None:
        await caller.operator.pause_kind(caller.conn, kind, why, until=until)

    on_database(work, by=by)
    tell_paused("kind", kind, until, minutes, as_json=as_json)


@kinds.command()
def resume(kind: Kind, by: By = "", as_json: AsJson = False) -> None:
    """Start tasks of a kind again, more from second to second."""

    async def work(caller: Caller) -> bool:
        return await caller.operator.resume_kind(caller.conn, kind)

    tell_resumed("kind", kind, "starts again", done=on_database(work, by=by), as_json=as_json)
