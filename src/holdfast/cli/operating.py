"""What the commands about failures have in common: which dead letters, whose app, and a guard before harm."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from holdfast.cli.load import load
from holdfast.cli.screen import refuse
from holdfast.config import Settings
from holdfast.core.failure import DeadReason
from holdfast.core.handler import Handlers
from holdfast.ops.dead import FAILED, RETRYABLE, DeadFilter
from holdfast.store.pool import where

AppPath = Annotated[
    str | None,
    typer.Option(
        "--app", envvar="HOLDFAST_APP", help="The app, MODULE:NAME, whose guards and payloads are to be used."
    ),
]
Subject = Annotated[str | None, typer.Option(help="Only about this.")]
KindOf = Annotated[str | None, typer.Option("--kind", help="Only of this kind.")]
QueueOf = Annotated[str | None, typer.Option("--queue", help="Only of this queue.")]
Trace = Annotated[str | None, typer.Option(help="Only of this trace.")]
DeadBecause = Annotated[DeadReason | None, typer.Option(help="Only those that died for this.")]
Code = Annotated[str | None, typer.Option(help="Only with this error code.")]
GroupOf = Annotated[str | None, typer.Option("--group", help="Only of this group, by its fingerprint.")]
Hours = Annotated[float | None, typer.Option("--hours", min=0, help="Only of the last so many hours.")]
Ids = Annotated[list[str] | None, typer.Option("--task", help="Only this one; may be given several times.")]
Cancelled = Annotated[bool, typer.Option("--cancelled", help="Cancelled tasks too.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def chosen(  # noqa: PLR0913 (one for each option)
    *,
    subject: str | None,
    kind: str | None,
    queue: str | None,
    trace: str | None,
    reason: DeadReason | None,
    code: str | None,
    group: str | None,
    hours: float | None,
    ids: list[str] | None,
    cancelled: bool,
) -> DeadFilter:
    """The filter that the options of a command stand for."""
    since = datetime.now(UTC) - timedelta(hours=hours) if hours is not None else None
    states = RETRYABLE if cancelled else FAILED
    return DeadFilter(subject, kind, queue, trace, reason, code, group, since, None, ids, states)


def handlers_of(path: str | None) -> Handlers | None:
    """What the app can run, if it was named."""
    return None if path is None else load(path).handlers


def sure(doing: str, *, yes: bool) -> None:
    """Name the database and ask, before anything that cannot be taken back."""
    if yes:
        return
    named = where(Settings().database_url)
    if not sys.stdin.isatty():
        refuse(f"{doing} in {named} cannot be taken back: add --yes")
    if not typer.confirm(f"{doing} in {named}? It cannot be taken back."):
        refuse("nothing was done")
