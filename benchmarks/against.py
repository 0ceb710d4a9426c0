"""Measures the working tree against a release or another revision, side by side.

    python -m benchmarks.against --base 0.1.0 --what drain --gate 0.97

Both sides run the same driver, each on its own sources and its own PostgreSQL cluster, in turn (ABAB). What
counts is the ratio of each pair: that of the CPU time per task, server and client together, and for `limits`
that of the rate. A gate of 0.97 allows the working tree to be 3 % worse. Autovacuum is off, because it would
run during some of the runs only.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import psycopg
from tests.cluster import DURABLE, Cluster, cluster

from benchmarks.against_app import MARKS
from benchmarks.loops import about, spread, write
from benchmarks.releases import ROOT, git, revision

WHAT = ("drain", "enqueue", "finish", "limits")
# Longer runs would cost pairs in an hour in which the machine is slow.
SECONDS = 8.0
PAIRS = 5
# It may take twelve minutes; what is left of them is for starting, stopping and removing.
BUDGET_SECONDS = 11.5 * 60
# The counts of one run, by what was measured: drain; or enqueue in groups, enqueue one by one.
Counts = dict[str, dict[str, float]]
RATE = "rate, tasks/s"
CPU = "CPU, µs/task"
FIGURES: dict[str, Callable[[dict[str, float]], float]] = {
    RATE: lambda counts: counts["tasks"] / counts["seconds"],
    "server CPU, µs/task": lambda counts: 1e6 * counts["server CPU, s"] / counts["tasks"],
    "client CPU, µs/task": lambda counts: 1e6 * counts["client CPU, s"] / counts["tasks"],
    CPU: lambda counts: 1e6 * (counts["server CPU, s"] + counts["client CPU, s"]) / counts["tasks"],
}


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two that are compared."""

    source: Path
    cluster: Cluster


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure of both sides over all pairs: the medians, and the spread of head / base."""

    base: float
    head: float
    ratio: dict[str, float]

    @classmethod
    def of(cls, base: Sequence[float], head: Sequence[float]) -> "Compared":
        """Compare run by run."""
        ratios = [b / a for a, b in zip(base, head, strict=True)]
        return cls(round(statistics.median(base), 1), round(statistics.median(head), 1), spread(ratios))

    def told(self) -> str:
        """The ratio's median and range."""
        return f"{self.ratio['median']:.2f} ({self.ratio['lowest']:.2f}–{self.ratio['highest']:.2f})"


@contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A checkout of a commit in a temporary folder, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="holdfast-base-") as folder:
        place = Path(folder) / "base"
        _git("worktree", "add", "--quiet", "--detach", str(place), commit)
        try:
            yield place
        finally:
            _git("worktree", "remove", "--force", str(place))


