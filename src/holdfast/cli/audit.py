"""`holdfast audit …`: list, export, verify and prune the audit."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import Because, DryRun, Yes, entries, from_now, sure, which
from holdfast.cli.output import (
    AsJson,
    By,
    on_database,
    printable,
    refuse,
    say,
    show_json,
    show_table,
)
from holdfast.core.audit import PRUNE_BATCH, Entry, EntryFilter
from holdfast.ops.audit import FORMATS, AuditReader, Verified
from holdfast.ops.caller import Caller

audit = typer.Typer(help="The audit: who did what, and why.", no_args_is_help=True)


@audit.command("list")
@which(entries)
def list_entries(
    only: EntryFilter,
    page: Annotated[int, typer.Option(min=1, help="Which page.")] = 1,
    page_size: Annotated[int, typer.Option(min=1, max=1_000, help="Entries on a page.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List entries, the newest first."""

    async def work(caller: Caller) -> tuple[list[Entry], int]:
        reader, offset = AuditReader(caller.settings), (page - 1) * page_size
        found = await reader.page(caller.conn, only, limit=page_size, offset=offset)
        return found, 0 if as_json else (await reader.count(caller.conn, only))[0]

    found, total = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["when", "what", "who", "proven as", "why", "task", "plan", "details"],
        [
            (
                one.at,
                one.action,
                one.actor,
                one.proven,
                one.reason,
                one.task_id,
                one.batch_id,
                one.details and dict(one.details),
            )
            for one in found
        ],
        empty="no entry is like that" if total == 0 else "there is no such page",
    )
    if total > len(found):
        say(f"page {page} of {-(-total // page_size)}, {total} entries")


@audit.command()
@which(entries)
def export(
    only: EntryFilter,
    how: Annotated[str, typer.Option("--format", help=f"One of {', '.join(FORMATS)}.")] = "jsonl",
    to: Annotated[Path | None, typer.Option(help="A file; standard output unless given.")] = None,
) -> None:
    """Write every entry as JSON, JSON Lines or CSV.

    In CSV, cells that a spreadsheet would run begin with an apostrophe.
    """

    async def work(caller: Caller) -> None:
        out = sys.stdout if to is None else to.open("w", newline="")
        try:
            async for piece in AuditReader(caller.settings).export(caller.conn, only, how):
                out.write(printable(piece.replace("\r\n", "\n")) if out.isatty() else piece)
        finally:
            if to is not None:
                out.close()

    on_database(work)


@audit.command()
@which(entries)
def prune(  # noqa: PLR0913 (one for each option)
    only: EntryFilter,
    older_than_days: Annotated[float, typer.Option(min=0, help="Only what is older.")],
    reason: Because,
    by: By = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let the content of old entries go; their hashes stay, so that the rest can still be proven."""
    before = from_now(days=-older_than_days)

    async def count(caller: Caller) -> int:
        return await caller.audit.prunable(caller.conn, before, only)

    async def work(caller: Caller) -> int:
        writer, pruned = caller.audit, 0
        # What is not sealed yet cannot be pruned.
        await writer.seal(caller.conn)
        while (some := await writer.prune(caller.conn, caller.author(reason), before, only)) > 0:
            pruned += some
            if some < PRUNE_BATCH:
                break
        return pruned

    if dry_run:
        found = on_database(count)
        show_json({"prunable": found}) if as_json else say(f"{found} entries would be pruned")
        return
    sure("pruning the audit", yes=yes)
    pruned = on_database(work, by=by)
    show_json({"pruned": pruned}) if as_json else say(f"{pruned} entries were pruned; their hashes are kept")


@audit.command()
def verify(
    head: Annotated[
        str | None, typer.Option(help="A head that was noted earlier, NUMBER:HASH, to be found again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that no entry was changed, removed or moved since it was sealed."""
    noted: tuple[int, str] | None = None
    if head is not None:
        number, _, hash_ = head.partition(":")
        if not number.isdigit() or not hash_:
            raise typer.BadParameter(
                "write NUMBER:HASH, as an earlier verify printed it", param_hint="--head"
            )
        noted = int(number), hash_

    async def work(caller: Caller) -> Verified:
        return await AuditReader(caller.settings).prove(caller.conn, caller.audit, noted)

    found = on_database(work)
    if as_json:
        show_json(found)
    else:
        for line in found.wrong:
            say(line)
        say(
            f"{found.entries} entries and the hashes of {found.pruned} pruned ones, "
            f"{found.unsealed} chunks not sealed yet"
        )
        say(f"head     {found.head_number}:{found.head_hash}")
    if found.wrong:
        refuse("the audit is not what was sealed")
    if not as_json:
        say("nothing was changed")
