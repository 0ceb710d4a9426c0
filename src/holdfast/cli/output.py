"""Renders command output as tables or as one JSON document, and maps errors to exit codes.

Text from outside may hold characters that change what a terminal does or shows. `printable` escapes them, and
everything that a command writes passes through it.

Exit codes: 0 done; 1 refused, or something is wrong; 2 wrong use, or the database or app is not there;
130 interrupted.
"""

import asyncio
import getpass
import json
import os
import re
import socket
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import psycopg
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.config import Settings
from holdfast.core.errors import HoldfastError, Misused, SchemaError
from holdfast.core.handler import Handlers
from holdfast.core.redact import redact
from holdfast.db.connect import OWN_PATH, Conn, away, connect, not_allowed, where
from holdfast.db.migrate import require_current
from holdfast.ops.caller import Caller

T = TypeVar("T")

REFUSED = 1
PIPE_WIDTH = 1_000
ERROR_CHARACTERS = 100
CELL_CHARACTERS = 2_000
# C0 and C1 controls but newline and tab, line separators, lone surrogates, and what Unicode calls format
# characters (Cf): they have no width, change the direction, or carry text that nobody sees.
_RANGES = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x0600, 0x0605), (0x061C, 0x061C),
    (0x06DD, 0x06DD), (0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2), (0x180E, 0x180E),
    (0x200B, 0x200F), (0x2028, 0x202E),
    (0x2060, 0x206F), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB), (0x110BD, 0x110BD),
    (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE007F),
)  # fmt: skip
# As ranges, because the characters of a class beyond them are compared one by one.
_UNPRINTABLE = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]")
_CODES = tuple(code for first, last in _RANGES for code in range(first, last + 1))
_ESCAPES = {code: json.dumps(chr(code))[1:-1] if code > 0x7F else f"\\u{code:04x}" for code in _CODES}
_INDENT = " " * 4


def without_secrets(reason: str) -> str:
    """A reason as it is kept."""
    return redact(reason)


AsJson = Annotated[bool, typer.Option("--json", help="One JSON document instead of a table.")]
By = Annotated[str, typer.Option(help="Who does this; your user and host unless given.")]
Reason = Annotated[str, typer.Option(help="Why.", callback=without_secrets)]


def me() -> str:
    """Whoever is at the keyboard."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container may run as a user without a name.
        user = f"uid-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def on_database(
    work: Callable[[Caller], Coroutine[None, None, T]],
    *,
    by: str = "",
    handlers: Handlers | None = None,
    migrated: bool = True,
    settings: Settings | None = None,
) -> T:
    """Do something on the database of the settings; one that is away is a line, not a traceback."""
    settings = settings or Settings()

    async def called(conn: Conn) -> T:
        return await work(Caller(conn, settings, by or me(), handlers or {}))

    return asyncio.run(_on_database(called, settings, migrated=migrated))


async def _on_database(
    work: Callable[[Conn], Coroutine[None, None, T]], settings: Settings, *, migrated: bool
) -> T:
    try:
        conn = await connect(settings.database_url, application="holdfast command", path=OWN_PATH)
    except psycopg.Error as error:
        raise away(settings.database_url, error) from error
    async with conn:
        try:
            with refusals_named(conn, settings.database_url):
                if migrated:
                    await require_current(conn, settings.schema_name)
                return await work(conn)
        except psycopg.DataError as error:
            # Only what was given to a command can be what PostgreSQL does not take.
            why = ": ".join(part for part in (error.diag.message_primary, error.diag.message_detail) if part)
            raise Misused(f"PostgreSQL cannot keep this: {why}") from error


@contextmanager
def refusals_named(conn: Conn, url: str) -> Iterator[None]:
    """Where a database lacks our tables or this login its rights, it is said which they are."""
    try:
        yield
    except SchemaError as error:
        raise SchemaError(f"{error} (this is {where(url)})") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise not_allowed(conn, url, error) from error


def show_json(document: object) -> None:
    """A document for scripts."""
    sys.stdout.write(printable(json.dumps(document, default=_plain, indent=2)) + "\n")


def show_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """A table for people; without colours where nobody looks."""
    if not rows:
        say(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, column in enumerate(columns):
        # What comes first names the row, and is copied: it is never broken.
        table.add_column(column, overflow="fold", no_wrap=place == 0)
    for row in rows:
        # As text: what people write in errors is no markup.
        table.add_row(*(Text(_cell(value)) for value in row))
    _console().print(table)


def _console() -> Console:
    """As wide as the terminal, or as the text needs where there is none."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(highlight=False, width=width)


def say(text: str) -> None:
    """A line for people; as it stands, because wrapping a long one takes long."""
    sys.stdout.write(f"{one_line(text)}\n")


def say_lines(text: str) -> None:
    """The same for a message that may have several lines: all but the first are indented."""
    sys.stdout.write(f"{_indented(text)}\n")


def refuse(text: str) -> None:
    """One line on standard error, and exit code 1."""
    say_error(text)
    raise typer.Exit(REFUSED)


def say_error(text: str) -> None:
    """One line on standard error."""
    sys.stderr.write(f"holdfast: {_indented(text)}\n")


def _indented(text: str) -> str:
    """Such that no line of a text can be taken for one of ours."""
    return printable(text).replace("\n", f"\n{_INDENT}")


def one_line(text: str) -> str:
    """The text, printable and without newlines."""
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """The text with control and format characters and lone surrogates escaped as in JSON.

    Newlines and tabs stay.
    """
    # Seldom are there any: looking for them costs a hundredth of translating each character.
    return _UNPRINTABLE.sub(lambda found: _ESCAPES[ord(found[0])], text)


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
    text = ago(value) if isinstance(value, datetime) else str(value)
    # Laying out a long text takes long; all of it is in the JSON document.
    return one_line(text if len(text) <= CELL_CHARACTERS else text[: CELL_CHARACTERS - 1] + "…")


def _plain(value: Any) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal):
        # As the HTTP API writes it.
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise HoldfastError(f"a {type(value).__name__} cannot be shown as JSON")
