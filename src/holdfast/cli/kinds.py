"""`holdfast kind …`: pausing every task of a kind."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from holdfast.cli.screen import AsJson, By, me, on_database, refuse, say, show_json
from holdfast.config import Settings
from holdfast.store.operate import Operator
from holdfast.store.pool import Conn

kinds = typer.Typer(help="Kinds: pausing every task of one.", no_args_is_help=True)

Kind = Annotated[str, typer.Argument(help="The kind.")]


@kinds.command()
def pause(
    kind: Kind,
    reason: Annotated[str, typer.Option(help="Why; everybody who looks is told.")],
    minutes: Annotated[float | None, typer.Option(min=0.1, help="Resume by itself after so long.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Start no more tasks of a kind; what runs goes on."""
    until = datetime.now(UTC) + timedelta(minutes=minutes) if minutes else None

    async def work(conn: Conn, settings: Settings) -> None:
        await Operator(settings, by=by or me()).close_kind(conn, kind, reason, until=until)

    on_database(work)
    if as_json:
        show_json({"kind": kind, "paused": True, "until": until})
    else:
        say(f"kind {kind} is paused" + (f" for {minutes:g} minutes" if minutes else ""))


@kinds.command()
def resume(kind: Kind, by: By = "", as_json: AsJson = False) -> None:
    """Start tasks of a kind again, more from second to second."""

    async def work(conn: Conn, settings: Settings) -> bool:
        return await Operator(settings, by=by or me()).open_kind(conn, kind)

    done = on_database(work)
    if as_json:
        show_json({"kind": kind, "resumed": done})
    elif done:
        say(f"kind {kind} starts again")
    if not done:
        refuse(f"kind {kind} is not paused")
