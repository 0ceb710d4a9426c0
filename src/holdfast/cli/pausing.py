"""Options and output shared by all commands that pause and resume."""

from datetime import datetime
from typing import Annotated

import typer

from holdfast.cli.options import from_now
from holdfast.cli.output import refuse, say, show_json

Why = Annotated[str, typer.Option("--reason", help="Why; everybody who looks is told.")]
Minutes = Annotated[float | None, typer.Option(min=0.1, help="Resume by itself after so long.")]


def end_of(minutes: float | None) -> datetime | None:
    """When a pause of so many minutes ends."""
    return from_now(minutes=minutes) if minutes else None


def tell_paused(
    what: str, name: str, until: datetime | None, minutes: float | None, *, as_json: bool
) -> None:
    """Say that it is paused."""
    if as_json:
        show_json({what: name, "paused": True, "until": until})
    else:
        say(f"{what} {name} is paused" + (f" for {minutes:g} minutes" if minutes else ""))


def tell_resumed(what: str, name: str, now: str, *, done: bool, as_json: bool) -> None:
    """Say that it goes on, or that it was not paused."""
    if as_json:
        show_json({what: name, "resumed": done})
    elif done:
        say(f"{what} {name} {now}")
    if not done:
        refuse(f"{what} {name} is not paused")
