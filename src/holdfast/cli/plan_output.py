"""Renders plans and their previews."""

from holdfast.cli.output import ago, first_line, say, show_json, show_table
from holdfast.ops.plan_view import PlanView, Preview


def tell_plan(view: PlanView, *, as_json: bool) -> None:
    """A plan in a few lines, or as a document."""
    if as_json:
        show_json({"plan": view, "state": view.shown_state})
        return
    say(f"plan     {view.id} ({view.action}), {view.shown_state}")
    say(f"made     {ago(view.created_at)} by {view.created_by}: {view.reason}")
    say(f"items    {view.items}, frozen as {view.set_hash[:12]}")
    for why, count in view.excluded.items():
        say(f"left out {count}: {why}")
    if view.money_effect is not None:
        say(f"money    {view.money_effect}")
    first = f"{view.canary} first, then " if view.canary else ""
    speed = "all at once" if view.rate is None else f"{view.rate:g} a second"
    say(f"how      {first}{speed}; stops once more than {view.stop_ratio:.0%} fail")
    if view.approved_by is not None:
        say(f"approved {ago(view.approved_at)} by {view.approved_by}")
    if view.started_at is None:
        say(f"expires  {ago(view.expires_at)}")
        return
    say(f"started  {ago(view.started_at)} by {view.started_by}")
    say(f"sent     {view.sent} of {view.items}, {view.skipped} skipped")
    say(
        f"ended    {view.succeeded} succeeded, {view.failed_same} failed the same, {view.failed_anew} failed "
        f"anew, {view.cancelled} cancelled, {view.gone} gone; {max(0, view.sent - view.ended)} at work"
    )
    if view.ended_why is not None:
        say(f"{view.state:8} {ago(view.ended_at)}: {view.ended_why}")


def tell_preview(found: Preview, *, as_json: bool) -> None:
    """What a plan would do, for people or as a document."""
    if as_json:
        show_json(found)
        return
    say(f"{found.tasks} tasks would be redriven" + (", by two people" if found.needs_approval else ""))
    for why, count in found.excluded.items():
        say(f"left out {count}: {why}")
    if found.money_effect is not None:
        say(f"money    {found.money_effect}")
    if found.unguarded:
        kinds = ", ".join(found.unguarded)
        say(f"guards of {kinds} are asked when it runs: name the app with --app to ask now")
    show_table(
        ["tasks", "kind", "because", "code", "group", "first", "last"],
        [
            (one.tasks, one.kind, one.dead_reason, one.error_code, one.fingerprint, one.first_at, one.last_at)
            for one in found.sorts
        ],
        empty="no dead letter is like that",
    )
    if found.sample:
        rows = [(one.id, one.kind, one.died_at, first_line(one.error)) for one in found.sample]
        show_table(["for example", "kind", "died", "error"], rows, empty="")
