"""Loads named statements from the `.sql` files of the package.

A statement begins with `-- name: NAME`. Text that several statements share begins with `-- shared: NAME` and
replaces `{NAME}`: in its own file, or, if it stands in `store/shared.sql`, in all files.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import LiteralString

PACKAGE = "holdfast"
SHARED = "store/shared.sql"
_PART = re.compile(r"^-- (name|shared): (\w+)\n", re.MULTILINE)
# After a comma that is followed by whole literals only, and so does not stand in one.
_BLANK = re.compile(r", (?=[^']*(?:'[^']*'[^']*)*$)")
_SCHEMA = re.compile(r"\bholdfast(?=\.)|(?<=\bschema )holdfast\b|(?<=')holdfast(?='::regnamespace)")


@cache
def load(file: str, schema: str = "holdfast") -> Mapping[str, LiteralString]:
    """The statements of a file of the package by name, written for one schema: `load("store/claim.sql")`."""
    return parse(_read(file), schema)


def load_all(paths: Sequence[str], schema: str) -> Mapping[str, LiteralString]:
    """The statements of several files."""
    return {name: text for path in paths for name, text in load(path, schema).items()}


def parse(text: str, schema: str) -> Mapping[str, LiteralString]:
    """The statements of a text by name, written for one schema."""
    own = _parts(text)
    # Shared text of a file may contain that of all files.
    shared = {**own["shared"], **_parts(_read(SHARED))["shared"]}
    statements = {}
    for name, body in own["name"].items():
        for piece, replacement in shared.items():
            body = body.replace(f"{{{piece}}}", replacement.strip())
        statements[name] = in_schema(_as_sent(name, body), schema)
    return statements


def _read(file: str) -> str:
    return (files(PACKAGE) / file).read_text(encoding="utf-8")


def _parts(text: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {"name": {}, "shared": {}}
    parts = _PART.split(text)[1:]
    for part, name, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        assert name not in found[part], f"{name} is given twice"
        found[part][name] = body
    return found


def _as_sent(name: str, body: str) -> str:
    """Without comments, indentation and blanks after commas: the driver carries each call's text along.

    And what is longer than 4,096 characters it parses anew with every call.
    Functions keep theirs: whoever looks at the database may want to read them.
    """
    if name.startswith("install_"):
        return body.strip()
    lines = [_BLANK.sub(",", line.strip()) for line in body.splitlines()]
    return "\n".join(line for line in lines if line and not line.startswith("--"))


def in_schema(text: str, schema: str) -> LiteralString:
    """The text with every mention of the schema `holdfast` put into the given one."""
    # Our own files and a schema name checked by Settings: nothing here comes from outside.
    return _SCHEMA.sub(schema, text)  # type: ignore[return-value, unused-ignore]
