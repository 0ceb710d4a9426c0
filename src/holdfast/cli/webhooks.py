"""`holdfast webhook …`: endpoints, the delivery log, and resending."""

import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated

import typer

from holdfast.cli.options import (
    AppPath,
    Because,
    Hours,
    RevealReason,
    Yes,
    from_now,
    handlers_of,
    require_reveal_reason,
    sure,
)
from holdfast.cli.output import AsJson, By, ago, first_line, on_database, say, show_json, show_table
from holdfast.db.connect import Conn
from holdfast.ops.caller import Caller
from holdfast.webhooks.delivery_log import Attempt, DeliveryLog
from holdfast.webhooks.endpoints import ROTATION_HOURS, Created, Endpoint, Endpoints, NewEndpoint
from holdfast.webhooks.resend import Resend, Resent

webhooks = typer.Typer(help="Webhooks: endpoints and their deliveries.", no_args_is_help=True)

EndpointId = Annotated[str, typer.Argument(metavar="ENDPOINT", help="Its id.")]
Events = Annotated[
    list[str] | None, typer.Option("--event", help="An event type, or `render.*`; several may be given.")
]


def _secret(context: typer.Context, option: typer.CallbackParam, given: str | None) -> str | None:
    """What stands on the command line can be read by everybody on the machine, so `-` reads a line."""
    if given == "-":
        return sys.stdin.readline().strip()
    source = context.get_parameter_source(str(option.name))
    if given is not None and source is not None and source.name == "COMMANDLINE":
        sys.stderr.write(
            "holdfast: a secret on the command line is shown by ps: pass it in HOLDFAST_WEBHOOK_SECRET, or "
            "on standard input with --secret -; giving it here is deprecated\n"
        )
    return given


Secret = Annotated[
    str | None,
    typer.Option(
        envvar="HOLDFAST_WEBHOOK_SECRET",
        callback=_secret,
        help="`whsec_…`; `-` reads it from standard input; else one is made.",
    ),
]
Why = Annotated[str, typer.Option("--reason", help="Why; it stands in the audit.")]


