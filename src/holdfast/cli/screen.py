"""What a command shows: tables for people, one JSON document for scripts; and how it ends.

Exit codes: 0 done; 1 refused, or something is wrong; 2 wrong use, or the database or app is not there;
130 interrupted.
"""

import asyncio
import getpass
import json
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import psycopg
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.config import Settings
from holdfast.core.errors import HoldfastError, Misused, NotAllowed, SchemaError
from holdfast.store.migrate import require_current
from holdfast.store.pool import Conn, away, connect, where

T = TypeVar("T")

REFUSED = 1
PIPE_WIDTH = 1_000
ERROR_CHARACTERS = 100

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
By = Annotated[str, typer.Option(help="Who does this; your user and host unless given.")]
Reason = Annotated[str, typer.Option(help="Why.")]


def me() -> str:
    """Whoever is at the keyboard."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


def on_database(
    work: Callable[[Conn, Settings], Coroutine[None, None, T]],
    *,
    migrated: bool = True,
    settings: Settings | None = None,
) -> T:
    """Do something on the database of the settings; one that is away is a line, not a traceback."""
    return asyncio.run(_on_database(work, settings or Settings(), migrated=migrated))


async def _on_database(
    work: Callable[[Conn, Settings], Coroutine[None, None, T]], settings: Settings, *, migrated: bool
) -> T:
    try:
        conn = await connect(settings.database_url, application="holdfast command")
    except psycopg.Error as error:
        raise away(settings.database_url, error) from error
    async with conn:
        try:
            with refusals_named(settings.database_url):
                if migrated:
                    await require_current(conn, settings.schema_name)
                return await work(conn, settings)
        except psycopg.DataError as error:
            # Only what was given to a command can be what PostgreSQL does not take.
            why = ": ".join(part for part in (error.diag.message_primary, error.diag.message_detail) if part)
            raise Misused(f"PostgreSQL cannot keep this: {why}") from error


@contextmanager
def refusals_named(url: str) -> Iterator[None]:
    """Where a database lacks our tables or this role its rights, it is said which database."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{error} (this is {where(url)})") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise NotAllowed(where(url), str(error).strip().splitlines()[0]) from error


def show_json(document: object) -> None:
    """A document for scripts."""
    sys.stdout.write(json.dumps(document, default=_plain, indent=2) + "\n")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """A table for people; without colours where nobody looks."""
    console = _console()
    if not rows:
        console.print(empty, markup=False)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        # What comes first names the row, and is copied: it is never broken.
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    for row in rows:
        # As text: what people write in errors is no markup.
        table.add_row(*(Text(_cell(value)) for value in row))
    console.print(table)


def _console() -> Console:
    """As wide as the terminal, or as the text needs where there is none."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(highlight=False, width=width)


def say(text: str) -> None:
    """One line for people."""
    _console().print(text, markup=False)


def refuse(text: str) -> None:
    """One line on standard error, and exit code 1."""
    sys.stderr.write(f"holdfast: {text}\n")
    raise typer.Exit(REFUSED)


def first_line(text: str | None) -> str:
    """As much of an error as a list has room for."""
    line = (text or "").partition("\n")[0]
    return line if len(line) <= ERROR_CHARACTERS else line[: ERROR_CHARACTERS - 1] + "…"


def ago(moment: datetime | None) -> str:
    """A moment as people speak of it."""
    if moment is None:
        return "–"
    seconds = (datetime.now(UTC) - moment).total_seconds()
    ahead = seconds < 0
    seconds = abs(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            text = f"{seconds / size:.0f} {unit}"
            break
    else:
        text = f"{seconds:.0f} s"
    return f"in {text}" if ahead else f"{text} ago"


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return ago(value) if isinstance(value, datetime) else str(value)


def _plain(value: Any) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise HoldfastError(f"a {type(value).__name__} cannot be shown as JSON")
