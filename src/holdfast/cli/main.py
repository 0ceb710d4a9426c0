"""The root command; each subcommand is a module beside this one."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from pydantic import ValidationError

from holdfast.cli.api import api
from holdfast.cli.audit import audit
from holdfast.cli.dead import dead
from holdfast.cli.doctor import doctor
from holdfast.cli.groups import groups
from holdfast.cli.init import init
from holdfast.cli.kinds import kinds
from holdfast.cli.limits import limits
from holdfast.cli.migrate import migrate
from holdfast.cli.output import REFUSED, say_error
from holdfast.cli.queues import queues
from holdfast.cli.redrive import redrive
from holdfast.cli.schedules import schedules
from holdfast.cli.status import status
from holdfast.cli.tasks import tasks
from holdfast.cli.tokens import tokens
from holdfast.cli.webhooks import webhooks
from holdfast.cli.worker import worker
from holdfast.core.errors import (
    HoldfastError,
    MoveRefused,
    PlanRefused,
    PruneTooRecent,
    TaskContended,
    TaskStranded,
    TokenNameTaken,
)

# The command is right, and the state of things does not allow it.
REFUSALS = (MoveRefused, PlanRefused, PruneTooRecent, TaskContended, TaskStranded, TokenNameTaken)

program = typer.Typer(
    name="holdfast",
    help="Background work that is kept, fenced and operable, in your own PostgreSQL.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _tell_version(asked: bool) -> None:  # noqa: FBT001 (as typer calls it)
    if asked:
        typer.echo(f"holdfast {version('holdfast')}")
        raise typer.Exit


@program.callback()
def _commands(
    _: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which this is.")
    ] = False,
) -> None:
    """Background work that is kept, fenced and operable, in your own PostgreSQL."""


for command in (init, migrate, worker, api, status, doctor):
    program.command()(command)
program.add_typer(tasks, name="task")
program.add_typer(dead, name="dead")
program.add_typer(groups, name="group")
program.add_typer(redrive, name="redrive")
program.add_typer(audit, name="audit")
program.add_typer(queues, name="queue")
program.add_typer(kinds, name="kind")
program.add_typer(limits, name="limit")
program.add_typer(schedules, name="schedule")
program.add_typer(tokens, name="token")
program.add_typer(webhooks, name="webhook")


def main() -> None:
    """Run a command; an error of ours is one line, and anything else is a traceback."""
    try:
        program()
    except HoldfastError as error:
        say_error(str(error))
        sys.exit(REFUSED if isinstance(error, REFUSALS) else 2)
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        name = "_".join(str(part) for part in wrong["loc"]).upper()
        variable = name if name.startswith("HOLDFAST") else f"HOLDFAST_{name}"
        say_error(f"the setting {variable} is wrong: {wrong['msg']}")
        sys.exit(2)
