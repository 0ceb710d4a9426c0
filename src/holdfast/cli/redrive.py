"""`holdfast redrive …`: redrives many dead letters as a plan that is previewed first."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from holdfast.cli.options import AppPath, Because, DryRun, dead_letters, handlers_of, which
from holdfast.cli.output import (
    AsJson,
    By,
    on_database,
    say,
    show_json,
    show_table,
)
from holdfast.cli.plan_output import tell_plan, tell_preview
from holdfast.core.errors import Misused
from holdfast.db.connect import Conn
from holdfast.ops.caller import Caller
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.plan_view import ITEMS_MAX, STOP_RATIO, How, PlanView, Preview
from holdfast.ops.plans import Plans

redrive = typer.Typer(help="Plans: many dead letters put right at once.", no_args_is_help=True)

PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")]
WATCH_SECONDS = 0.5
NOTHING_LIKE_THAT = "no dead letter is like that, or all were left out: `holdfast redrive preview` says which"


@redrive.command()
@which(dead_letters)
def preview(only: DeadFilter, app: AppPath = None, as_json: AsJson = False) -> None:
    """Say what a redrive would do: how many, of which sorts, a sample, what is left out. Nothing is done."""
    handlers = handlers_of(app)

    async def work(caller: Caller) -> Preview:
        return await caller.plans.preview(caller.conn, only)

    tell_preview(on_database(work, handlers=handlers), as_json=as_json)


@redrive.command()
@which(dead_letters)
def plan(  # noqa: PLR0913 (one for each option)
    only: DeadFilter,
    reason: Because,
    limit: Annotated[int, typer.Option(min=1, max=ITEMS_MAX, help="The oldest so many.")] = ITEMS_MAX,
    canary: Annotated[int, typer.Option(min=0, help="Try so many first, spread over all.")] = 0,
    rate: Annotated[float | None, typer.Option(min=0.01, help="Then so many a second.")] = None,
    stop_at: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Stop once more than this part of them has failed.")
    ] = STOP_RATIO,
    expires: Annotated[float, typer.Option(min=0.01, help="Hours in which it can be started.")] = 24.0,
    start_now: Annotated[bool, typer.Option("--start", help="Start it at once.")] = False,
    app: AppPath = None,
    by: By = "",
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Freeze what the filter finds into a plan; nothing happens to the tasks before it is started."""
    handlers = handlers_of(app)
    how = How(canary, rate, stop_at, expires * 3600, limit)

    async def look(caller: Caller) -> Preview:
        return await caller.plans.preview(caller.conn, only)

    async def work(caller: Caller) -> PlanView:
        plans = caller.plans
        async with caller.conn.transaction():
            made = await plans.freeze(caller.conn, only, reason, how)
            if made.items == 0:
                raise Misused(NOTHING_LIKE_THAT)
        return (await plans.start(caller.conn, made.id))[0] if start_now else made

    if dry_run:
        tell_preview(on_database(look, by=by, handlers=handlers), as_json=as_json)
    else:
        tell_plan(on_database(work, by=by, handlers=handlers), as_json=as_json)


@redrive.command("list")
def list_plans(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List plans, the newest first."""

    async def work(caller: Caller) -> list[PlanView]:
        return await caller.plans.latest(caller.conn, limit)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["plan", "action", "state", "items", "sent", "ok", "failed", "made", "by", "reason"],
        [
            (
                one.id, one.action, one.shown_state, one.items, one.sent, one.succeeded,
                one.failed_same + one.failed_anew, one.created_at, one.created_by, one.reason,
            )
            for one in found
        ],
        empty="there is no plan",
    )  # fmt: skip


@redrive.command()
def show(
    plan: PlanId,
    watch: Annotated[bool, typer.Option("--watch", help="Stay until every item has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far a plan has come, and what became of its items."""

    async def work(caller: Caller) -> tuple[PlanView, dict[str, int], dict[str, int]]:
        plans = caller.plans
        if watch:
            await _watch(lambda: plans.show(caller.conn, plan))
        view = await plans.show(caller.conn, plan)
        drift = await plans.drift(caller.conn, plan) if view.state == "frozen" else {}
        return view, drift, await plans.skips(caller.conn, plan)

    view, drift, skips = on_database(work)
    if as_json:
        show_json({"plan": view, "state": view.shown_state, "drift": drift, "skips": skips})
        return
    tell_plan(view, as_json=False)
    for what, count in drift.items():
        say(f"drifted  {count} {what}")
    for why, count in skips.items():
        say(f"skipped  {count}: {why}")


async def _watch(look: Callable[[], Awaitable[PlanView]]) -> None:
    columns = TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, disable=not sys.stdout.isatty()) as bars:
        sent = bars.add_task("sent", total=None)
        ended = bars.add_task("ended", total=None)
        while True:
            view = await look()
            bars.update(sent, total=view.items, completed=view.sent + view.skipped)
            bars.update(ended, total=max(1, view.sent), completed=view.ended)
            if view.started_at is None or view.followed_at is not None or view.state == "paused":
                return
            await asyncio.sleep(WATCH_SECONDS)


@redrive.command()
def approve(plan: PlanId, reason: Because = "", by: By = "", as_json: AsJson = False) -> None:
    """Approve a plan as a second person, who has another database login than the one that made it."""

    async def work(caller: Caller) -> PlanView:
        return await caller.plans.approve(caller.conn, plan, reason)

    tell_plan(on_database(work, by=by), as_json=as_json)


@redrive.command()
def start(plan: PlanId, by: By = "", as_json: AsJson = False) -> None:
    """Start a plan; a worker does the rest, whatever becomes of this command."""

    async def work(caller: Caller) -> tuple[PlanView, dict[str, int]]:
        return await caller.plans.start(caller.conn, plan)

    view, drift = on_database(work, by=by)
    if as_json:
        show_json({"plan": view, "drift": drift})
        return
    say(f"plan {plan} is running: {view.items} items")
    for what, count in drift.items():
        say(f"drifted  {count} {what} since it was made; they are left alone")


@redrive.command()
def pause(plan: PlanId, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Send nothing more until it is resumed."""
    _switch(lambda plans, conn: plans.pause(conn, plan, reason), plan, "is paused", by, as_json=as_json)


@redrive.command()
def resume(plan: PlanId, reason: Because = "", by: By = "", as_json: AsJson = False) -> None:
    """Go on where it was paused."""
    _switch(lambda plans, conn: plans.resume(conn, plan, reason), plan, "goes on", by, as_json=as_json)


@redrive.command()
def abort(plan: PlanId, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """End a plan for good; what was sent stays sent, and is followed to its end."""
    _switch(lambda plans, conn: plans.abort(conn, plan, reason), plan, "is aborted", by, as_json=as_json)


def _switch(
    act: Callable[[Plans, Conn], Awaitable[None]], plan_id: str, done: str, by: str, *, as_json: bool
) -> None:
    async def work(caller: Caller) -> PlanView:
        plans = caller.plans
        await act(plans, caller.conn)
        return await plans.show(caller.conn, plan_id)

    view = on_database(work, by=by)
    if as_json:
        show_json(view)
    else:
        say(f"plan {plan_id} {done}")
