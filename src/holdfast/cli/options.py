"""Options that several operator commands share: filters, the app, confirmation."""

import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated
from uuid import UUID

import typer

from holdfast.cli.load import load
from holdfast.cli.output import on_database, refuse, without_secrets
from holdfast.config import Settings
from holdfast.core.audit import EntryFilter
from holdfast.core.failure import DeadReason
from holdfast.core.handler import Handlers
from holdfast.db.clock import read_clock
from holdfast.db.connect import where
from holdfast.ops.dead_letters import FAILED, RETRYABLE, DeadFilter


def _as_id(value: str | None) -> str | None:
    """What names a task or a plan; said here, before the database has to."""
    try:
        return None if value is None else str(UUID(value))
    except ValueError as error:
        raise typer.BadParameter(f"{value} is not an id") from error


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
ActionOf = Annotated[str | None, typer.Option("--action", help="Only this action.")]
Actor = Annotated[str | None, typer.Option(help="Only by this person.")]
Batch = Annotated[str | None, typer.Option(callback=_as_id, help="Only of this plan, by its id.")]
TaskOf = Annotated[str | None, typer.Option("--task", callback=_as_id, help="Only about this task.")]
Because = Annotated[
    str, typer.Option("--reason", help="Why; it stands in the audit.", callback=without_secrets)
]
RevealReason = Annotated[str, typer.Option("--reason", help="Why, with --reveal.", callback=without_secrets)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


def dead_letters(  # noqa: PLR0913 (one for each option)
    *,
    subject: Subject = None,
    kind: KindOf = None,
    queue: QueueOf = None,
    trace: Trace = None,
    dead_reason: DeadBecause = None,
    code: Code = None,
    group: GroupOf = None,
    hours: Hours = None,
    task: Ids = None,
    cancelled: Cancelled = False,
) -> DeadFilter:
    """Which dead letters a command is about, as its options say."""
    since = from_now(hours=-hours) if hours is not None else None
    states = RETRYABLE if cancelled else FAILED
    return DeadFilter(subject, kind, queue, trace, dead_reason, code, group, since, None, task, states)


def entries(  # noqa: PLR0913 (one for each option)
    *,
    action: ActionOf = None,
    actor: Actor = None,
    subject: Subject = None,
    kind: KindOf = None,
    trace: Trace = None,
    batch: Batch = None,
    task: TaskOf = None,
) -> EntryFilter:
    """Which entries of the audit a command is about, as its options say."""
    return EntryFilter(action, actor, subject, kind, trace, batch, task)


def which(chosen: Callable[..., object]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `chosen`, and as `only` what that makes of them."""
    options = signature(chosen).parameters

    def take(command: Callable[..., None]) -> Callable[..., None]:
        shape = signature(command)

        @wraps(command)
        def run(**values: object) -> None:
            command(only=chosen(**{name: values.pop(name) for name in options}), **values)

        parameters = [
            one.replace(kind=Parameter.KEYWORD_ONLY)
            for name, given in shape.parameters.items()
            for one in (options.values() if name == "only" else [given])
        ]
        run.__signature__ = shape.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return take


def handlers_of(path: str | None) -> Handlers | None:
    """What the app can run, if it was named."""
    return None if path is None else load(path).handlers


def from_now(**distance: float) -> datetime:
    """The moment so many hours, or whatever is named, from now; less than none is before it."""
    now = on_database(lambda caller: read_clock(caller.conn), migrated=False)
    try:
        return now + timedelta(**distance)
    except (OverflowError, ValueError) as error:
        ((unit, number),) = distance.items()
        raise typer.BadParameter(f"no calendar has the moment {abs(number):g} {unit} from now") from error


def json_text(given: str | bytes, option: str) -> str:
    """What was given as JSON, if it is JSON; what PostgreSQL does not take is left to it."""
    try:
        # A command line may hold bytes that are no text.
        text = (given.encode() if isinstance(given, str) else given).decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"it is not JSON: {error}", param_hint=option) from error
    return text


def require_reveal_reason(reason: str, *, reveal: bool) -> None:
    """Refuse to show what is hidden to whoever does not say why."""
    if reveal and not reason:
        raise typer.BadParameter("say why: --reveal needs --reason", param_hint="--reason")


def sure(doing: str, *, yes: bool) -> None:
    """Name the database and ask, before anything that cannot be taken back."""
    if yes:
        return
    named = where(Settings().database_url)
    if not sys.stdin.isatty():
        refuse(f"{doing} in {named} cannot be taken back: add --yes")
    if not typer.confirm(f"{doing} in {named}? It cannot be taken back."):
        refuse("nothing was done")
