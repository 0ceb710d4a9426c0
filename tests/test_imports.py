"""Neither the modules of the package nor the sources of the console import each other in a cycle."""

import ast
import re
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.mutants import PACKAGE

CONSOLE = PACKAGE.parent.parent / "console" / "src"
# `import … from "./x"`, `export … from "./x"`, `import "./x"` and `import("./x")`.
_RELATIVE = re.compile(r"""(?:\bfrom|\bimport)\s*\(?\s*["'](\.[^"']*)["']""")


def package_imports() -> dict[str, set[str]]:
    """Modules and what they import when they are loaded, or for their types alone."""
    modules = {_module(path): path for path in PACKAGE.rglob("*.py")}
    return {
        name: {one for one in _imported(ast.parse(path.read_text()), set(modules)) if one != name}
        for name, path in modules.items()
    }


def _module(path: Path) -> str:
    names = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def _imported(node: ast.AST, modules: set[str]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                continue
            case ast.Import():
                yield from {one.name for one in child.names} & modules
            case ast.ImportFrom(module=str(module), level=0):
                members = {f"{module}.{one.name}" for one in child.names}
                yield from members & modules
                # A name that is no module is in the package's own `__init__.py`.
                if members - modules and module in modules:
                    yield module
            case ast.ImportFrom():
                pytest.fail(f"line {child.lineno}: import by the full name")
            case _:
                yield from _imported(child, modules)


def console_imports() -> dict[str, set[str]]:
    """Sources of the console and what they import; types and pages that are loaded later as well."""
    sources = {path for end in ("ts", "tsx") for path in CONSOLE.rglob(f"*.{end}")}
    return {
        _source(path): {
            _source(target)
            for named in _RELATIVE.findall(path.read_text())
            if (target := _target(path, named, sources)) is not None
        }
        for path in sources
    }


def _source(path: Path) -> str:
    return str(path.relative_to(CONSOLE))


def _target(path: Path, named: str, sources: set[Path]) -> Path | None:
    """The source that a relative import names; none for a style sheet or a picture."""
    base = (path.parent / named).resolve()
    ends = ("", ".ts", ".tsx", ".d.ts", "/index.ts", "/index.tsx")
    found = [target for end in ends if (target := Path(f"{base}{end}")) in sources]
    assert found or base.suffix in {".css", ".svg"}, f"{path} imports {named}, which is no source"
    return found[0] if found else None


def cycles(imports: dict[str, set[str]]) -> list[str]:
    """One line for each cycle: `a → b → a`."""
    left = {name: sorted(imports[name]) for name in sorted(imports)}
    found = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = error.args[1][::-1]
            found.append(" → ".join(cycle))
            # Without one of its imports, the search goes on to the next cycle.
            left[cycle[-2]].remove(cycle[-1])
        else:
            return found


@pytest.mark.parametrize("imports", [package_imports, console_imports])
def test_no_imports_form_a_cycle(imports: Callable[[], dict[str, set[str]]]) -> None:
    found = cycles(imports())
    assert not found, "\n".join(found)


def test_a_cycle_is_shown_whole() -> None:
    assert cycles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}) == ["a → b → c → a"]
