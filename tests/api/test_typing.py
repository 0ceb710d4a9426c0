"""Type checkers see a wrong payload, option or attribute, and have nothing to say of right ones."""

import asyncio
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "typing_cases.py"
WRONG = {n for n, line in enumerate(CASES.read_text().splitlines(), 1) if line.endswith("# wrong")}


def flagged_by_mypy() -> set[int]:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(CASES)],
        capture_output=True, text=True, check=False, cwd=CASES.parent.parent.parent,
    )  # fmt: skip
    return {int(line) for line in re.findall(r"typing_cases\.py:(\d+): error", done.stdout)}


def flagged_by_pyright() -> set[int]:
    program = shutil.which("pyright", path=str(Path(sys.executable).parent))
    assert program is not None, "make setup installs it"
    done = subprocess.run(
        [program, "--outputjson", "--pythonpath", sys.executable, str(CASES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout[done.stdout.index("{") :])["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"}


@pytest.mark.parametrize("checker", [flagged_by_mypy, flagged_by_pyright])
async def test_each_wrong_use_is_flagged_and_no_right_one(checker: object) -> None:
    assert callable(checker)
    flagged = await asyncio.to_thread(checker)
    assert len(WRONG) == 20
    assert flagged == WRONG