def _git(*arguments: str) -> str:
    done = git(ROOT, *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def run(what: str, seconds: float, side: Side, timeout: float) -> Counts:
    """Run the driver once on one side, in a new database."""
    with psycopg.connect(f"{side.cluster.url}/postgres", autocommit=True) as admin:
        admin.execute("drop database if exists against with (force)")
        admin.execute("create database against")
    postmaster = (side.cluster.folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0]
    command = [sys.executable, "-m", "benchmarks.against_driver", what, str(seconds), postmaster]
    with tempfile.TemporaryDirectory(prefix="holdfast-against-") as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        environment |= {
            "PYTHONPATH": str(side.source),
            "HOLDFAST_DATABASE_URL": f"{side.cluster.url}/against",
            MARKS: str(Path(folder) / "marks"),
        }
        driver = subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
        try:
            out, said = driver.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            raise RuntimeError(f"{what} on {side.source} did not end in the {timeout:.0f} s left") from late
        finally:
            # Its worker is in its group.
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
    if driver.returncode != 0:
        raise RuntimeError(f"{what} on {side.source} ended with {driver.returncode}: {said[-4_000:]}")
    counts: Counts = json.loads(out)
    return counts


def in_pairs(
    base: Side, head: Side, pairs: int, deadline: float, measure: Callable[[Side, float], Counts]
) -> list[tuple[Counts, Counts]]:
    """Measure both in turn, each first in every other pair; fewer pairs where the next might be too late."""
    found: list[tuple[Counts, Counts]] = []
    longest = 0.0
    while len(found) < pairs and (began := time.monotonic()) + longest < deadline:
        order = (base, head) if len(found) % 2 == 0 else (head, base)
        counts = {side: measure(side, deadline - time.monotonic()) for side in order}
        found.append((counts[base], counts[head]))
        longest = max(longest, time.monotonic() - began)
        print(f"pair {len(found)} of {pairs}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def compare(found: Sequence[tuple[Counts, Counts]], part: str) -> dict[str, Compared]:
    """Rate and CPU time per task of one thing that was measured."""
    return {
        name: Compared.of(
            [figure(base[part]) for base, _ in found], [figure(head[part]) for _, head in found]
        )
        for name, figure in FIGURES.items()
    }


def judge(part: str, compared: dict[str, Compared], base: str, gate: float | None) -> tuple[str, bool]:
    """The line that says how the working tree did, and whether it is good enough."""
    name = RATE if part == "limits" else CPU
    one = compared[name]
    # The higher the better, whichever it is: a gate of 0.97 always means up to 3 % worse.
    reached = one.ratio["median"] if name == RATE else 1 / one.ratio["median"]
    line = f"{part}: {'rate' if name == RATE else 'CPU per task'} {one.told()} of {base}"
    if gate is None:
        return line, True
    held = round(reached, 3) >= gate
    way = f"HEAD / {base}" if name == RATE else f"{base} / HEAD"
    return f"{line}; gate {gate:g} {'held' if held else 'MISSED'}: {way} is {reached:.3f}", held


def table(compared: dict[str, Compared], base: str) -> str:
    """The medians of both sides, and the ratios."""
    head = f"{'':24}{base[:12]:>12}{'HEAD':>12}    ratio"
    rows = [f"{name:24}{one.base:12,.1f}{one.head:12,.1f}    {one.told()}" for name, one in compared.items()]
    return "\n".join([head, *rows])


def measure(commit: str, what: str, pairs: int, seconds: float) -> list[tuple[Counts, Counts]]:
    """Make both sides, and run them in turn."""
    deadline = time.monotonic() + BUDGET_SECONDS
    settings = DURABLE | {"autovacuum": "off"}
    with worktree(commit) as place, cluster(15, settings) as one, cluster(15, settings) as other:
        base, head = Side(place / "src", one), Side(ROOT / "src", other)
        return in_pairs(base, head, pairs, deadline, partial(run, what, seconds))


def report(found: Sequence[tuple[Counts, Counts]], chosen: argparse.Namespace) -> int:
    """Show what was found; the exit status is 1 where the gate is missed or pairs are."""
    good = len(found) == chosen.pairs
    for part in found[0][0]:
        compared = compare(found, part)
        line, held = judge(part, compared, chosen.base, chosen.gate)
        print(f"\n{table(compared, chosen.base)}\n{line}", flush=True)
        good = good and held
    if len(found) < chosen.pairs:
        print(f"only {len(found)} of {chosen.pairs} pairs: there was no time for more")
    return 0 if good else 1


def document(
    found: Sequence[tuple[Counts, Counts]], chosen: argparse.Namespace, commit: str
) -> dict[str, object]:
    """Everything, to be kept."""
    changed = bool(_git("status", "--porcelain", "--", "src"))
    compared = {part: compare(found, part) for part in found[0][0]}
    return {
        "about": about() | {"seconds": chosen.seconds},
        "base": {"name": chosen.base, "revision": commit},
        "head": {"revision": _git("rev-parse", "HEAD"), "sources changed since": changed},
        "compared": {
            part: {name: asdict(one) for name, one in figures.items()} for part, figures in compared.items()
        },
        "runs": [{"base": base, "head": head} for base, head in found],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", required=True, help="a version, or any revision that git understands")
    parser.add_argument("--what", required=True, choices=WHAT)
    parser.add_argument("--gate", type=float, help="fail below so much of the base: 0.97")
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="about so long is each run measured")
    parser.add_argument("--write", metavar="FILE", help="keep everything as JSON")
    chosen = parser.parse_args()
    try:
        commit = revision(chosen.base)
    except LookupError as error:
        parser.error(str(error))
    # Whoever stops it leaves no cluster and no worktree behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    found = measure(commit, chosen.what, chosen.pairs, chosen.seconds)
    if chosen.write:
        write(chosen.write, document(found, chosen, commit))
    return report(found, chosen)


if __name__ == "__main__":
    sys.exit(main())
