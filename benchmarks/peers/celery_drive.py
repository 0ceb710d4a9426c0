"""Celery on Redis: two processes. It acknowledges before it runs a task; tuned: prefetches a hundred."""

import os
import sys

from celery import Celery

from marks import PAYLOAD, TUNED, mark

app = Celery("bench", broker=os.environ["BENCH_REDIS"])
app.conf.task_ignore_result = True
app.conf.broker_connection_retry_on_startup = True
if TUNED:
    app.conf.worker_prefetch_multiplier = 100
    app.conf.worker_send_task_events = False


@app.task(name="noop")
def noop(payload: str) -> None:
    """Nothing."""
    mark()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        app.control.purge()
        with app.producer_pool.acquire() as producer:
            for _ in range(int(sys.argv[2])):
                noop.apply_async((PAYLOAD,), producer=producer)
    else:
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"] if TUNED else []
        app.worker_main(["worker", "--concurrency", "2", "--loglevel", "warning", *quiet])