@webhooks.command()
def create(  # noqa: PLR0913 (one for each option)
    url: Annotated[str, typer.Argument(help="Where events go.")],
    event: Events = None,
    description: Annotated[str, typer.Option(help="Whose it is, and what for.")] = "",
    secret: Secret = None,
    in_order: Annotated[bool, typer.Option("--in-order", help="One after the other.")] = False,
    running: Annotated[int | None, typer.Option(min=1, help="So many at once; 10 unless given.")] = None,
    reason: Why = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Add an endpoint and show its secret, once."""
    new = NewEndpoint(url, event or (), description, secret, in_order, running)
    _made(lambda conn, known: known.create(conn, new, reason), by, as_json=as_json)


@webhooks.command()
def rotate(
    endpoint: EndpointId,
    secret: Secret = None,
    hours: Annotated[float, typer.Option(help="How long older keys sign beside it.")] = ROTATION_HOURS,
    reason: Why = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Sign with a new key, and show it, once."""
    _made(
        lambda conn, known: known.rotate(conn, endpoint, secret=secret, hours=hours, reason=reason),
        by,
        as_json=as_json,
    )


@webhooks.command()
def change(  # noqa: PLR0913 (one for each option)
    endpoint: EndpointId,
    url: Annotated[str | None, typer.Option(help="Where events go from now on.")] = None,
    event: Events = None,
    all_events: Annotated[bool, typer.Option("--all-events", help="All events from now on.")] = False,
    description: Annotated[str | None, typer.Option(help="Whose it is, and what for.")] = None,
    reason: Why = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Change an endpoint; what is not given stays."""
    events = [] if all_events else event

    async def work(caller: Caller) -> Endpoint:
        known = Endpoints(caller.settings, by=caller.by)
        changed = await known.change(
            caller.conn, endpoint, url=url, events=events, description=description, reason=reason
        )
        return changed.masked()

    found = on_database(work, by=by)
    if as_json:
        show_json(found)
    else:
        _say(found)


@webhooks.command("list")
def list_endpoints(as_json: AsJson = False) -> None:
    """List endpoints and how they fare."""

    async def work(caller: Caller) -> list[Endpoint]:
        return [one.masked() for one in await Endpoints(caller.settings, by=caller.by).page(caller.conn)]

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["endpoint", "state", "failures", "url", "events", "description"],
        [
            (one.id, one.state, one.failures, one.url, ", ".join(one.events) or "all", one.description)
            for one in found
        ],
        empty="there is no endpoint: `holdfast webhook create URL` adds one",
    )


@webhooks.command()
def show(
    endpoint: EndpointId,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="With its URL whole; that and --reason stand in the audit.")
    ] = False,
    reason: RevealReason = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Show an endpoint, with its URL as far as no token can stand in it."""
    require_reveal_reason(reason, reveal=reveal)

    async def work(caller: Caller) -> Endpoint:
        known = Endpoints(caller.settings, by=caller.by)
        if reveal:
            return await known.reveal(caller.conn, endpoint, reason)
        return (await known.show(caller.conn, endpoint)).masked()

    found = on_database(work, by=by)
    if as_json:
        show_json(found)
    else:
        _say(found)


@webhooks.command()
def disable(endpoint: EndpointId, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Deliver nothing more to an endpoint; what is due becomes a dead letter."""
    _turn(
        lambda conn, known: known.disable(conn, endpoint, reason), endpoint, "disabled", by, as_json=as_json
    )


@webhooks.command()
def enable(endpoint: EndpointId, reason: Because, by: By = "", as_json: AsJson = False) -> None:
    """Deliver to an endpoint again."""
    _turn(lambda conn, known: known.enable(conn, endpoint, reason), endpoint, "enabled", by, as_json=as_json)


@webhooks.command()
def remove(
    endpoint: EndpointId, reason: Because, yes: Yes = False, by: By = "", as_json: AsJson = False
) -> None:
    """Forget an endpoint and its keys."""
    sure(f"removing endpoint {endpoint}", yes=yes)
    _turn(lambda conn, known: known.remove(conn, endpoint, reason), endpoint, "removed", by, as_json=as_json)


@webhooks.command()
def log(
    endpoint: Annotated[str | None, typer.Argument(help="Only of this endpoint.")] = None,
    delivery: Annotated[str | None, typer.Option(help="Only of this delivery, by its task.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that were not taken.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the requests of an endpoint or of a delivery, the latest first."""
    if endpoint is None and delivery is None:
        raise typer.BadParameter("give an endpoint, or --delivery TASK")

    async def work(caller: Caller) -> list[Attempt]:
        known = DeliveryLog(caller.settings)
        return await known.page(caller.conn, endpoint=endpoint, task=delivery, failed=failed, limit=limit)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["at", "delivery", "attempt", "type", "event", "took", "answer", "url", "said"],
        [
            (
                one.at, one.task_id, one.attempt, one.type, one.event, f"{one.took_seconds * 1_000:.0f} ms",
                one.status or one.code, one.url, first_line(one.message or one.answer_head),
            )
            for one in found
        ],
        empty="nothing was sent",
    )  # fmt: skip


@webhooks.command()
def resend(  # noqa: PLR0913 (one for each option)
    reason: Because,
    delivery: Annotated[str | None, typer.Option(help="This delivery, by its task.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="Everything of this endpoint, with --hours.")] = None,
    hours: Hours = None,
    delivered: Annotated[bool, typer.Option("--delivered", help="What did reach it too.")] = False,
    app: AppPath = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Send again: one delivery, or what failed to reach an endpoint in the last hours."""
    if (delivery is None) == (endpoint is None) or (endpoint is None) != (hours is None):
        raise typer.BadParameter("give --delivery TASK, or --endpoint ENDPOINT with --hours")
    since = from_now(hours=-(hours or 0))

    async def work(caller: Caller) -> Resent | str:
        known = Resend(caller.settings, handlers_of(app) or {}, by=caller.by)
        if delivery is not None:
            return await known.one(caller.conn, delivery, reason)
        assert endpoint is not None
        return await known.since(caller.conn, endpoint, since, reason, delivered=delivered)

    found = on_database(work, by=by)
    if as_json:
        show_json({"task": found} if isinstance(found, str) else found)
    elif isinstance(found, str):
        say(f"task {found} sends it")
    else:
        plan = found.plan
        say("nothing had failed" if plan is None else f"plan {plan.id}: {plan.items}, {plan.shown_state}")
        say(f"{found.delivered} that were delivered are sent again")
        if found.not_kept:
            say(f"{found.not_kept} cannot be: their bodies were too large to be kept")


def _made(act: Callable[[Conn, Endpoints], Awaitable[Created]], by: str, *, as_json: bool) -> None:
    async def work(caller: Caller) -> Created:
        made = await act(caller.conn, Endpoints(caller.settings, by=caller.by))
        return replace(made, endpoint=made.endpoint.masked())

    made = on_database(work, by=by)
    if as_json:
        show_json(made)
        return
    _say(made.endpoint)
    say(f"secret       {made.secret}")
    say("The secret cannot be shown again.")


def _turn(
    act: Callable[[Conn, Endpoints], Awaitable[bool]], endpoint: str, what: str, by: str, *, as_json: bool
) -> None:
    async def work(caller: Caller) -> bool:
        return await act(caller.conn, Endpoints(caller.settings, by=caller.by))

    changed = on_database(work, by=by)
    if as_json:
        show_json({"endpoint": endpoint, what: True, "changed": changed})
    else:
        say(f"endpoint {endpoint} is {what}" if changed else f"endpoint {endpoint} was {what} already")


def _say(found: Endpoint) -> None:
    say(f"endpoint     {found.id}, {found.state}")
    say(f"url          {found.url}")
    say(f"events       {', '.join(found.events) or 'all'}")
    say(f"keys         {', '.join(found.keys)}")
    if found.description:
        say(f"description  {found.description}")
    if found.in_order:
        say("order        one at a time")
    if found.disabled_because is not None:
        say(f"disabled     {ago(found.disabled_at)}: {found.disabled_because}")
    if found.failing_since is not None:
        say(f"failing      since {ago(found.failing_since)}, {found.failures} in a row")
    if found.left_alone_until is not None:
        say(f"left alone   until {ago(found.left_alone_until)}")
