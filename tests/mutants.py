"""Seeds each fault in a copy of the package, runs the tests that claim to catch it, prints the table.

Run as `make mutants`, or `python -m tests.mutants NAME …` for some of them.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.anchors import find
from tests.cluster import postgres
from tests.fault import Fault
from tests.faults import FAULTS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "holdfast"
TESTS = ROOT / "tests"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the tests said of one fault."""

    name: str
    caught_by: str | None
    said: str


def seed(fault: Fault, package: Path) -> None:
    """Put the fault into a copy of the package."""
    path, text = seeded(fault)
    (package / path.relative_to(PACKAGE)).write_text(text)


def seeded(fault: Fault) -> tuple[Path, str]:
    """The file of the package that the fault is in, and its text with the fault."""
    part = find(fault.part, PACKAGE)
    text = part.path.read_text()
    pieces = text[part.begin : part.end].split(fault.old)
    nth = fault.occurrence + 1
    if len(pieces) <= nth:
        raise LookupError(f"{fault.part} no longer contains {fault.old!r}")
    changed = fault.old.join(pieces[:nth]) + fault.new + fault.old.join(pieces[nth:])
    return part.path, text[: part.begin] + changed + text[part.end :]


def judge(name: str) -> Answer:
    """Run what claims to catch one fault."""
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as folder:
        package = Path(folder) / "holdfast"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        seed(FAULTS[name], package)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "--fault", name, "-p", "no:randomly",
                   "-p", "no:cacheprovider", "--timeout", "60", *_files(name)]  # fmt: skip
        environment = os.environ | {
            "PYTHONPATH": folder,
            "HYPOTHESIS_STORAGE_DIRECTORY": folder,
            "HOLDFAST_MUTANT": name,
        }
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = _FAILED.search(done.stdout)
    caught = found.group(1) if done.returncode == 1 and found else None
    return Answer(name, caught, done.stdout[-2_000:] + done.stderr[-500:])


def _files(name: str) -> list[str]:
    """The test files that name the fault: collecting all others takes longer than most of these tests."""
    naming = re.compile(rf"""["']{name}["']""")
    found = sorted(path for path in TESTS.rglob("test_*.py") if naming.search(path.read_text()))
    return [str(path) for path in found] or [str(TESTS)]


def main() -> int:
    """Print a line per fault; fail if one was not caught."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    names = chosen.names or list(FAULTS)
    if unknown := sorted(set(names) - set(FAULTS)):
        parser.error(f"there is no fault called {', '.join(unknown)}")
    missed: list[Answer] = []
    with postgres(15) as url, ThreadPoolExecutor(chosen.jobs) as pool:
        os.environ["HOLDFAST_TEST_URL"] = url
        for answer in pool.map(judge, names):
            sys.stdout.write(f"{answer.name:36} {answer.caught_by or 'NOT CAUGHT'}\n")
            sys.stdout.flush()
            if answer.caught_by is None:
                missed.append(answer)
    for answer in missed:
        sys.stdout.write(f"\n{answer.name}:\n{answer.said}\n")
    sys.stdout.write(f"\n{len(names) - len(missed)} of {len(names)} faults caught\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
