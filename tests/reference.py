"""The reference pages that are made from the code; `HOLDFAST_WRITE_DOCS=1 pytest tests/test_docs.py` writes them."""

import ast
import inspect
from pathlib import Path

import typer

import holdfast
from holdfast.cli.main import program
from holdfast.config import Settings
from holdfast.core import errors, events
from holdfast.core.failure import RULES, ErrorCode
from holdfast.db.privileges import expected
from holdfast.http import permissions as access
from holdfast.observe.log_lines import EVENT_NAMES

PACKAGE = Path(holdfast.__file__).parent
HEAD = "<!-- Made from the code by tests/reference.py. -->\n\n"


def command_line() -> str:
    """Every command with its arguments and options."""
    lines = [
        HEAD + "# Command line\n",
        "`holdfast COMMAND`, or `python -m holdfast COMMAND`. The database is the one of the [settings](settings.md); `--json` makes",
        "one JSON document of what a command shows. Completion for your shell: `holdfast --install-completion`.\n",
        "| exit code | meaning |\n| --- | --- |",
        "| 0 | done |\n| 1 | refused, or something is wrong; a worker that was told twice to leave |",
        "| 2 | wrong use, or the database or the app is not there |\n| 130 | interrupted |\n",
    ]
    root = typer.main.get_command(program)
    lines += _commands(root, "holdfast")
    return "\n".join(lines) + "\n"


def _commands(command: object, path: str) -> list[str]:
    found: list[str] = []
    nested = getattr(command, "commands", None)
    if nested:
        for name in sorted(nested):
            found += _commands(nested[name], f"{path} {name}")
        return found
    found.append(f"## {path}\n\n{inspect.cleandoc(command.help or '')}\n")  # type: ignore[attr-defined]
    found.append("| | | default |\n| --- | --- | --- |")
    for parameter in command.params:  # type: ignore[attr-defined]
        if parameter.name == "help":
            continue
        names = ", ".join(f"`{one}`" for one in parameter.opts)
        if not parameter.opts[0].startswith("-"):
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        variables = parameter.envvar if isinstance(parameter.envvar, list) else [parameter.envvar]
        shown = "".join(f", `{variable}`" for variable in variables if variable)
        default = (
            ""
            if parameter.default in (None, "") or parameter.default is False or callable(parameter.default)
            else parameter.default
        )
        if not isinstance(default, (str, int, float)):
            default = ""
        found.append(f"| {names}{shown} | {getattr(parameter, 'help', '') or ''} | {default} |")
    found.append("")
    return found


