"""The map has every folder, links lead somewhere, examples run, files stay small, names are unique."""

import ast
import asyncio
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from holdfast.core import errors, events, operator_events
from holdfast.db.connect import Conn
from tests.faults import FAULTS
from tests.mutants import PACKAGE, seeded

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
MODULES = [path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py"]
LINES_MAX = 400
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def test_every_folder_is_on_the_map() -> None:
    the_map = (ROOT / "ARCHITECTURE.md").read_text()
    folders = {path.parent.relative_to(PACKAGE) for path in MODULES} - {Path()}
    assert not [str(folder) for folder in folders if f" {folder.name}/ " not in the_map]


def test_every_module_says_what_it_holds_and_is_short() -> None:
    wrong = []
    for module in MODULES:
        text = module.read_text()
        if not text.startswith('"""'):
            wrong.append(f"{module.name} does not begin with a docstring")
        if len(text.splitlines()) > LINES_MAX:
            wrong.append(f"{module.name} has more than {LINES_MAX} lines: split it by noun")
    assert not wrong, "\n".join(wrong)


def test_every_link_leads_somewhere() -> None:
    wrong = [
        f"{page.name} links to {link}"
        for page in PAGES
        for link in _LINK.findall(page.read_text())
        if not (page.parent / link).exists()
    ]
    assert not wrong, "\n".join(wrong)


def test_no_two_public_classes_share_a_name() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    wrong = [f"{name}: {', '.join(where)}" for name, where in found.items() if len(where) > 1]
    assert not wrong, "\n".join(wrong)


def test_the_exception_tree_is_drawn_in_full() -> None:
    drawn = errors.__doc__ or ""
    missing = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception) and name not in drawn
    ]
    assert not missing


def test_every_event_is_part_of_the_stream() -> None:
    told = {part.__name__ for part in events.Event.__args__}
    made = {
        name
        for module in (events, operator_events)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and name != "Listener"
    }
    assert made == told


def test_every_fault_can_still_be_seeded_and_is_claimed_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    wrong = [f"no test claims to catch {name}" for name in FAULTS if f'"{name}"' not in tests]
    for name, fault in FAULTS.items():
        try:
            path, text = seeded(fault)
        except LookupError as error:
            wrong.append(f"{name}: {error}")
            continue
        if text == path.read_text():
            wrong.append(f"{name} changes nothing")
    assert not wrong, "\n".join(wrong)


async def test_the_minimal_loop_runs_as_the_readme_shows(conn: Conn, direct_url: str) -> None:
    done = await asyncio.to_thread(_run_example, direct_url)
    assert done.returncode == 0, done.stderr
    printed = re.sub(r"fence \d+", "fence N", done.stdout)
    shown = re.sub(r"fence \d+", "fence N", (ROOT / "README.md").read_text())
    assert printed in shown


def _run_example(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "minimal_loop.py")],
        env={"HOLDFAST_DATABASE_URL": url, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
