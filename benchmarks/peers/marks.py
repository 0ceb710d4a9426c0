"""What every system's handler does: one byte to a file that the harness watches from outside.

These files run in the environments of the systems that they drive, so they import nothing of ours.
"""

import os
import sys
from collections.abc import Awaitable, Callable

URL = os.environ["BENCH_URL"]
TUNED = os.environ.get("BENCH_TUNED") == "1"
PAYLOAD = os.environ.get("BENCH_PAYLOAD", "{}")
CHUNK = 1_000
_marks = os.open(os.environ["BENCH_MARKS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def mark() -> None:
    """One task has run."""
    os.write(_marks, b".")


def chosen(fill: Callable[[int], Awaitable[None]], work: Callable[[], Awaitable[None]]) -> Awaitable[None]:
    """What the command line asks for: `fill TASKS`, or `work`."""
    if sys.argv[1] == "fill":
        return fill(int(sys.argv[2]))
    return work()
