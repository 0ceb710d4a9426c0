"""`holdfast token …`: creates, lists and revokes tokens of the HTTP API."""

from collections.abc import Sequence
from typing import Annotated

import typer

from holdfast.cli.output import AsJson, By, on_database, say, show_json, show_table
from holdfast.ops.caller import Caller
from holdfast.ops.tokens import NewToken, Role, TokenView, WorkerScope

COLUMNS = ("token", "name", "role", "queues", "kinds", "made", "by", "expires", "last used", "revoked")
tokens = typer.Typer(help="Tokens: who may use the HTTP API.", no_args_is_help=True)


@tokens.command()
def create(  # noqa: PLR0913 (one for each option)
    name: Annotated[str, typer.Argument(help="Whose it is; the name stands in the audit.")],
    role: Annotated[Role, typer.Option(help="What it may do.")],
    days: Annotated[float | None, typer.Option(min=0.001, help="How long; for ever unless given.")] = None,
    queue: Annotated[
        list[str] | None,
        typer.Option(help="For workers: claim from this queue only; may be given several times."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="For workers: claim tasks of this kind only; may be given several times."),
    ] = None,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Make a token and show it, once."""

    async def work(caller: Caller) -> NewToken:
        seconds = None if days is None else days * 86_400
        return await caller.tokens.create(
            caller.conn, name, role, seconds, WorkerScope(queue or None, kind or None)
        )

    made = on_database(work, by=by)
    if as_json:
        show_json(made)
        return
    say(made.token)
    say("It is not kept here and cannot be shown again.")


@tokens.command("list")
def list_tokens(as_json: AsJson = False) -> None:
    """List tokens, those that are good first."""

    async def work(caller: Caller) -> list[TokenView]:
        return await caller.tokens.list(caller.conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        COLUMNS,
        [
            (
                one.id, one.name, one.role, _names(one.queues), _names(one.kinds), one.created_at,
                one.created_by, one.expires_at, one.last_used_at, one.revoked_at,
            )
            for one in found
        ],
        empty="there is no token",
    )  # fmt: skip


def _names(names: Sequence[str] | None) -> str:
    return "any" if names is None else ", ".join(names)


@tokens.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, the part before the dot.")],
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """Take a token back; the next request with it is refused."""

    async def work(caller: Caller) -> None:
        await caller.tokens.revoke(caller.conn, token.removeprefix("hf_").partition(".")[0])

    on_database(work, by=by)
    if as_json:
        show_json({"token": token, "revoked": True})
    else:
        say(f"token {token} is revoked")