def settings_table() -> str:
    """Every setting of `Settings`."""
    lines = ["| variable | default | meaning |", "| --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        alias = field.validation_alias
        names = getattr(alias, "choices", [alias]) if alias is not None else [f"HOLDFAST_{name.upper()}"]
        shown = ", else ".join(f"`{one}`" for one in names)
        lines.append(f"| {shown} | {field.default!r} | {field.description or ''} |")
    return "\n".join(lines)


def error_page() -> str:
    """Every exception, class and code."""
    lines = [
        HEAD + "# Errors\n",
        "What Holdfast raises, all under `HoldfastError`:\n",
        "| exception | when |",
        "| --- | --- |",
    ]
    for name, value in sorted(vars(errors).items()):
        if isinstance(value, type) and issubclass(value, Exception):
            lines.append(f"| `{name}` | {inspect.getdoc(value)} |")
    lines += [
        "\nWhat the functions in the database raise, for whoever calls them from SQL:\n",
        "| SQLSTATE | in Python | when |",
        "| --- | --- | --- |",
    ]
    for code, (exception, when) in errors.SQLSTATES.items():
        lines.append(f"| `{code}` | `{exception.__name__}` | {when} |")
    lines += [
        "| `40001` | the driver's own | The snapshot of a repeatable read or serializable transaction is too old: run the transaction again. |",
        "\nHow a failed attempt is classed:\n",
        "| class | retried | spends | code | dead reason |",
        "| --- | --- | --- | --- | --- |",
    ]
    for failure_class, rule in RULES.items():
        retried = "yes" if rule.retried else "no"
        lines.append(
            f"| `{failure_class}` | {retried} | {rule.spends} | `{rule.code}` | {rule.dead_reason or '–'} |"
        )
    lines += [
        "\nThe codes: "
        + ", ".join(f"`{code}`" for code in ErrorCode)
        + '. A handler may use codes of its own: `Fail("CARD_DECLINED", …)`.'
    ]
    return "\n".join(lines) + "\n"


def event_page() -> str:
    """Every log line."""
    lines = [
        HEAD + "# Events\n",
        "A worker writes one JSON object a line; `event` is one of:\n",
        "| event | what happened |",
        "| --- | --- |",
    ]
    for event, names in EVENT_NAMES.items():
        told = inspect.getdoc(event) or ""
        lines.append(f"| {', '.join(f'`{name}`' for name in names)} | {told.splitlines()[0]} |")
    lines.append(
        "\n`log.dropped` says how many lines were lost because nobody read them; a file never loses any."
    )
    silent = {events.TasksEnqueued, events.CountsReported, events.StatementDelayed}
    assert set(EVENT_NAMES) == set(events.Event.__args__) - silent
    return "\n".join(lines) + "\n"


def permissions_page() -> str:
    """Every route, function and table, and who may use it."""
    lines = [
        HEAD + "# Permissions\n",
        "Tests try every line of these tables, and everything that is not in them "
        "([database roles](../how-to/roles.md), [threat model](../explanation/threat-model.md)).\n",
        "## HTTP\n",
        "The least role that may use a route. An operator may do what a viewer may, and an admin what an operator may;",
        "a token of workers may use the routes of workers and no others.\n",
        "| route | role |",
        "| --- | --- |",
    ]
    for route, role in sorted(access.ROUTES.items()):
        others = ", worker" if route in access.WORKERS_TOO else ""
        lines.append(f"| `{route[0]} {route[1]}` | {role}{others} |")
    lines += [
        f"| `{method} {path}` | nobody has to log in |" for method, path in sorted(access.OPEN | access.PAGES)
    ]
    lines += [
        "\n## Database\n",
        "What `holdfast migrate --grants` grants, and nothing else. Every role may use the schema.\n",
        "| | holdfast_enqueuer | holdfast_worker | holdfast_api | holdfast_operator |",
        "| --- | --- | --- | --- | --- |",
    ]
    granted: dict[tuple[str, str], dict[str, str]] = {}
    for one in sorted(expected()):
        granted.setdefault((one.object_type, one.object), {})[one.role] = one.privileges
    for (object_type, name), roles in granted.items():
        cells = [roles.get(f"holdfast_{role}", "–") for role in ("enqueuer", "worker", "api", "operator")]
        lines.append(f"| {object_type} `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def modules_page() -> str:
    """Every module and what it holds, by its first sentence."""
    lines = [
        HEAD + "# Modules\n",
        "What each module of `src/holdfast` holds. ARCHITECTURE.md says how they work together.\n",
    ]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        name = folder.relative_to(PACKAGE.parent).as_posix()
        lines += [
            f"## {name}\n",
            first_sentences(folder / "__init__.py") + "\n",
            "| module | holds |",
            "| --- | --- |",
        ]
        lines += [
            f"| `{path.name}` | {first_sentences(path)} |"
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
        lines.append("")
    return "\n".join(lines)


def first_sentences(path: Path) -> str:
    """The first paragraph of a module's docstring, in one line."""
    written = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(written.partition("\n\n")[0].split()).replace("|", "\\|")


PAGES = {
    "command-line.md": command_line,
    "errors.md": error_page,
    "events.md": event_page,
    "modules.md": modules_page,
    "permissions.md": permissions_page,
}
