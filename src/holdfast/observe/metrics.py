"""Renders a worker's counters in Prometheus format."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from holdfast.observe.counters import EDGES, SEPARATOR, Figure

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Name, help and labels of each counter.
_COUNTERS: dict[Figure, tuple[str, str, tuple[str, ...]]] = {
    Figure.CLAIMED: ("holdfast_worker_claimed", "Tasks that this worker took.", ("kind",)),
    Figure.SETTLED: (
        "holdfast_worker_settled",
        "Claims that ended here, by outcome and by the class of a failure.",
        ("kind", "outcome", "failure_class"),
    ),
    Figure.LATE: (
        "holdfast_worker_late_results_refused",
        "Results that came too late and were refused.",
        ("kind",),
    ),
    Figure.ASIDE: (
        "holdfast_worker_limit_waits",
        "Tasks that stepped aside for a limit, a lane or a pause.",
        (),
    ),
    Figure.LEASES: ("holdfast_worker_leases_lost", "Leases that ended or could not be renewed in time.", ()),
    Figure.CRASHES: ("holdfast_worker_crashes", "Processes that died by themselves.", ()),
    Figure.STARTED: ("holdfast_worker_processes_started", "Processes that were started to run tasks.", ()),
    Figure.WORKERS_LOST: ("holdfast_worker_others_lost", "Silent workers that this one declared lost.", ()),
    Figure.DATABASE_LOST: (
        "holdfast_worker_database_lost",
        "Times that the database was away.",
        (),
    ),
}
_HISTOGRAMS = {
    Figure.LATENCY: (
        "holdfast_worker_start_latency_seconds",
        "From when a task was due until this worker took it.",
    ),
    Figure.RAN: ("holdfast_worker_run_seconds", "From when a task was taken until it ended."),
}


def families(counts: Mapping[str, float]) -> Iterator[Metric]:
    """What was counted, as Prometheus takes it in."""
    yield build()
    parts: dict[str, list[tuple[list[str], float]]] = defaultdict(list)
    for name, value in counts.items():
        figure, *labels = name.split(SEPARATOR)
        parts[figure].append((labels, value))
    for figure, (name, text, labels_of) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=labels_of)
        # Where there is nothing to tell apart, nothing yet is 0.
        for labels, value in parts[figure] or ([([], 0.0)] if not labels_of else []):
            counter.add_metric(labels, value)
        yield counter
    for figure, (name, text) in _HISTOGRAMS.items():
        yield _histogram(name, text, parts[figure])
    success = GaugeMetricFamily(
        "holdfast_worker_last_success_timestamp_seconds", "When a task last completed here."
    )
    for _, value in parts[Figure.SUCCESS_AT]:
        success.add_metric([], value)
    yield success


def _histogram(name: str, text: str, parts: list[tuple[list[str], float]]) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=("kind",))
    sums: Counter[str] = Counter()
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for (kind, bucket), value in parts:
        if bucket == "sum":
            sums[kind] = value  # type: ignore[assignment]
        else:
            found[kind][int(bucket)] = value
    for kind, buckets in found.items():
        below = 0.0
        told = []
        for number, edge in enumerate([*map(str, EDGES), "+Inf"]):
            below += buckets.get(number, 0.0)
            told.append((edge, below))
        family.add_metric([kind], told, sums[kind])
    return family


def build() -> Metric:
    """Which Holdfast this is."""
    info = InfoMetricFamily("holdfast_build", "Which Holdfast this is.")
    info.add_metric([], {"version": version("holdfast")})
    return info


@dataclass(frozen=True, slots=True, eq=False)
class _Collected(Collector):
    found: Iterable[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.found


def page_of(found: Iterable[Metric]) -> bytes:
    """The page that is scraped."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(list(found)))
    return generate_latest(registry)
