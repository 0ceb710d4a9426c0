"""Lists beside many: none of them reads all there is, and one that did not look everywhere says so."""

from collections.abc import Iterator
from typing import Any

import pytest
from benchmarks.redrive import DEAD

from holdfast.core.audit import EntryFilter
from holdfast.db.statements import load
from holdfast.ops.dead_letters import FAILED, DeadFilter
from holdfast.views.tasks import LOOK
from tests.http_api.conftest import Api

MANY = LOOK + 5_000
# What is looked at in these tests, and what a statement may read for it.
FEW = 100
READ_MAX = 2_000
_PAGE: dict[str, Any] = {
    "state": "failed",
    "kind": None,
    "queue": None,
    "subject": None,
    "trace": None,
    "limit": 20,
    "offset": 0,
    "before": None,
    "look": FEW,
    "most": FEW,
}
_DEAD = DeadFilter(states=FAILED).values()
_ENTRIES = dict.fromkeys(EntryFilter.__dataclass_fields__)
STATEMENTS: dict[tuple[str, str], dict[str, Any]] = {
    ("views/tasks.sql", "list_alive"): {"state": None},
    ("views/tasks.sql", "list_alive_edge"): {},
    ("views/tasks.sql", "list_marked"): {"queue": "nobody"},
    ("views/tasks.sql", "list_marked_edge"): {},
    ("views/tasks.sql", "list_completed"): {"kind": "nothing"},
    ("views/tasks.sql", "list_completed_edge"): {},
    ("views/tasks.sql", "list_running"): {},
    ("views/tasks.sql", "queues"): {"queues_max": 500},
    ("views/tasks.sql", "totals"): {},
    ("store/failures.sql", "dead"): {**_DEAD, "code": "nothing"},
    ("store/failures.sql", "dead_edge"): _DEAD,
    ("store/failures.sql", "breakdown_of_some"): _DEAD,
    ("store/failures.sql", "by_subject"): {},
    ("store/failures.sql", "groups"): {"fingerprint": None, "state": None, "releases": 20, "lately": True},
    ("views/dashboard.sql", "count_some_kinds"): {},
    ("views/dashboard.sql", "running_kinds"): {},
    ("views/dashboard.sql", "queue_trends"): {"queues": ["default"]},
    ("views/dashboard.sql", "changes"): {"seconds": 3_600},
    ("ops/audit.sql", "entries"): {
        **_ENTRIES,
        "before_chunk": None,
        "before_place": None,
        "actor": "nobody",
    },
    ("ops/audit.sql", "count_entries"): {**_ENTRIES, "before_chunk": None, "before_place": None},
}
LARGE = ("tasks", "task_history", "audit_log", "ready", "blocked")


@pytest.fixture
async def many(api: Api) -> Api:
    conn = api.shift.world.conn
    await conn.execute(DEAD, {"first": 1, "last": MANY})
    await conn.execute(
        "insert into holdfast.failure_groups"
        " (fingerprint, kind, failure_class, error_code, message, first_seen_at)"
        " select 'f' || n, 'video.render', 'transient', 'x', 'y', now() from generate_series(0, 19) n"
    )
    await conn.execute(
        "insert into holdfast.task_history (id, finished_at, enqueued_at, started_at, fence, worker,"
        " attempts, polls, failures, crashes, priority, version, kind, queue)"
        " select holdfast.uuid7(), now(), now(), now(), 1, gen_random_uuid(), 1, 0, 0, 0, 2, 1, 'k', 'q'"
        " from generate_series(1, %s)",
        [MANY],
    )
    await conn.execute(
        "select holdfast.note_tasks('TASK_RETRY', 'ada', '',"
        " array(select t.id from holdfast.tasks t where t.mark = 'failed'))"
    )
    for table in LARGE:
        await conn.execute(f"analyze holdfast.{table}")
    return api


def scans(plan: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Every scan of a large table: how, of what, and how many rows it read."""
    relation = str(plan.get("Relation Name", ""))
    if relation.startswith(LARGE):
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield plan["Node Type"], relation, rows * plan["Actual Loops"]
    for inner in plan.get("Plans", ()):
        yield from scans(inner)


@pytest.mark.catches("rare-ones-searched-for")
async def test_no_list_reads_all_there_is(many: Api) -> None:
    conn = many.shift.world.conn
    for (file, name), values in STATEMENTS.items():
        statement = load(file)[name]
        # Planned as for a request: behind a pooler nothing else is pinned.
        async with many.app.state.service.pool.bounded(conn, writes=False):
            cursor = await conn.execute(
                "explain (analyze, timing off, format json) " + statement, {**_PAGE, **values}
            )
            row = await cursor.fetchone()
        assert row is not None
        found = list(scans(row[0][0]["Plan"]))
        read = sum(rows for _, _, rows in found)
        assert read <= READ_MAX + 20 * FEW, (name, found)


@pytest.mark.catches("rare-ones-searched-for", "partial-unsaid")
@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/api/tasks", {"queue": "nobody", "state": "failed"}),
        ("/api/tasks", {"jobKind": "nothing"}),
        ("/api/tasks", {"jobKind": "nothing", "state": "completed"}),
        ("/api/tasks/dead-letters", {"errorCode": "nothing"}),
    ],
)
async def test_a_list_of_what_is_rare_says_that_it_did_not_look_everywhere_and_goes_on(
    many: Api, path: str, query: dict[str, Any]
) -> None:
    first = await many.get(path, **query)
    assert (first["items"], first["partial"]) == ([], True)
    rest = await many.get(path, **query, before=first["next"])
    assert (rest["items"], rest["partial"], rest["next"]) == ([], False, None)


async def test_figures_of_many_say_that_they_are_not_exact(many: Api) -> None:
    await many.shift.upkeep.run(many.shift.world.conn)
    statistics = await many.get("/api/tasks/dead-letters/statistics")
    assert (statistics["total"], statistics["exact"]) == (MANY, False)
    assert statistics["countedAt"] is not None
    board = await many.get("/api/tasks/ops")
    assert (board["totals"]["failed"], board["totals"]["exact"]) == (MANY, False)
    audit = await many.get("/api/tasks/audit-logs", auditActor="nobody")
    assert (audit["total"], audit["partial"]) == (0, False)
    preview = await many.get("/api/tasks/dead-letters/preview")
    assert (preview["total"], preview["exact"]) == (MANY, True)
