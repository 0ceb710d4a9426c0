"""`holdfast group …`: failures with the same cause, with assignee, notes and state."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from holdfast.cli.options import AppPath, Because, KindOf, from_now, handlers_of
from holdfast.cli.output import (
    AsJson,
    By,
    ago,
    first_line,
    on_database,
    say,
    say_lines,
    show_json,
    show_table,
)
from holdfast.ops.caller import Caller
from holdfast.ops.groups import Group, GroupState, Trait
from holdfast.ops.masking import mask_for

groups = typer.Typer(help="Groups: failures with one cause.", no_args_is_help=True)

Fingerprint = Annotated[str, typer.Argument(metavar="GROUP", help="Its fingerprint.")]


@groups.command("list")
def list_groups(
    state: Annotated[GroupState | None, typer.Option(help="Only in this state.")] = None,
    kind: KindOf = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List groups, those with the most dead letters first."""

    async def work(caller: Caller) -> list[Group]:
        return await caller.groups.page(caller.conn, state=state, kind=kind, limit=limit)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["group", "state", "dead", "failures", "kind", "code", "first seen", "last seen", "owner", "message"],
        [
            (
                one.fingerprint, one.state, one.dead, one.failures, one.kind, one.error_code,
                one.first_seen_at, one.last_seen_at, one.owner, first_line(one.message),
            )
            for one in found
        ],
        empty="nothing has failed",
    )  # fmt: skip


@groups.command()
def show(group: Fingerprint, app: AppPath = None, as_json: AsJson = False) -> None:
    """Show a group, and what its tasks have in common that successes have not."""
    handlers = handlers_of(app)

    async def work(caller: Caller) -> tuple[Group, list[Trait], list[int], Sequence[tuple[datetime, int]]]:
        known = caller.groups
        found = await known.show(caller.conn, group)
        mask = await mask_for(caller.conn, caller.settings, [found.kind], handlers)
        traits = await known.traits(caller.conn, found, mask)
        return found, traits, await known.versions(caller.conn, group), await known.hours(caller.conn, group)

    found, traits, versions, hours = on_database(work)
    if as_json:
        show_json({"group": found, "traits": traits, "versions": versions, "hours": hours})
        return
    say(f"group    {found.fingerprint}, {found.state}")
    say(f"kind     {found.kind}, {found.error_code} ({found.failure_class})")
    say_lines(f"error    {found.message}")
    say(f"seen     first {ago(found.first_seen_at)}, last {ago(found.last_seen_at)}")
    say(f"met      {found.failures} times, {found.last_hour} in the last hour; {found.dead} dead letters")
    if versions:
        say(f"versions {', '.join(map(str, versions))}")
    for name, value in (("owner", found.owner), ("note", found.note)):
        if value:
            say(f"{name:8} {value}")
    if found.ignored_until is not None:
        say(f"ignored  until {ago(found.ignored_until)} by {found.changed_by}")
    for trait in traits:
        say(
            f"shared   {trait.field} = {trait.value}: {trait.of_group:.0%} of these, "
            f"{trait.of_successes:.0%} of those that completed"
        )


@groups.command()
def ignore(
    group: Fingerprint,
    reason: Because,
    hours: Annotated[float, typer.Option(min=0.01, help="For so long.")] = 24.0,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Have nobody told of a group for a while."""
    until = from_now(hours=hours)

    async def work(caller: Caller) -> None:
        await caller.groups.ignore(caller.conn, group, until, reason)

    on_database(work, by=by)
    _done(group, "ignored", f"is ignored for {hours:g} h", as_json=as_json)


@groups.command()
def resolve(group: Fingerprint, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Say that a cause is gone; if it is met again, the group has regressed."""

    async def work(caller: Caller) -> None:
        await caller.groups.resolve(caller.conn, group, reason)

    on_database(work, by=by)
    _done(group, "resolved", "is resolved", as_json=as_json)


@groups.command()
def reopen(group: Fingerprint, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Take back what was said of a group."""

    async def work(caller: Caller) -> None:
        await caller.groups.reopen(caller.conn, group, reason)

    on_database(work, by=by)
    _done(group, "open", "is open again", as_json=as_json)


@groups.command()
def note(
    group: Fingerprint,
    text: Annotated[str | None, typer.Argument(metavar="NOTE", help="What is known of it.")] = None,
    owner: Annotated[str | None, typer.Option(help="Who looks after it.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Write down what is known of a group, or who looks after it."""
    if text is None and owner is None:
        raise typer.BadParameter("give a note, or --owner")

    async def work(caller: Caller) -> None:
        await caller.groups.note(caller.conn, group, text, owner)

    on_database(work, by=by)
    _done(group, "noted", "has its note", as_json=as_json)


def _done(group: str, state: str, said: str, *, as_json: bool) -> None:
    if as_json:
        show_json({"group": group, "state": state})
    else:
        say(f"group {group} {said}")
