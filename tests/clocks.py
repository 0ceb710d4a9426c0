"""Wall clocks that are wrong, by libfaketime: those of processes, and a cluster's, which a test may step."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import Cluster, cluster

# Debian's faketime; what only counts seconds stays as it is, or nobody could measure anything.
LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
ONLY_WALL = {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}


def wrong_by(minutes: float) -> dict[str, str]:
    """The environment of a process whose clock is wrong by so many minutes."""
    return _preloaded() | {"FAKETIME": f"{minutes * 60:+.0f}"}


def _preloaded() -> dict[str, str]:
    assert LIBRARY is not None, "install Debian's libfaketime"
    return {"LD_PRELOAD": str(LIBRARY), **ONLY_WALL}


class DatabaseClock:
    """The clock of one cluster: ahead of ours by so many seconds."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.ahead = 0.0

    def step(self, seconds: float) -> None:
        """Put it forward, or back by less than none."""
        self.set(self.ahead + seconds)

    def set(self, ahead: float) -> None:
        """Put it there, in one go."""
        self.ahead = ahead
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{ahead:+.3f}\n")
        fresh.chmod(0o644)
        fresh.replace(self._file)


@contextmanager
def stepped_cluster() -> Iterator[tuple[Cluster, DatabaseClock]]:
    """A cluster whose clock can be put forward and back while it runs."""
    with tempfile.TemporaryDirectory(prefix="holdfast-clock-") as folder:
        # The server runs as another user.
        Path(folder).chmod(0o755)
        file = Path(folder) / "offset"
        clock = DatabaseClock(file)
        clock.set(0.0)
        with cluster(environment=_preloaded() | {"FAKETIME_TIMESTAMP_FILE": str(file)}) as running:
            yield running, clock
