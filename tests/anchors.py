"""Finds the part of the package that a seeded fault names, wherever it stands.

A word is a statement of a `.sql` file (`complete`, or `schedules.sql:pause` where two files have one of
this name), or a whole `.sql` file (`grants.sql`). A dotted name is Python: a module, a class, a function or a
method, by the last parts of its path (`decide._lost`, `Supervisor._start`).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_STATEMENT = re.compile(r"^-- (?:name|shared): (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of one file, in characters."""

    path: Path
    begin: int
    end: int

    def text(self) -> str:
        return self.path.read_text()[self.begin : self.end]


def find(name: str, package: Path) -> Part:
    """The one part of this name."""
    found = _parts(package).get(name, [])
    if len(found) != 1:
        places = ", ".join(str(part.path.relative_to(package)) for part in found)
        raise LookupError(f"{name!r} names {f'parts of {places}' if places else 'nothing'}: name one")
    return found[0]


@cache
def _parts(package: Path) -> dict[str, list[Part]]:
    parts: defaultdict[str, list[Part]] = defaultdict(list)
    for path in sorted(package.rglob("*.sql")):
        for name, part in _statements(path):
            parts[name].append(part)
    for path in sorted(package.rglob("*.py")):
        for names, part in _definitions(path, package):
            for length in range(2, len(names) + 1):
                parts[".".join(names[-length:])].append(part)
    return parts


def _statements(path: Path) -> Iterator[tuple[str, Part]]:
    text = path.read_text()
    found = list(_STATEMENT.finditer(text))
    ends = [*(one.start() for one in found[1:]), len(text)][: len(found)]
    yield path.name, Part(path, 0, len(text))
    for one, end in zip(found, ends, strict=True):
        part = Part(path, one.start(), end)
        yield one[1], part
        yield f"{path.name}:{one[1]}", part


def _definitions(path: Path, package: Path) -> Iterator[tuple[tuple[str, ...], Part]]:
    text = path.read_text()
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    module = (package.name, *path.relative_to(package).with_suffix("").parts)
    yield module, Part(path, 0, len(text))
    yield from _within(ast.parse(text), module, path, lines)


def _within(
    node: ast.AST, names: tuple[str, ...], path: Path, lines: list[int]
) -> Iterator[tuple[tuple[str, ...], Part]]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
        assert child.end_lineno is not None, "it was parsed"
        yield (*names, child.name), Part(path, lines[first - 1], lines[child.end_lineno])
        if isinstance(child, ast.ClassDef):
            yield from _within(child, (*names, child.name), path, lines)
