"""The database's figures in Prometheus format, exposed once per installation."""

from collections.abc import Iterator
from datetime import UTC, datetime

from fastapi import APIRouter
from fastapi.responses import Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.observe.metrics import CONTENT_TYPE, build, page_of
from holdfast.views.figures import Figures, figures

router = APIRouter(route_class=TransactionRoute, tags=["metrics"])


class MetricsPage(Response):
    """A page for a scraper."""

    media_type = CONTENT_TYPE


@router.get("/metrics", response_class=MetricsPage)
async def metrics(caller: CurrentCaller) -> Response:
    """Queues, workers, and everything that ended since the beginning."""
    return MetricsPage(page_of(_families(await figures(caller.conn, caller.settings))))


def _families(found: Figures) -> Iterator[Metric]:
    yield build()
    now = datetime.now(UTC)
    tasks = GaugeMetricFamily(
        "holdfast_queue_tasks",
        "Tasks of a queue; of many thousands, at the time of the count.",
        labels=("queue", "state"),
    )
    age = GaugeMetricFamily(
        "holdfast_queue_oldest_ready_age_seconds",
        "For how long the oldest could have started.",
        labels=("queue",),
    )
    counted = GaugeMetricFamily(
        "holdfast_queue_counted_timestamp_seconds",
        "When the tasks of a queue were counted.",
        labels=("queue",),
    )
    served = GaugeMetricFamily("holdfast_queue_workers", "Workers that serve a queue.", labels=("queue",))
    paused = GaugeMetricFamily("holdfast_queue_paused", "Whether a queue is paused.", labels=("queue",))
    for queue in found.queues:
        for state in ("ready", "scheduled", "behind", "running"):
            tasks.add_metric([queue.name, state], getattr(queue, state))
        oldest = queue.oldest_at
        age.add_metric([queue.name], 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds()))
        counted.add_metric([queue.name], (queue.counted_at or now).timestamp())
        served.add_metric([queue.name], queue.workers)
        paused.add_metric([queue.name], queue.paused_at is not None)
    partial = GaugeMetricFamily(
        "holdfast_queues_partial", "Whether there are more queues than the 500 that have figures."
    )
    partial.add_metric([], found.queues_partial)
    yield from (tasks, age, counted, served, paused, partial)
    yield from _overall(found)
    ended = CounterMetricFamily(
        "holdfast_tasks_settled",
        "Claims that ended, by outcome, since the beginning.",
        labels=("kind", "outcome"),
    )
    ran = CounterMetricFamily(
        "holdfast_tasks_run_seconds", "For how long they ran, together.", labels=("kind", "outcome")
    )
    for one in found.settled:
        ended.add_metric([one.kind, one.ended_as], one.tasks)
        ran.add_metric([one.kind, one.ended_as], one.run_seconds)
    yield from (ended, ran)


def _overall(found: Figures) -> Iterator[Metric]:
    marked = GaugeMetricFamily("holdfast_tasks_marked", "Tasks that wait for somebody.", labels=("state",))
    marked.add_metric(["failed"], found.totals.failed)
    marked.add_metric(["paused"], found.totals.paused)
    yield marked
    workers = GaugeMetricFamily("holdfast_workers", "Workers that are known.", labels=("state",))
    workers.add_metric(["alive"], found.workers_alive)
    workers.add_metric(["lost"], found.workers_lost)
    yield workers
    clear = GaugeMetricFamily(
        "holdfast_clear_seconds", "How long what is ready would take at the rate of the last five minutes."
    )
    if found.clear_seconds is not None:
        clear.add_metric([], found.clear_seconds)
    yield clear
    failed_at = GaugeMetricFamily(
        "holdfast_last_failure_timestamp_seconds", "When a task last failed for good."
    )
    if found.totals.last_failure_at is not None:
        failed_at.add_metric([], found.totals.last_failure_at.timestamp())
    yield failed_at
