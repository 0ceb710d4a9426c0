"""The options of a worker, from the command line, the settings and the app."""

from dataclasses import asdict, dataclass
from enum import StrEnum

from holdfast.core.decide import MAX_ATTEMPTS_DEFAULT
from holdfast.core.task import TIMEOUT_SECONDS


class Until(StrEnum):
    """When an executor ends by itself."""

    STOPPED = "stopped"
    ONCE = "once"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The options of one worker, the same for each of its executors."""

    url: str
    queues: tuple[str, ...] = ("default",)
    name: str = "worker"
    schema: str = "holdfast"
    direct_url: str = ""
    concurrency: int = 10
    processes: int = 1
    sleep_seconds: float = 1.0
    max_attempts: int = MAX_ATTEMPTS_DEFAULT
    timeout_seconds: float = TIMEOUT_SECONDS
    lease_seconds: float = 30.0
    grace_seconds: float = 300.0
    kill_seconds: float = 5.0
    max_time_seconds: float | None = None
    max_tasks: int | None = None
    until: Until = Until.STOPPED
    statement_seconds: float = 10.0
    unroutable_seconds: float = 600.0
    # Whether executors count what they do and report it to their supervisor.
    counted: bool = False

    @property
    def renew_seconds(self) -> float:
        """A third of the lease, at least a second, and half a second before its end at the latest (T3)."""
        return min(max(self.lease_seconds / 3, 1.0), self.lease_seconds - 0.5)

    def as_json(self) -> dict[str, object]:
        """For an executor's command line."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, object]) -> "WorkerOptions":
        """As the executor reads it."""
        values["queues"] = tuple(values["queues"])  # type: ignore[arg-type]
        values["until"] = Until(str(values["until"]))
        return cls(**values)  # type: ignore[arg-type]
