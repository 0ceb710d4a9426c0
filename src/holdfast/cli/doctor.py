"""`holdfast doctor`: what silently hurts, and what to do about it."""

import typer

from holdfast.cli.screen import REFUSED, AsJson, on_database, show_json, show_table
from holdfast.config import Settings
from holdfast.store.doctor import Doctor, Finding, Health
from holdfast.store.pool import Conn


def doctor(as_json: AsJson = False) -> None:
    """Look at the server and the schema for what silently hurts; exit code 1 if something is bad."""

    async def work(conn: Conn, settings: Settings) -> list[Finding]:
        return await Doctor(settings).examine(conn)

    findings = on_database(work, migrated=False)
    if as_json:
        show_json(findings)
    else:
        show_table(
            ["", "", "found", "what to do"],
            [(one.health, one.name, one.found, one.advice) for one in findings],
            empty="nothing was looked at",
        )
    if any(one.health is Health.BAD for one in findings):
        raise typer.Exit(REFUSED)
