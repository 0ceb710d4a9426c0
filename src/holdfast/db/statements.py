"""Loads named statements from the `.sql` files of the package.

What several statements have in common stands once, in `pieces.sql`, and is put in where they say `{name}`.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import LiteralString

PACKAGE = "holdfast"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_PIECE = re.compile(r"^-- piece: (\w+)\n", re.MULTILINE)
# After a comma that is followed by whole literals only, and so does not stand in one.
_BLANK = re.compile(r", (?=[^']*(?:'[^']*'[^']*)*$)")
_SCHEMA = re.compile(r"\bholdfast(?=\.)|(?<=\bschema )holdfast\b")


@cache
def load(file: str, schema: str = "holdfast") -> Mapping[str, LiteralString]:
    """The statements of a file of the package by name, written for one schema: `load("store/tasks.sql")`."""
    return parse(_read(file), schema)


def parse(text: str, schema: str) -> Mapping[str, LiteralString]:
    """The statements of a text by name, written for one schema."""
    for name, piece in _named(_PIECE, _read("store/pieces.sql")).items():
        text = text.replace(f"{{{name}}}", piece.strip())
    named = _named(_NAME, text)
    return {name: in_schema(_as_sent(name, body), schema) for name, body in named.items()}


def _read(file: str) -> str:
    return (files(PACKAGE) / file).read_text(encoding="utf-8")


def _named(mark: re.Pattern[str], text: str) -> dict[str, str]:
    parts = mark.split(text)[1:]
    named = dict(zip(parts[::2], parts[1::2], strict=True))
    assert len(named) == len(parts) // 2, "a name is given twice"
    return named


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
    """The text with every `holdfast.x` and `schema holdfast` put into the given schema."""
    # Our own files and a schema name checked by Settings: nothing here comes from outside.
    return _SCHEMA.sub(schema, text)  # type: ignore[return-value, unused-ignore]
