"""Puts a night at a studio on the stage: data for people to look at, and for screenshots.

python -m tests.console.stage URL [--dead 1000000]      into an empty, migrated database
"""

import argparse
import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdfast.config import Settings
from holdfast.core.limit import Limit, Scope
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import migrate_up
from holdfast.db.partitions import ensure_partitions
from holdfast.db.statements import parse
from holdfast.ops.dead_letters import DeadFilter
from holdfast.ops.groups import Groups
from holdfast.ops.plan_view import How
from holdfast.ops.plans import Plans
from holdfast.store.limits import Limits
from holdfast.store.operate import Operator
from holdfast.store.upkeep import Upkeep
from holdfast.webhooks.endpoints import Endpoints, NewEndpoint

MANY = """
insert into holdfast.tasks (
    id, enqueued_at, run_at, priority, kind, queue, payload, subject, trace_id, attempts, failures,
    mark, marked_at, failed_at, dead_reason, failure_class, error_code, error_message, fingerprint
)
select
    holdfast.uuid7(), now(), now(), 2, 'search.index', 'search', '{"document": 7}', 'document ' || n %% 1000,
    'trace-' || n, 3, 3, 'failed', now() - interval '3 hours' - make_interval(secs => n * 0.05), now(),
    'max_attempts_exceeded', 'invalid', 'TASK_PAYLOAD_INVALID', 'document_parsing_exception: field [price]',
    '0123456789abcdef'
from generate_series(1, %(many)s::integer) n
"""


async def seed(conn: Conn, settings: Settings, dead: int = 0) -> None:
    """Fill a database that has nothing in it."""
    # The night begins up to half an hour ago, which after midnight is yesterday.
    await ensure_partitions(conn, settings.schema_name, datetime.now(UTC).date() - timedelta(days=1))
    statements = parse(Path(__file__).with_name("stage.sql").read_text(), settings.schema_name)
    for statement in statements.values():
        # The file says %% where SQL says %, as all our statements do.
        await conn.execute(statement, {})
    if dead:
        await conn.execute(MANY, {"many": dead})
        await conn.execute("analyze holdfast.tasks")
    await _acts(conn, settings)
    await Upkeep(settings).run(conn)


async def _acts(conn: Conn, settings: Settings) -> None:
    """What people did that night, by the doors that people use."""
    mara, ilya = Operator(settings, by="mara"), Operator(settings, by="ilya")
    await Limits(settings, by="ilya").set(conn, Scope.KIND, "webhook.deliver", Limit(running=40))
    await Limits(settings, by="ilya").set(conn, Scope.KIND, "video.render", Limit(running=50))
    await mara.pause_kind(conn, "report.build", "KeyError on every report since 1.8.2. INC-481.")
    await ilya.resume_kind(conn, "report.build")
    await ilya.pause_queue(conn, "reports", "waits for the fix of INC-481")
    plans = Plans(settings, by="mara")
    done = await plans.freeze(
        conn, DeadFilter(kind="webhook.deliver", subject="customer 3"), "The certificate was renewed.", How()
    )
    await plans.start(conn, done.id)
    waiting = Plans(settings.model_copy(update={"approval_above": 10}), by="mara")
    await waiting.freeze(
        conn,
        DeadFilter(fingerprint="0123456789abcdef"),
        "The index takes prices as text since 02:10. INC-479.",
        How(canary=20, rate=1.0, stop_ratio=0.05),
    )
    groups = Groups(settings, by="mara")
    await groups.note(conn, "0123456789abcdef", "Prices come as text from the new importer.")
    endpoints = Endpoints(settings.model_copy(update={"webhooks_plain": True}), by="ilya")
    for url, described in (
        ("https://hooks.northwind.example/holdfast", "Northwind"),
        ("https://hooks.fabrikam.example/in", "Fabrikam"),
    ):
        await endpoints.create(conn, NewEndpoint(url, ("render.done", "render.failed"), described))


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--dead", type=int, default=0, help="so many dead letters more")
    chosen = parser.parse_args()
    settings = Settings(database_url=chosen.url)
    async with await connect(chosen.url) as conn:
        await migrate_up(conn, settings.schema_name)
        await seed(conn, settings, chosen.dead)


if __name__ == "__main__":
    asyncio.run(main())
