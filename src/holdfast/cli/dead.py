"""`holdfast dead …`: work on dead letters one by one or a few at a time; `redrive` handles many."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AppPath, Because, Yes, dead_letters, handlers_of, json_text, sure, which
from holdfast.cli.output import (
    AsJson,
    By,
    ago,
    first_line,
    on_database,
    refuse,
    say,
    say_lines,
    show_json,
    show_table,
)
from holdfast.cli.plan_output import tell_plan
from holdfast.core.audit import EntryFilter
from holdfast.core.task import TaskView
from holdfast.ops.audit import AuditReader
from holdfast.ops.caller import Caller
from holdfast.ops.dead_letters import (
    RETRYABLE,
    DeadFilter,
    DeadLetter,
    Edit,
    Retried,
    Statistics,
)
from holdfast.ops.groups import Group
from holdfast.ops.masking import mask_for
from holdfast.ops.plan_view import PlanView
from holdfast.views.tasks import Browser

dead = typer.Typer(help="Dead letters: tasks that failed for good.", no_args_is_help=True)

TaskIds = Annotated[list[str], typer.Argument(metavar="TASK…", help="Their ids.")]
TaskId = Annotated[str, typer.Argument(metavar="TASK", help="Its id.")]


@dead.command("list")
@which(dead_letters)
def list_dead(
    only: DeadFilter,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    before: Annotated[str | None, typer.Option(help="Go on below this task id, the last of a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the newest first."""

    async def work(caller: Caller) -> list[DeadLetter]:
        return await caller.dead_letters.page(caller.conn, only, limit=limit, before=before)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["task", "kind", "died", "because", "code", "group", "replays", "error"],
        [
            (
                one.id, one.kind, one.died_at, one.dead_reason or one.state, one.error_code, one.fingerprint,
                one.replay_count, first_line(one.error),
            )
            for one in found
        ],
        empty="no dead letter is like that",
    )  # fmt: skip


