"""Faults of the console and of what it asks for."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

CONSOLE = {
    "queue-page-leads-nowhere": Fault("console.within", 'if path in {"", "queue"}:', 'if path == "":'),
    "console-without-a-policy": Fault("console._page", '{"Content-Security-Policy": POLICY, ', "{"),
    "assets-from-anywhere": Fault("console._asset", "if _ASSET.fullmatch(path) is None or not", "if not"),
    "away-in-silence": Fault("Live._look_on", "                seen = AWAY\n", "                continue\n"),
    "board-without-the-dead": Fault(
        "Dashboard.kinds", "                    dead.get(name, 0),\n", "                    0,\n"
    ),
    "ticks-are-ignored": Fault("Filter.as_filter", "            self.task_ids,\n", "            None,\n"),
    "approvals-not-shown": Fault("PlanView.shown_state", '"awaiting approval"', '"frozen"'),
    "late-results-not-counted": Fault(
        "note_late", "select n.ended_at, count(*), 0, n.kind, 'late' from noted n group by 1, 4;",
        "select n.ended_at, count(*), 0, n.kind, 'late' from noted n where false group by 1, 4;",
    ),
    "releases-not-kept": Fault("roll_up_failures", "    where t.release is not null\n", "    where false\n"),
    "releases-not-told": Fault("register_worker", "%(queues)s::text[], %(kinds)s::text[], %(release)s\n", "%(queues)s::text[], %(kinds)s::text[], null\n"),
    "a-quiet-night-is-broken": Fault("status._failing", "compared.failed < FAILED_MIN or", ""),
    "usual-failures-alarm": Fault("status._threshold", "max(FAILING_SHARE, min(BROKEN_SHARE, FAILING_TIMES * (usual or 0.0)))", "FAILING_SHARE"),
    "an-incident-becomes-usual": Fault("status._threshold", "min(BROKEN_SHARE, FAILING_TIMES * (usual or 0.0))", "FAILING_TIMES * (usual or 0.0)"),
    "nobody-works-in-silence": Fault("status._unserved", "    if not waits:\n        return None\n", "    if nobody or not waits:\n        return None\n"),
    "restarts-alarm": Fault("status._unserved", "    if nobody and last is not None and", "    if False and last is not None and"),
    "paused-queues-alarm": Fault("status._unserved", "if queue.workers == 0 and queue.ready + queue.behind > 0 and not _is_paused(seen, queue)", "if queue.workers == 0 and queue.ready + queue.behind > 0"),
    "the-first-is-the-worst": Fault("status.judge", "return max([*said, fine], key=lambda verdict: _RANK[verdict.level])", "return [*said, fine][0]"),
    "draining-queues-alarm": Fault("status._growing", "falls = trend.growth_per_minute < 0 or", "falls ="),
    "bursts-alarm": Fault("status._growing", " or (trend.lately_per_minute or 0.0) < 0", ""),
    "incidents-begin-with-the-chart": Fault("status._bad_since", "            return since\n        if bad:", "            continue\n        if bad:"),
}  # fmt: skip
