"""`make against` runs from end to end, judges as documented, and uses only the public parts of a release."""

import argparse
import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.against import (
    CPU,
    RATE,
    Compared,
    Counts,
    Side,
    compare,
    in_pairs,
    judge,
    report,
    run,
    worktree,
)
from benchmarks.releases import ROOT, git, revision

import holdfast
from tests.cluster import Cluster, cluster

DRIVER = [ROOT / "benchmarks" / name for name in ("against_app.py", "against_driver.py", "cpu.py")]
OURS = ("holdfast", "benchmarks", "tests")


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.mark.timeout(600)
def test_a_side_drains_a_backlog_on_its_own_sources(own_cluster: Cluster) -> None:
    with worktree(revision("HEAD")) as place:
        counts = run("drain", 0.3, Side(place / "src", own_cluster), 500)
    assert min(counts["drain"].values()) > 0


def test_a_side_that_would_import_other_sources_is_refused(own_cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=rf"/holdfast/__init__\.py is not in {tmp_path}"):
        run("drain", 0.3, Side(tmp_path, own_cluster), 500)


def test_a_base_that_is_not_there_is_named_before_anything_starts() -> None:
    command = [sys.executable, "-m", "benchmarks.against", "--base", "999.0.0", "--what", "drain"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert 'the subject "Release 999.0.0"' in done.stderr


def test_each_side_is_first_in_every_other_pair(own_cluster: Cluster) -> None:
    base, head = Side(Path("base"), own_cluster), Side(Path("head"), own_cluster)
    order: list[str] = []

    def measure(side: Side, timeout: float) -> Counts:
        order.append(side.source.name)
        return _counts(10 if side is base else 9, 8.0)

    found = in_pairs(base, head, 3, time.monotonic() + 600, measure)
    assert order == ["base", "head", "head", "base", "base", "head"]
    assert found == [(_counts(10, 8.0), _counts(9, 8.0))] * 3


def test_the_report_fails_where_the_gate_is_missed_or_pairs_are(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = argparse.Namespace(base="0.1.0", gate=0.97, pairs=3)
    same, worse = (_counts(10, 8.0), _counts(10, 8.0)), (_counts(10, 8.0), _counts(10, 8.4))
    assert report([same, same, worse], chosen) == 0
    assert "drain: CPU per task 1.00 (1.00–1.05) of 0.1.0; gate 0.97 held" in capsys.readouterr().out
    assert report([same, worse, worse], chosen) == 1
    assert "gate 0.97 MISSED: 0.1.0 / HEAD is 0.952" in capsys.readouterr().out
    assert report([same, same], chosen) == 1
    assert "only 2 of 3 pairs" in capsys.readouterr().out


def test_the_checkout_of_the_base_is_removed_though_the_measurement_fails() -> None:
    places: list[Path] = []

    def fail() -> None:
        with worktree(revision("HEAD")) as place:
            places.append(place)
            assert (place / "src" / "holdfast" / "__init__.py").exists()
            assert str(place) in git(ROOT, "worktree", "list").stdout
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (place,) = places
    assert not place.exists()
    assert str(place) not in git(ROOT, "worktree", "list").stdout


@pytest.mark.parametrize(
    ("part", "rate", "cpu", "held"),
    [
        ("drain", 0.5, 1.02, True),
        ("drain", 2.0, 1.04, False),
        ("enqueue, one by one", 0.5, 1.02, True),
        ("finish", 2.0, 1.04, False),
        ("limits", 0.98, 2.0, True),
        ("limits", 0.96, 0.5, False),
    ],
)
def test_a_gate_is_judged_by_cpu_per_task_and_for_limits_by_the_rate(
    part: str, rate: float, cpu: float, *, held: bool
) -> None:
    compared = {
        RATE: Compared.of([1_000] * 3, [1_000 * rate] * 3),
        CPU: Compared.of([80] * 3, [80 * cpu] * 3),
    }
    line, good = judge(part, compared, "0.1.0", 0.97)
    assert good is held
    assert ("gate 0.97 held" in line) is held
    assert judge(part, compared, "0.1.0", None)[1], "without a gate nothing is missed"


def test_the_ratio_is_that_of_each_pair() -> None:
    # The machine was half as fast during the second pair, for both sides.
    pairs = [
        (_counts(10, 8.0), _counts(9, 8.8)),
        (_counts(5, 16.0), _counts(5, 16.0)),
        (_counts(10, 8.0), _counts(8, 8.0)),
    ]
    compared = compare(pairs, "drain")
    assert compared[RATE].ratio == {"median": 0.9, "lowest": 0.8, "highest": 1.0}
    assert compared[RATE].told() == "0.90 (0.80–1.00)"
    assert compared[CPU].ratio == {"median": 1.0, "lowest": 1.0, "highest": 1.1}
    assert (compared[CPU].base, compared[CPU].head) == (8.0, 8.8)


def _counts(rate: float, cpu: float) -> dict[str, dict[str, float]]:
    """A million tasks at this rate and with so many microseconds each, a quarter of them the server's."""
    counts = {"tasks": 1e6, "seconds": 1e6 / rate, "server CPU, s": cpu / 4, "client CPU, s": cpu * 3 / 4}
    return {"drain": counts}


@pytest.mark.parametrize("path", DRIVER, ids=lambda path: path.name)
def test_the_driver_uses_only_what_every_release_offers(path: Path) -> None:
    own = {"benchmarks.against_app", "benchmarks.cpu"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            public = node.module == "holdfast" and {name.name for name in node.names} <= set(holdfast.__all__)
            assert public or node.module in own or not node.module.startswith(OURS)
        elif isinstance(node, ast.Import):
            assert {name.name for name in node.names if name.name.startswith(OURS)} <= {"holdfast"}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            assert set(re.findall(r"\bholdfast\.(\w+)", node.value)) <= {"enqueue", "enqueue_many"}
