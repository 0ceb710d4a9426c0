"""`holdfast schedule …`: shows, pauses and triggers recurring tasks."""

from datetime import datetime
from itertools import islice
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from holdfast.cli.output import AsJson, By, ago, on_database, say, show_json, show_table
from holdfast.cli.pausing import Why, tell_paused, tell_resumed
from holdfast.core.task import Enqueued
from holdfast.db.clock import read_clock
from holdfast.ops.caller import Caller
from holdfast.ops.masking import mask_for
from holdfast.store.schedules import ScheduleView

schedules = typer.Typer(help="Schedules: what is made by itself, and when.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The schedule.")]


def _look(name: str) -> ScheduleView:
    async def work(caller: Caller) -> ScheduleView:
        view = await caller.schedules.show(caller.conn, name)
        return (await mask_for(caller.conn, caller.settings, [view.kind])).schedule(view)

    return on_database(work)


@schedules.command("list")
def list_(as_json: AsJson = False) -> None:
    """Every schedule, with its next tick."""

    async def work(caller: Caller) -> list[ScheduleView]:
        views = await caller.schedules.list(caller.conn)
        mask = await mask_for(caller.conn, caller.settings, [view.kind for view in views])
        return [mask.schedule(view) for view in views]

    found = on_database(work)
    if as_json:
        show_json({"schedules": found})
        return
    show_table(
        ["schedule", "kind", "when", "zone", "next", "last", "paused"],
        [
            (
                view.name, view.kind, view.expression, view.zone,
                "" if view.paused_at else _local(view, view.next_at),
                ago(view.last_tick_at), view.pause_reason if view.paused_at else "",
            )
            for view in found
        ],
        empty='there are none: declare one with @app.task("kind", schedule=Cron("0 3 * * *"))',
    )  # fmt: skip


@schedules.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """One schedule."""
    view = _look(name)
    if as_json:
        show_json({"schedule": view})
        return
    for label, value in (
        ("schedule", view.name), ("kind", view.kind), ("queue", view.queue), ("when", view.expression),
        ("zone", view.zone), ("payload", view.payload),
        ("missed ticks", f"{view.missed}, at most {view.most}"),
        ("jitter", f"{view.jitter_seconds:g} s"), ("next", _local(view, view.next_at)),
        ("last", None if view.last_tick_at is None else _local(view, view.last_tick_at)),
        ("declared", ago(view.declared_at)),
        ("paused", f"by {view.paused_by}: {view.pause_reason}" if view.paused_at else None),
        ("not fired", None if view.failed_at is None else f"{ago(view.failed_at)}, as a worker's log says"),
    ):  # fmt: skip
        if value is not None:
            say(f"{label:13} {value}")


@schedules.command("next")
def next_(
    name: Name,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """The next ticks, in the schedule's own time zone."""

    async def work(caller: Caller) -> tuple[ScheduleView, datetime]:
        return await caller.schedules.show(caller.conn, name), await read_clock(caller.conn)

    view, now = on_database(work)
    ticks = list(islice(view.cron.after(now), count))
    if as_json:
        show_json({"schedule": view.name, "next": ticks})
        return
    for tick in ticks:
        say(_local(view, tick))


@schedules.command()
def pause(name: Name, why: Why, by: By = "", as_json: AsJson = False) -> None:
    """Fire no more of its ticks; those that pass meanwhile are not made up for."""

    async def work(caller: Caller) -> None:
        await caller.schedules.pause(caller.conn, name, why)

    on_database(work, by=by)
    tell_paused("schedule", name, None, None, as_json=as_json)


@schedules.command()
def resume(name: Name, by: By = "", as_json: AsJson = False) -> None:
    """Fire its ticks again, from now on."""

    async def work(caller: Caller) -> bool:
        return await caller.schedules.resume(caller.conn, name)

    tell_resumed("schedule", name, "fires again", done=on_database(work, by=by), as_json=as_json)


@schedules.command()
def run(name: Name, by: By = "", as_json: AsJson = False) -> None:
    """Make a task now, beside its ticks."""

    async def work(caller: Caller) -> Enqueued:
        return await caller.schedules.run(caller.conn, name)

    made = on_database(work, by=by)
    if as_json:
        show_json({"schedule": name, "id": made.id})
    else:
        say(f"task {made.id} is enqueued")


@schedules.command()
def remove(name: Name, by: By = "", as_json: AsJson = False) -> None:
    """Forget a schedule that no code declares any more."""

    async def work(caller: Caller) -> None:
        await caller.schedules.remove(caller.conn, name)

    on_database(work, by=by)
    if as_json:
        show_json({"schedule": name, "removed": True})
    else:
        say(f"schedule {name} is removed")


def _local(view: ScheduleView, moment: datetime) -> str:
    return moment.astimezone(ZoneInfo(view.zone)).strftime("%a %Y-%m-%d %H:%M %Z")
