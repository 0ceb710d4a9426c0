"""Loads an app in a separate process and reports what the supervisor needs to know about it.

    python -m holdfast.cli.processes.describe MODULE:NAME PARENT

The supervisor itself imports no user code: not even to learn where the database is.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass

from holdfast.cli.load import load
from holdfast.config import Settings
from holdfast.core.errors import AppNotFound
from holdfast.worker.signals import die_with_parent

_REFUSED = 3


@dataclass(frozen=True, slots=True)
class Described:
    """An app from outside."""

    settings: Settings
    kinds: tuple[str, ...]


def describe(path: str) -> Described:
    """Ask another process what the app at this path is; what it prints of its own is not shown."""
    command = [sys.executable, "-m", "holdfast.cli.processes.describe", path, str(os.getpid())]
    # In a session of its own: Ctrl-C is for the process that asks, and ends this one with it.
    done = subprocess.run(  # noqa: S603 (ourselves)
        command, stdout=subprocess.PIPE, text=True, check=False, start_new_session=True
    )
    if done.returncode == _REFUSED:
        raise AppNotFound(path, done.stdout.strip())
    if done.returncode != 0:
        raise AppNotFound(path, f"importing it ended the process with status {done.returncode}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Described(Settings(**told["settings"]), tuple(told["kinds"]))


def main() -> int:
    """Print one line of JSON, the last on standard output."""
    die_with_parent(int(sys.argv[2]))
    try:
        app = load(sys.argv[1])
    except AppNotFound as error:
        sys.stdout.write(error.why)
        return _REFUSED
    told = {"settings": app.settings.model_dump(), "kinds": sorted(app.handlers)}
    sys.stdout.write("\n" + json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    found = main()
    sys.stdout.flush()
    # Threads and exit handlers of the app are not waited for: they have nothing to say here.
    os._exit(found)
