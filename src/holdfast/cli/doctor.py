"""`holdfast doctor`: reports hidden problems of the installation and how to fix each."""

from typing import Annotated

import typer

from holdfast.cli.output import REFUSED, AsJson, By, on_database, say, show_json, show_table
from holdfast.ops.caller import Caller
from holdfast.ops.doctor import Doctor, Finding, Health
from holdfast.ops.repair import Repair


def doctor(
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Put tasks right whose row in ready, blocked or running is missing or wrong."
        ),
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, with --repair; it stands in the audit.")] = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Look at the server and the schema for what silently hurts; exit code 1 if something is bad.

    It only reads, unless it is told to repair.
    """
    if repair and not reason:
        raise typer.BadParameter("--repair changes tasks: give a reason", param_hint="--reason")
    if reason and not repair:
        raise typer.BadParameter(
            "a reason belongs to --repair: without it nothing is changed", param_hint="--reason"
        )

    async def work(caller: Caller) -> tuple[list[str], list[Finding]]:
        repaired = await Repair(caller.settings, by=caller.by).run(caller.conn, reason) if repair else []
        return repaired, await Doctor(caller.settings).examine(caller.conn)

    repaired, findings = on_database(work, by=by, migrated=repair)
    if as_json:
        show_json({"repaired": repaired, "findings": findings} if repair else findings)
    else:
        if repair:
            tasks = "1 task was repaired" if len(repaired) == 1 else f"{len(repaired)} tasks were repaired"
            say(tasks + (f": {', '.join(repaired)}" if repaired else ""))
        show_table(
            ["", "", "found", "what to do"],
            [(one.health, one.name, one.found, one.advice) for one in findings],
            empty="nothing was looked at",
        )
    if any(one.health is Health.BAD for one in findings):
        raise typer.Exit(REFUSED)
