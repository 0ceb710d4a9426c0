"""`holdfast migrate`: upgrades, downgrades, plans or prints grants for the schema."""

import sys
from typing import Annotated

import typer

from holdfast.cli.output import AsJson, on_database, say, show_json
from holdfast.config import Settings
from holdfast.core.errors import Misused
from holdfast.db.connect import where
from holdfast.db.migrate import (
    Migration,
    above,
    grants,
    migrate_down,
    migrate_up,
    payload_limit,
    pending,
    prune_minimum,
    require_no_tasks,
)
from holdfast.ops.caller import Caller

PAYLOADS = "payload limit: {1}, was {0} (HOLDFAST_PAYLOAD_BYTES_MAX)"
PRUNES = "minimum age of a prune of the audit: {1}, was {0} (HOLDFAST_AUDIT_PRUNE_DAYS_MIN)"


def migrate(
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be applied; apply nothing.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Go back instead, to --to.")] = False,
    to: Annotated[
        int | None, typer.Option(min=0, help="With --down: the number to go back to; 0 is before the first.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --down: although tasks are there.")] = False,
    show_grants: Annotated[
        bool, typer.Option("--grants", help="Print least-privilege roles as SQL, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring the schema to what this version needs."""
    if show_grants:
        # In one transaction, so that nobody who works meanwhile is without rights for a moment.
        sys.stdout.write(f"begin;\n{grants(Settings().schema_name)}\ncommit;\n")
        return

    if to is not None and not down:
        raise Misused(
            "--to is where --down goes back to; without it the schema comes to what this version needs"
        )

    # What the functions in the database had before, and have now.
    installed_settings: list[tuple[str, str, int | None, int]] = []

    async def work(caller: Caller) -> list[Migration]:
        schema = caller.settings.schema_name
        if plan:
            return await (above(caller.conn, schema, to or 0) if down else pending(caller.conn, schema))
        if not down:
            installed = await payload_limit(caller.conn, schema)
            installed_settings.append((PAYLOADS, "byte", installed, caller.settings.payload_bytes_max))
            installed = await prune_minimum(caller.conn, schema)
            installed_settings.append((PRUNES, "day", installed, caller.settings.audit_prune_days_min))
            return await migrate_up(
                caller.conn,
                schema,
                payload_bytes_max=caller.settings.payload_bytes_max,
                audit_prune_days_min=caller.settings.audit_prune_days_min,
            )
        if not yes:
            await require_no_tasks(caller.conn, schema)
        return await migrate_down(caller.conn, schema, to or 0)

    done = on_database(work, migrated=False)
    verb = ("to take back" if down else "to apply") if plan else "taken back" if down else "applied"
    named = where(Settings().database_url)
    if as_json:
        numbers = [f"{one.number:04} {one.name}" for one in done]
        show_json({"verb": verb, "migrations": numbers, "database": named})
        return
    for one in done:
        say(f"{verb}: {one.number:04} {one.name}")
    _say_changes(installed_settings)
    found = f"nothing above {to or 0:04} is applied" if down else "the schema is as it should be"
    say(f"in {named}" if done else f"nothing {verb if plan else 'to do'} in {named}: {found}")


def _say_changes(installed_settings: list[tuple[str, str, int | None, int]]) -> None:
    for text, unit, before, after in installed_settings:
        if before is not None and before != after:
            say(text.format(_counted(before, unit), _counted(after, unit)))


def _counted(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
