"""`holdfast task …`: enqueue, list, show, cancel, retry and explain tasks."""

from datetime import datetime
from typing import Annotated, NamedTuple

import typer

from holdfast.cli.options import RevealReason, from_now, json_text, require_reveal_reason
from holdfast.cli.output import (
    AsJson,
    By,
    Reason,
    ago,
    first_line,
    on_database,
    refuse,
    say,
    say_lines,
    show_json,
    show_table,
)
from holdfast.core.audit import Action
from holdfast.core.bounds import refuse_reserved
from holdfast.core.state import State
from holdfast.core.task import Enqueued, NewTask, TaskView, Unique, is_id, shown_state
from holdfast.ops.caller import Caller
from holdfast.ops.masking import mask_for
from holdfast.store.store import Store
from holdfast.views.tasks import AttemptView, Browser, Found, Listed
from holdfast.views.why import Reason as Because
from holdfast.views.why import Why

tasks = typer.Typer(help="One task, or a list of them.", no_args_is_help=True)

TaskId = Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")]


@tasks.command()
def enqueue(  # noqa: PLR0913 (one for each option)
    kind: Annotated[str, typer.Argument(help="Which handler is to run it.")],
    payload: Annotated[str, typer.Argument(help="Its payload, as JSON.")] = "{}",
    queue: Annotated[str, typer.Option(help="Where it waits.")] = "default",
    priority: Annotated[int, typer.Option(min=0, max=3, help="0 is the most urgent.")] = 2,
    delay: Annotated[float, typer.Option(min=0, help="Seconds before it may start.")] = 0.0,
    key: Annotated[str | None, typer.Option(help="A second task of this kind and key is not made.")] = None,
    unique: Annotated[Unique, typer.Option(help="What a second enqueue of the key means.")] = Unique.KEY,
    subject: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    trace: Annotated[str | None, typer.Option(help="The trace it belongs to.")] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Add one task."""
    payload = json_text(payload, "PAYLOAD")
    refuse_reserved(kind)
    run_at = from_now(seconds=delay) if delay else None
    if unique is not Unique.KEY and key is None:
        raise typer.BadParameter(f"{unique} says what a second task of the same key means: give --key")
    task = NewTask(
        kind, payload, queue=queue, priority=priority, run_at=run_at, key=key, unique=unique,
        subject=subject, trace_id=trace,
    )  # fmt: skip

    async def work(caller: Caller) -> Enqueued:
        async with caller.conn.transaction():
            done = await Store(caller.settings).enqueue(caller.conn, task)
            if done.created:
                await caller.audit.note_tasks(caller.conn, Action.TASK_ENQUEUE, caller.author(), [done.id])
        return done

    done = on_database(work, by=by)
    if as_json:
        show_json({"id": done.id, "created": done.created})
    else:
        say(f"task {done.id} is queued" if done.created else f"task {done.id} stands for this key already")


@tasks.command("list")
def list_tasks(  # noqa: PLR0913 (one for each option)
    state: Annotated[State | None, typer.Option(help="Only in this state.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind.")] = None,
    queue: Annotated[str | None, typer.Option(help="Only of this queue.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only about this.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    before: Annotated[str | None, typer.Option(help="Go on below this task id, the last of a page.")] = None,
    as_json: AsJson = False,
) -> None:
    """List tasks, the newest first; completed ones only with --state completed."""
    if before is not None and not is_id(before):
        raise typer.BadParameter(f"{before} is not the id of a task", param_hint="--before")

    async def work(caller: Caller) -> Found[Listed]:
        return await Browser(caller.settings).tasks(
            caller.conn, state=state, kind=kind, queue=queue, subject=subject, limit=limit, before=before
        )

    found = on_database(work)
    if as_json:
        show_json(found.items)
        return
    show_table(
        ["task", "kind", "queue", "state", "attempts", "enqueued", "error"],
        [
            (
                one.id,
                one.kind,
                one.queue,
                one.shown_state,
                one.attempts,
                one.enqueued_at,
                first_line(one.error),
            )
            for one in found.items
        ],
        empty="no such task waits, runs or is marked; completed ones are under --state completed",
    )
    if found.partial:
        say(f"only some were looked at, because such tasks are rare: --before {found.next} goes on there")


@tasks.command()
def show(
    task: TaskId,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="Strike nothing out; that and --reason stand in the audit.")
    ] = False,
    reason: RevealReason = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Show all that is known of one task, without its secrets."""
    require_reveal_reason(reason, reveal=reveal)

    async def work(caller: Caller) -> Shown:
        view = await caller.operator.show(caller.conn, task)
        attempts = await Browser(caller.settings).attempts(caller.conn, task)
        reasons = await Why(caller.settings).of(caller.conn, view)
        mask = await mask_for(caller.conn, caller.settings, [view.kind])
        if reveal:
            view = await caller.dead_letters.reveal(caller.conn, task, reason)
        else:
            view = mask.task(view)
        return Shown(view, attempts, reasons, declared=mask.knows(view.kind))

    found = on_database(work, by=by)
    if as_json:
        show_json({"task": found.view, "attempts": found.attempts, "declared": found.declared})
    else:
        _tell(found, revealed=reveal)


class Shown(NamedTuple):
    """A task as it is shown."""

    view: TaskView
    attempts: list[AttemptView]
    reasons: list[Because]
    declared: bool


def _tell(found: Shown, *, revealed: bool) -> None:
    view, attempts, reasons, declared = found
    for name, value in (
        ("task", view.id), ("kind", view.kind), ("queue", view.queue),
        ("state", shown_state(view.state, view.next_attempt_at)),
        ("payload", view.payload), ("result", view.result), ("subject", view.subject), ("key", view.key),
        ("trace", view.trace_id), ("enqueued", ago(view.enqueued_at)), ("next attempt", view.next_attempt_at),
        ("finished", view.finished_at), ("dead because", view.dead_reason), ("reason", view.mark_reason),
    ):  # fmt: skip
        if value is not None:
            say(f"{name:13} {ago(value) if isinstance(value, datetime) else value}")
    if not declared and not revealed:
        say(
            f"{'hidden':13} no worker has declared the kind {view.kind}, so only keys are shown: "
            "start a worker that knows it, or give --reveal --reason …"
        )
    counters = view.counters
    say(
        f"{'counted':13} {counters.attempts} attempts, {counters.failures} failures, "
        f"{counters.crashes} crashes, {counters.polls} polls"
        + ("" if view.progress is None else f", {view.progress:g} done")
    )
    for reason in reasons:
        say(f"{'why':13} {reason.text}")
    if view.error is not None:
        say_lines(f"{'error':13} {view.error.code} ({view.error.failure_class}): {view.error.message}")
        if view.error.stack:
            say_lines(view.error.stack.rstrip())
    show_table(
        ["fence", "ended as", "started", "ended", "code", "message", "worker"],
        [
            (
                one.fence,
                one.ended_as,
                one.started_at,
                one.ended_at,
                one.error_code,
                one.message,
                one.worker_name or one.worker,
            )
            for one in attempts
        ],
        empty="no attempt has failed",
    )


@tasks.command()
def wake(task: TaskId, by: By = "", as_json: AsJson = False) -> None:
    """Poll a task that has snoozed now rather than at its time."""

    async def work(caller: Caller) -> list[str]:
        operator = caller.operator
        return await operator.wake(caller.conn, [(await operator.show(caller.conn, task)).id])

    woken = on_database(work, by=by)
    if as_json:
        show_json({"id": task, "woken": bool(woken)})
    else:
        say(f"task {task} is polled now" if woken else f"task {task} has nothing to wake: it has not snoozed")


@tasks.command()
def cancel(
    task: TaskId, reason: Reason = "cancelled from the command line", by: By = "", as_json: AsJson = False
) -> None:
    """Cancel a task that waits; ask one that runs to stop."""

    async def work(caller: Caller) -> State:
        return await caller.operator.cancel(caller.conn, task, reason)

    state = on_database(work, by=by)
    if as_json:
        show_json({"id": task, "state": state})
    else:
        say(
            f"task {task} is cancelled"
            if state is State.CANCELLED
            else f"task {task} runs and is asked to stop"
        )


@tasks.command()
def retry(
    task: TaskId, reason: Reason = "retried from the command line", by: By = "", as_json: AsJson = False
) -> None:
    """Put a failed or cancelled task back to work, its counters cleared."""

    async def work(caller: Caller) -> tuple[bool, State]:
        operator = caller.operator
        done = await operator.redrive(caller.conn, [task], reason)
        return bool(done), (await operator.show(caller.conn, task)).state

    done, state = on_database(work, by=by)
    if as_json:
        show_json({"id": task, "retried": done, "state": state})
    elif done:
        say(f"task {task} is queued again")
    if not done:
        refuse(f"task {task} is {state}: only a failed or cancelled task can be retried")


@tasks.command()
def pause(task: TaskId, reason: Reason, by: By = "", as_json: AsJson = False) -> None:
    """Hold one task that waits until it is resumed."""

    async def work(caller: Caller) -> None:
        await caller.operator.pause(caller.conn, task, reason)

    on_database(work, by=by)
    if as_json:
        show_json({"task": task, "paused": True})
    else:
        say(f"task {task} is paused")


@tasks.command()
def resume(task: TaskId, by: By = "", as_json: AsJson = False) -> None:
    """Let a paused task run."""

    async def work(caller: Caller) -> None:
        await caller.operator.resume(caller.conn, task)

    on_database(work, by=by)
    if as_json:
        show_json({"task": task, "resumed": True})
    else:
        say(f"task {task} is queued again")


@tasks.command()
def why(task: TaskId, as_json: AsJson = False) -> None:
    """Say why a task is not running, or what became of it."""

    async def work(caller: Caller) -> list[Because]:
        return await Why(caller.settings).of(caller.conn, await caller.operator.show(caller.conn, task))

    reasons = on_database(work)
    if as_json:
        show_json(
            {"id": task, "because": [one.text for one in reasons], "causes": [one.cause for one in reasons]}
        )
        return
    for reason in reasons:
        say(reason.text)
