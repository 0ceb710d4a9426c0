"""Every list of the HTTP API beside ten million in history, a million dead, a million entries in the audit.

python -m benchmarks.lists --write docs/benchmarks/lists.json      about 10 minutes
python -m benchmarks.lists --part 0.1                              a tenth of it

Each is asked for twenty times as people ask for it, and with a filter that nothing fits, which is the worst
that can be asked.
"""

import argparse
import asyncio
import statistics
import time

import httpx
from tests.cluster import DURABLE, postgres

from benchmarks.engines import Ours, connect
from benchmarks.loops import about, write
from benchmarks.redrive import DEAD
from holdfast.config import Settings
from holdfast.db.connect import connect as connect_async
from holdfast.http.application import create
from holdfast.http.identity import Auth
from holdfast.store.upkeep import Upkeep

TIMES = 20
CHUNK = 250_000
HISTORY = """
insert into holdfast.task_history (id, finished_at, enqueued_at, started_at, fence, worker, attempts, polls,
    failures, crashes, priority, version, kind, queue, payload, subject)
select holdfast.uuid7(), greatest(date_trunc('day', now()), now() - make_interval(secs => n * 0.008)),
    now(), now(), n, gen_random_uuid(), 1, 0, 0, 0, 2, 1,
    'video.render', 'default', '{"episode": 7}', 'episode-' || n %% 1000
from generate_series(%(first)s::integer, %(last)s::integer) n
"""
QUEUED = """
select count(*) from holdfast.enqueue_many(
    ids => array(select holdfast.uuid7() from generate_series(%(first)s::integer, %(last)s::integer)),
    kinds => array['video.render'],
    payloads => array_fill('{"episode": 7}'::jsonb, array[%(last)s::integer - %(first)s::integer + 1])
)
"""
AUDIT = """
select holdfast.note_tasks('TASK_RETRY', 'ada', 'the provider is back', array(
    select t.id from holdfast.tasks t
    where t.mark = 'failed' order by t.id offset %(first)s - 1 limit %(last)s - %(first)s + 1
))
"""
GROUPS = """
insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at)
select 'f' || n, 'video.render', 'transient', 'TASK_EXECUTION_FAILED', 'provider answered 503', now()
from generate_series(0, 19) n
"""
RARE = "nothing-is-called-so"
LISTS: dict[str, dict[str, str | int]] = {
    "/api/tasks": {},
    "/api/tasks?state=queued": {"state": "queued"},
    "/api/tasks?state=running": {"state": "running"},
    "/api/tasks?state=failed": {"state": "failed"},
    "/api/tasks?state=completed": {"state": "completed"},
    "/api/tasks?subject": {"subject": "episode-7"},
    "/api/tasks, a rare kind": {"jobKind": RARE},
    "/api/tasks, a rare queue": {"queue": RARE, "state": "failed"},
    "/api/tasks, a rare kind that completed": {"jobKind": RARE, "state": "completed"},
    "/api/tasks/ops": {},
    "/api/tasks/dead-letters": {},
    "/api/tasks/dead-letters?group": {"group": "f7"},
    "/api/tasks/dead-letters?episodeId": {"episodeId": "episode-7"},
    "/api/tasks/dead-letters, a rare code": {"errorCode": RARE},
    "/api/tasks/dead-letters, a rare queue": {"queue": RARE},
    "/api/tasks/dead-letters/preview": {},
    "/api/tasks/dead-letters/preview, page 400": {"page": 400},
    "/api/tasks/dead-letters/statistics": {},
    "/api/tasks/audit-logs": {},
    "/api/tasks/audit-logs, a rare actor": {"auditActor": RARE},
    "/api/tasks/audit-logs, page 400": {"auditPage": 400},
    "/api/groups": {},
    "/api/plans": {},
    "/api/queues": {},
    "/api/limits": {},
    "/api/workers": {},
    "/api/schedules": {},
    "/metrics": {},
}


async def asked(url: str) -> dict[str, object]:
    """How long each takes, in ms."""
    settings = Settings(database_url=url)
    async with await connect_async(url) as conn:
        await Upkeep(settings).run(conn)
    app = create(settings, auth=Auth.NONE, rate=1e9)
    found: dict[str, object] = {}
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            for name, query in LISTS.items():
                path = name.split(",")[0].split("?")[0]
                taken = []
                for _ in range(TIMES):
                    began = time.monotonic()
                    answer = await client.get(path, params=query)
                    taken.append(1_000 * (time.monotonic() - began))
                    assert answer.status_code == 200, answer.text
                found[name] = {
                    "p50": round(statistics.median(taken), 1),
                    "p95": round(statistics.quantiles(taken, n=20)[18], 1),
                }
                print(name, found[name], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    sizes = {DEAD: 1_000_000, AUDIT: 1_000_000, QUEUED: 1_000_000, HISTORY: 10_000_000}
    with postgres(15, DURABLE) as server:
        url = f"{server}/postgres"
        with connect(url) as conn:
            Ours.install(conn)
            conn.execute(GROUPS)
            for statement, size in sizes.items():
                most = round(size * chosen.part)
                for first in range(1, most + 1, CHUNK):
                    conn.execute(statement, {"first": first, "last": min(first + CHUNK - 1, most)})
            conn.execute("vacuum analyze")
        lists = asyncio.run(asked(url))
    write(chosen.write, {"about": about() | {"part": chosen.part, "times": TIMES}, "lists, ms": lists})


if __name__ == "__main__":
    main()