@dead.command()
def stats(as_json: AsJson = False) -> None:
    """Count dead letters: all, by kind, by class, by reason, and the subjects with the most."""

    async def work(caller: Caller) -> Statistics:
        return await caller.dead_letters.statistics(caller.conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    say(f"{found.total} dead letters")
    for title, counts in (
        ("kind", found.by_kind),
        ("class", found.by_class),
        ("reason", found.by_reason),
        ("subject", found.by_subject),
    ):
        if counts:
            rows = sorted(counts.items(), key=lambda item: -item[1])
            show_table([title, "dead"], rows, empty="")


@dead.command()
def show(task: TaskId, app: AppPath = None, as_json: AsJson = False) -> None:
    """Show a dead letter: its error, its group, its earlier payloads, and what was done to it."""
    handlers = handlers_of(app)

    async def work(caller: Caller) -> dict[str, object]:
        dead_letters = caller.dead_letters
        view = await caller.operator.show(caller.conn, task)
        mask = await mask_for(caller.conn, caller.settings, [view.kind], handlers)
        view = mask.task(view)
        found = await dead_letters.page(caller.conn, DeadFilter(ids=[view.id], states=RETRYABLE))
        letter = found[0] if found else None
        group = None
        if letter is not None and letter.fingerprint is not None:
            group = await caller.groups.show(caller.conn, letter.fingerprint)
        return {
            "task": view,
            "payload": view.payload,
            "letter": letter,
            "group": group,
            "attempts": await Browser(caller.settings).attempts(caller.conn, task),
            "edits": [
                replace(one, payload=mask.shown(view.kind, one.payload))
                for one in await dead_letters.edits(caller.conn, task)
            ],
            "audit": await AuditReader(caller.settings).page(caller.conn, EntryFilter(task=view.id)),
        }

    found = on_database(work, handlers=handlers)
    if as_json:
        show_json(found)
        return
    _tell(found)


def _tell(found: dict[str, object]) -> None:
    view, letter, group = found["task"], found["letter"], found["group"]
    assert isinstance(view, TaskView), "it was just read"
    say(f"{view.kind} {view.id} is {view.state}" + (f" ({view.dead_reason})" if view.dead_reason else ""))
    say(f"payload  {found['payload']}")
    if view.error is not None:
        error = view.error
        say_lines(f"error    {error.code} ({error.failure_class}), {ago(error.at)}: {error.message}")
    if isinstance(group, Group):
        since = ago(group.first_seen_at)
        say(f"group    {group.fingerprint}, {group.state}: {group.dead} dead letters, first seen {since}")
    if isinstance(letter, DeadLetter) and letter.replay_count:
        say(
            f"replays  {letter.replay_count}, the last {ago(letter.last_replayed_at)} by "
            f"{letter.last_replayed_by}: {letter.last_replay_reason}"
        )
    if view.error is not None and view.error.stack:
        say_lines(view.error.stack.rstrip())
    edits, entries = found["edits"], found["audit"]
    assert isinstance(edits, list), "it was just read"
    assert isinstance(entries, list), "it was just read"
    if edits:
        rows = [
            (one.edited_at, one.edited_by, one.reason, one.payload) for one in edits if isinstance(one, Edit)
        ]
        show_table(["edited", "by", "reason", "payload before"], rows, empty="")
    show_table(
        ["when", "what", "who", "why"],
        [(entry.at, entry.action, entry.actor, entry.reason) for entry in entries],
        empty="nobody has done anything to it",
    )


@dead.command()
def retry(task: TaskIds, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Put dead letters back to work, their counters cleared."""

    async def work(caller: Caller) -> Retried:
        return await caller.dead_letters.retry(caller.conn, task, reason)

    done = on_database(work, by=by)
    if as_json:
        show_json(done)
    else:
        for task_id in done.retried:
            say(f"task {task_id} is queued again")
    for task_id, why in done.refused.items():
        say(f"task {task_id} was left alone: {why}")
    if done.refused:
        refuse(f"{len(done.refused)} of {len(task)} could not be retried")


@dead.command()
def edit(  # noqa: PLR0913 (one for each option)
    task: TaskId,
    reason: Because,
    app: AppPath = None,
    payload: Annotated[str | None, typer.Option(help="The whole new payload, as JSON.")] = None,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file that holds it.")
    ] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Give a dead letter another payload and put it back to work; the old one is kept."""
    if payload is not None and file is None:
        text = json_text(payload, "--payload")
    elif file is not None and payload is None:
        text = json_text(file.read_bytes(), "--file")
    else:
        raise typer.BadParameter("give the new payload with --payload, or with --file")
    handlers = handlers_of(app)

    async def work(caller: Caller) -> None:
        await caller.dead_letters.edit(caller.conn, task, text, reason)

    on_database(work, by=by, handlers=handlers)
    if as_json:
        show_json({"id": task, "edited": True})
    else:
        say(f"task {task} has its new payload and is queued again")


@dead.command()
def forget(task: TaskIds, reason: Because, by: By = "", yes: Yes = False, as_json: AsJson = False) -> None:
    """Let dead letters go for good."""
    sure(f"forgetting {len(task)} tasks", yes=yes)

    async def work(caller: Caller) -> list[str]:
        return await caller.dead_letters.forget(caller.conn, task, reason)

    gone = on_database(work, by=by)
    if as_json:
        show_json({"forgotten": gone})
    else:
        for task_id in gone:
            say(f"task {task_id} is gone")
    if len(gone) < len(task):
        refuse(
            f"{len(task) - len(gone)} of {len(task)} are neither failed nor cancelled, and were left alone"
        )


@dead.command()
@which(dead_letters)
def flush(only: DeadFilter, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Ask for dead letters to be let go for good; a second person has to approve it, and then start it."""

    async def work(caller: Caller) -> PlanView:
        return await caller.plans.freeze(caller.conn, only, reason, action="forget")

    tell_plan(on_database(work, by=by), as_json=as_json)
