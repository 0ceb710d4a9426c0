"""`holdfast status` and `holdfast worker list`: the state of the installation and its workers."""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.cli.output import AsJson, ago, first_line, on_database, say, show_json, show_table
from holdfast.core.state import State
from holdfast.ops.caller import Caller
from holdfast.views.tasks import Browser, Listed, QueueView, Totals, WaitingLong, WorkerView

LATEST = 5
LONG_SECONDS = 300.0


class Standing(NamedTuple):
    """What `status` shows."""

    totals: Totals
    queues: list[QueueView]
    workers: list[WorkerView]
    failures: Sequence[Listed]
    waiting: list[WaitingLong]


def status(as_json: AsJson = False) -> None:
    """How things stand, in the order in which to look when work is stuck."""

    async def work(caller: Caller) -> Standing:
        browser = Browser(caller.settings)
        return Standing(
            await browser.totals(caller.conn),
            await browser.queues(caller.conn),
            await browser.workers(caller.conn),
            (await browser.tasks(caller.conn, state=State.FAILED, limit=LATEST)).items,
            await browser.waiting_long(caller.conn, LONG_SECONDS, LATEST),
        )

    found = on_database(work)
    totals, queues = found.totals, found.queues
    live = [one for one in found.workers if one.lost_at is None]
    if as_json:
        workers = {"live": len(live), "known": len(found.workers)}
        lists = {"latest_failures": found.failures, "waiting_long": found.waiting}
        show_json({"totals": totals, "queues": queues, "workers": workers, **lists})
        return
    lost = len(found.workers) - len(live)
    say(
        f"{len(live)} executors alive{f', {lost} lost' if lost else ''}, "
        f"{sum(one.running for one in live)} tasks in their hands"
    )
    unserved = [q.name for q in queues if q.ready and not q.workers]
    if unserved:
        say(f"NOBODY serves {', '.join(unserved)}, where tasks wait: start a worker")
    show_table(
        ["queue", "ready", "scheduled", "waiting", "running", "oldest", "executors", "paused"],
        [
            (q.name, q.ready, q.scheduled, q.behind, q.running, q.oldest_at, q.workers, q.paused)
            for q in queues
        ],
        empty="nothing waits",
    )
    last = f", the last {ago(totals.last_failure_at)}" if totals.last_failure_at else ""
    done = f"{totals.completed_last_hour} completed in the last hour"
    about = "" if totals.exact else "about "
    say(f"{about}{totals.failed} failed{last}; {totals.paused} paused; {done}")
    show_table(
        ["failed", "kind", "when", "code", "message"],
        [(one.id, one.kind, one.ended_at, one.error_code, first_line(one.error)) for one in found.failures],
        empty="no failed task is kept",
    )
    show_table(
        ["waits", "kind", "queue", "since", "last error"],
        [(one.id, one.kind, one.queue, one.since, first_line(one.error)) for one in found.waiting],
        empty=f"nothing that could start has waited for more than {LONG_SECONDS / 60:g} minutes",
    )
    if found.waiting:
        say("`holdfast task why ID` says what stands in the way of one")
    if found.failures or found.waiting or unserved or lost:
        say("in the logs of the workers look for: task.failed, executor.ended, worker.lost, database.lost")


def list_workers(*, as_json: bool) -> None:
    """Every executor that is known, the lost ones last."""

    async def work(caller: Caller) -> list[WorkerView]:
        return await Browser(caller.settings).workers(caller.conn)

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
