"""Ties tests to requirements and to the seeded faults that turn them red.

    @pytest.mark.requirement("T2")   shows T2, a line of docs/reference/requirements.md
    @pytest.mark.catches("no-fence") turns red when that fault of tests/faults.py is seeded
    @pytest.mark.alone               no other test of this checkout runs meanwhile, because it judges time

`--requirements` runs the first and prints a line per number; `--fault NAME` runs the second.
"""

import fcntl
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults import FAULTS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "requirements.md"
_NUMBER = re.compile(r"^- ([TFRBO]\d+) ", re.MULTILINE)


def numbers() -> list[str]:
    """Every number of the requirements page, in its order."""
    return _NUMBER.findall(PAGE.read_text())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", action="store_true", help="run what shows a requirement")
    parser.addoption("--fault", help="run what catches this seeded fault")


def _named(item: pytest.Item, mark: str) -> set[str]:
    return {name for found in item.iter_markers(mark) for name in found.args}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = set(numbers())
    for item in items:
        shown, caught = _named(item, "requirement"), _named(item, "catches")
        if unknown := (shown - known) | (caught - set(FAULTS)):
            raise pytest.UsageError(f"{item.nodeid} names {', '.join(sorted(unknown))}, which is not known")
        if shown and not caught:
            raise pytest.UsageError(f"{item.nodeid} shows {shown} and names no fault that turns it red")
    fault = config.getoption("--fault")
    keep = [
        item
        for item in items
        if (not config.getoption("--requirements") or _named(item, "requirement"))
        and (fault is None or fault in _named(item, "catches"))
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in keep])
    items[:] = keep


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> object:
    with _company(alone=item.get_closest_marker("alone") is not None):
        return (yield)


@contextmanager
def _company(*, alone: bool) -> Iterator[None]:
    """Room for one test beside those of this checkout's other processes, or for this one only."""
    checkout = hashlib.sha256(str(PAGE).encode()).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"holdfast-tests-{checkout}"
    with (
        place.with_suffix(".door").open("w") as door,
        place.with_suffix(".room").open("w") as room,
    ):
        # Whoever waits for an empty room keeps the door shut: others would go in and out for ever.
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    report = yield
    report.requirements = sorted(_named(item, "requirement"))  # type: ignore[attr-defined]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--requirements"):
        return
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome, into in (("passed", passed), ("failed", failed), ("error", failed)):
        for report in terminalreporter.stats.get(outcome, []):
            into.update(getattr(report, "requirements", []))
    for number in numbers():
        terminalreporter.write_line(_line(number, passed[number], failed[number]))


def _line(number: str, passed: int, failed: int) -> str:
    if failed:
        return f"{number:4} FAIL  {failed} of {passed + failed} tests"
    if passed:
        return f"{number:4} pass  {passed} test{'s' if passed > 1 else ''}"
    return f"{number:4} none"
