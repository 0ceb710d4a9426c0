"""The systems that `make bench` drives, each in an environment of its own and at two settings.

python -m benchmarks.systems     makes the environments, in .bench/
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".bench"
PEERS = Path(__file__).parent / "peers"
REDIS = os.environ.get("BENCH_REDIS", "redis://127.0.0.1:6379/13")


@dataclass(frozen=True, slots=True)
class System:
    """One system at one setting."""

    name: str
    tuned: bool
    # At least as many as it runs in the 22 seconds of a run.
    tasks: int
    keeps: str
    driver: str
    python: str = "3.11"
    packages: Sequence[str] = ()
    log_lines: bool = False
    # Measured: fresh statistics turn oban-py's claim into a walk over its whole table, a third as fast,
    # and cost Graphile an eighth; the others need them (PgQueuer runs at a sixth without).
    analyzed: bool = True
    # Its tasks stand in the database, so that a copy of a filled one has them.
    in_database: bool = True

    @property
    def title(self) -> str:
        """Its name in tables."""
        return f"{self.name}, tuned" if self.tuned else self.name

    @property
    def home(self) -> Path:
        """Where its environment is."""
        return HOME / self.name

    def command(self, *words: object) -> list[str]:
        """How its driver is called."""
        program = str(self.home / "bin" / "python")
        if self.driver.endswith(".mjs"):
            program = "node"
        elif not self.packages:
            program = sys.executable
        return [program, str(PEERS / self.driver), *map(str, words)]

    @property
    def there(self) -> bool:
        """Whether its environment was made."""
        made = "node_modules" if self.driver.endswith(".mjs") else "bin/python"
        return not self.packages or (self.home / made).exists()


COMMITTED = "PostgreSQL, fsync"
BATCHED = "PostgreSQL, fsync; ends are kept in memory and written in batches"
LOST = "Redis without a file; acknowledged before it runs: a crash loses it"
_PGQUEUER = ("pgqueuer[asyncpg]==1.6.0", "uvloop==0.23.0")
_PROCRASTINATE = ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0")
_OBAN = ("oban==0.7.0", "psycopg[binary,pool]==3.3.8", "uvloop==0.23.0")
_CELERY = ("celery[redis]==5.7.0",)
_GRAPHILE = ("graphile-worker@0.17.3",)

HOLDFAST = [
    System("holdfast", False, 400_000, COMMITTED, "holdfast_drive.py", log_lines=True),
    System("holdfast", True, 600_000, COMMITTED, "holdfast_drive.py", log_lines=True),
]
SYSTEMS = [
    System("pgqueuer", False, 100_000, BATCHED, "pgqueuer_drive.py", packages=_PGQUEUER),
    System("pgqueuer", True, 300_000, BATCHED, "pgqueuer_drive.py", packages=_PGQUEUER),
    System("oban-py", False, 60_000, COMMITTED, "oban_drive.py", "3.12", _OBAN, analyzed=False),
    System("oban-py", True, 120_000, COMMITTED, "oban_drive.py", "3.12", _OBAN, analyzed=False),
    System("procrastinate", False, 20_000, COMMITTED, "procrastinate_drive.py", packages=_PROCRASTINATE),
    System("procrastinate", True, 20_000, COMMITTED, "procrastinate_drive.py", packages=_PROCRASTINATE),
    System("awa", False, 100_000, COMMITTED, "awa_drive.py", packages=("awa-pg==0.6.9",)),
    System("awa", True, 150_000, COMMITTED, "awa_drive.py", packages=("awa-pg==0.6.9",)),
    System("celery", False, 20_000, LOST, "celery_drive.py", packages=_CELERY, in_database=False),
    System("celery", True, 20_000, LOST, "celery_drive.py", packages=_CELERY, in_database=False),
    System("graphile", False, 60_000, COMMITTED, "graphile_drive.mjs", packages=_GRAPHILE, analyzed=False),
    System("graphile", True, 400_000, BATCHED, "graphile_drive.mjs", packages=_GRAPHILE, analyzed=False),
]


def make(system: System) -> None:
    """Install it into an environment of its own."""
    if system.there:
        return
    system.home.mkdir(parents=True, exist_ok=True)
    if system.driver.endswith(".mjs"):
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", *system.packages], cwd=system.home, check=True
        )
        return
    subprocess.run(
        ["uv", "venv", "--quiet", "--clear", "--python", _python(system.python), system.home], check=True
    )
    python = ["--python", str(system.home / "bin" / "python")]
    subprocess.run(["uv", "pip", "install", "--quiet", *python, *system.packages], check=True)


def _python(version: str) -> str:
    """An interpreter of that version that is there already; a shim of pyenv may lead nowhere."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}") or version


def main() -> None:
    for system in SYSTEMS:
        make(system)
        print(f"{system.title:24} {'there' if system.there else 'missing'}")


if __name__ == "__main__":
    main()
