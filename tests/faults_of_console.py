"""Faults of the console and of what it asks for."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

CONSOLE_PAGES = "http/console.py"
VERDICT = "ops/verdict.py"

CONSOLE = {
    "queue-page-leads-nowhere": Fault(CONSOLE_PAGES, 'if path in {"", "queue"}:', 'if path == "":'),
    "console-without-a-policy": Fault(CONSOLE_PAGES, '{"Content-Security-Policy": POLICY, ', "{"),
    "assets-from-anywhere": Fault(CONSOLE_PAGES, "if _ASSET.fullmatch(path) is None or not", "if not"),
    "away-in-silence": Fault("http/live.py", "                seen = AWAY\n", "                continue\n"),
    "board-without-the-dead": Fault(
        "store/board.py", "                    dead.get(name, 0),\n", "                    0,\n"
    ),
    "ticks-are-ignored": Fault("http/shapes.py", "            self.task_ids,\n", "            None,\n"),
    "approvals-not-shown": Fault("ops/plan.py", '"awaiting approval"', '"frozen"'),
    "late-results-not-counted": Fault(
        "store/tasks.sql", "select n.ended_at, count(*), 0, n.kind, 'late' from noted n group by 1, 4;",
        "select n.ended_at, count(*), 0, n.kind, 'late' from noted n where false group by 1, 4;",
    ),
    "releases-not-kept": Fault("store/failures.sql", "    where t.release is not null\n", "    where false\n"),
    "releases-not-told": Fault("store/tasks.sql", "%(queues)s::text[], %(kinds)s::text[], %(release)s\n", "%(queues)s::text[], %(kinds)s::text[], null\n"),
    "a-quiet-night-is-broken": Fault(VERDICT, "compared.failed < FAILED_MIN or", ""),
    "usual-failures-alarm": Fault(VERDICT, "max(FAILING_SHARE, min(BROKEN_SHARE, FAILING_TIMES * (usual or 0.0)))", "FAILING_SHARE"),
    "an-incident-becomes-usual": Fault(VERDICT, "min(BROKEN_SHARE, FAILING_TIMES * (usual or 0.0))", "FAILING_TIMES * (usual or 0.0)"),
    "nobody-works-in-silence": Fault(VERDICT, "    if not waits:\n        return None\n", "    if nobody or not waits:\n        return None\n"),
    "restarts-alarm": Fault(VERDICT, "    if nobody and last is not None and", "    if False and last is not None and"),
    "paused-queues-alarm": Fault(VERDICT, "if queue.workers == 0 and queue.ready + queue.behind > 0 and not _is_paused(seen, queue)", "if queue.workers == 0 and queue.ready + queue.behind > 0"),
    "the-first-is-the-worst": Fault(VERDICT, "return max([*said, fine], key=lambda verdict: _RANK[verdict.level])", "return [*said, fine][0]"),
    "draining-queues-alarm": Fault(VERDICT, "falls = trend.growth_per_minute < 0 or", "falls ="),
    "bursts-alarm": Fault(VERDICT, " or (trend.lately_per_minute or 0.0) < 0", ""),
    "incidents-begin-with-the-chart": Fault(VERDICT, "            return since\n        if bad:", "            continue\n        if bad:"),
}  # fmt: skip
