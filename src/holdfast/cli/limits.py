"""`holdfast limit …`: sets concurrency and rate limits while workers run."""

from typing import Annotated

import typer

from holdfast.cli.output import AsJson, By, on_database, refuse, say, show_json, show_table
from holdfast.core.limit import Limit, Scope
from holdfast.ops.caller import Caller
from holdfast.store.limits import LimitView

limits = typer.Typer(
    help="Limits: what runs at once, what starts in a window, the share of a key.", no_args_is_help=True
)

Of = Annotated[Scope, typer.Argument(help="What it is for.")]
Name = Annotated[
    str, typer.Argument(help="The kind, the queue, or KIND/FIELD=VALUE; * stands for every kind or value.")
]


@limits.command("set")
def set_limit(  # noqa: PLR0913 (one for each option)
    scope: Of,
    name: Name,
    running: Annotated[int | None, typer.Option(min=0, help="At most so many at once.")] = None,
    rate: Annotated[str | None, typer.Option(help="At most so many starts: 100/s, 20/10s, 500/h.")] = None,
    burst: Annotated[int | None, typer.Option(min=1, help="So many more after a quiet time.")] = None,
    weight: Annotated[float, typer.Option(help="How many in a turn, beside keys with 1.")] = 1.0,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Set or change a limit, on all workers together; what runs goes on."""
    limit = Limit(running, rate, burst, weight)

    async def work(caller: Caller) -> str:
        return await caller.limits.set(caller.conn, scope, name, limit)

    full = on_database(work, by=by)
    if as_json:
        show_json(
            {"limit": full, "running": running, "rate": rate, "burst": limit.rate_burst, "weight": weight}
        )
    else:
        say(f"{full} is limited: {told(limit)}")


@limits.command()
def show(as_json: AsJson = False) -> None:
    """Show every limit, what runs under it, who holds its permits and what waits."""

    async def work(caller: Caller) -> list[LimitView]:
        return await caller.limits.show(caller.conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["limit", "running", "of", "rate", "weight", "waiting", "held by", "set by"],
        [
            (
                one.name,
                one.running,
                "" if one.running_max is None else one.running_max,
                ""
                if one.rate_count is None
                else f"{one.rate_count}/{one.rate_seconds:g}s + {one.rate_burst}",
                one.weight,
                f"{one.waiting}{'+' if one.waiting >= 10_000 else ''}",
                ", ".join(f"{worker} ({permits})" for worker, permits in (one.holders or {}).items()),
                one.set_by,
            )
            for one in found
        ],
        empty="nothing is limited",
    )


@limits.command()
def clear(scope: Of, name: Name, by: By = "", as_json: AsJson = False) -> None:
    """Remove a limit; one that code declares is back when a worker starts."""

    async def work(caller: Caller) -> bool:
        return await caller.limits.clear(caller.conn, scope, name)

    done = on_database(work, by=by)
    if as_json:
        show_json({"scope": scope, "name": name, "cleared": done})
    elif done:
        say(f"{scope} {name} is not limited any more")
    if not done:
        refuse(f"{scope} {name} has no limit")


def told(limit: Limit) -> str:
    """A limit in words."""
    parts = []
    if limit.running is not None:
        parts.append(f"{limit.running} at once")
    if limit.rate is not None:
        parts.append(
            f"{limit.rate_count} starts in {limit.rate_seconds:g} s, {limit.rate_burst} more at once"
        )
    if limit.weight != 1:
        parts.append(f"weight {limit.weight:g}")
    return ", ".join(parts) or "by nothing, but in turn with others"
