"""`holdfast status` and `holdfast worker list`: how things stand."""

from holdfast.cli.screen import AsJson, ago, on_database, say, show_json, show_table
from holdfast.config import Settings
from holdfast.store.browse import Browser, QueueView, Totals, WorkerView
from holdfast.store.pool import Conn


def status(as_json: AsJson = False) -> None:
    """How things stand: what waits, who works, what has failed."""

    async def work(conn: Conn, settings: Settings) -> tuple[Totals, list[QueueView], list[WorkerView]]:
        browser = Browser(settings)
        return await browser.totals(conn), await browser.queues(conn), await browser.workers(conn)

    totals, queues, workers = on_database(work)
    live = [one for one in workers if one.lost_at is None]
    if as_json:
        show_json({"totals": totals, "queues": queues, "workers": {"live": len(live), "known": len(workers)}})
        return
    last = f", the last {ago(totals.last_failure_at)}" if totals.last_failure_at else ""
    done = f"{totals.completed_last_hour} completed in the last hour"
    say(f"{totals.failed} failed{last}; {totals.paused} paused; {done}")
    unserved = [q.name for q in queues if q.ready and not q.workers]
    if unserved:
        say(f"NOBODY serves {', '.join(unserved)}, where tasks wait: start a worker")
    say(f"{len(live)} executors alive, {sum(one.running for one in live)} tasks in their hands")
    show_table(
        ["queue", "ready", "scheduled", "waiting", "running", "oldest", "executors", "paused"],
        [
            (q.name, q.ready, q.scheduled, q.behind, q.running, q.oldest_at, q.workers, q.paused)
            for q in queues
        ],
        empty="nothing waits",
    )


def list_workers(*, as_json: bool) -> None:
    """Every executor that is known, the lost ones last."""

    async def work(conn: Conn, settings: Settings) -> list[WorkerView]:
        return await Browser(settings).workers(conn)

    found = on_database(work)
    if as_json:
        show_json(found)
        return
    show_table(
        ["worker", "name", "since", "lease ends", "lost", "queues", "kinds", "running"],
        [
            (
                one.id,
                one.name,
                one.registered_at,
                one.lease_expires_at,
                one.lost_at,
                ",".join(one.queues),
                len(one.kinds),
                one.running,
            )
            for one in found
        ],
        empty="no worker is known",
    )
