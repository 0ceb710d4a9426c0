"""Collects a worker's counters and serves them on its metrics port."""

import time
from http import HTTPStatus

from holdfast.core.errors import Misused
from holdfast.observe.counters import Figure, ProcessCounters, name_of
from holdfast.observe.metrics_server import MetricsServer, document
from holdfast.worker.supervisor.supervisor import Supervisor


class MetricsPort:
    """What a worker with `--metrics-port` has beside one without."""

    def __init__(self, host: str, port: int) -> None:
        try:
            from holdfast.observe.metrics import CONTENT_TYPE, families, page_of
        except ImportError as error:
            raise Misused(f"--metrics-port needs what holdfast[metrics] installs: {error}") from error
        self._host, self._port = host, port
        self._counts = counts = dict[str, float]()
        self.counted = ProcessCounters(counts)
        self._text = lambda: (HTTPStatus.OK, CONTENT_TYPE, page_of(families(counts)))

    async def serve(self, supervisor: Supervisor) -> None:
        """Answer from now on, whatever the executors do."""

        def figures() -> dict[str, object]:
            succeeded_at = self._counts.get(name_of(Figure.SUCCESS_AT))
            since = None if succeeded_at is None else round(time.time() - succeeded_at, 3)
            return {"executors": supervisor.at_work, "secondsSinceSuccess": since}

        pages = {
            "/metrics": self._text,
            "/healthz": lambda: document(figures(), well=True),
            # Its leases hold, so the database was reached not long ago.
            "/readyz": lambda: document(figures(), well=supervisor.at_work > 0),
        }
        try:
            self._pages = MetricsServer(pages)
            await self._pages.open(self._host, self._port)
        except OSError as error:
            raise Misused(f"--metrics-port {self._port} cannot be used: {error.strerror}") from error
