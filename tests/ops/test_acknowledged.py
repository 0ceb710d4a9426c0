"""What an operator was told is done is in the audit, whatever happens to connections on the way.

`HOLDFAST_TEST_OPERATIONS=10000` makes as many of them as the promise names.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from holdfast.core.errors import HoldfastError
from holdfast.db.connect import Conn, connect
from holdfast.ops.dead_letters import DeadFilter
from tests.ops.conftest import Shift

OPERATIONS = int(os.environ.get("HOLDFAST_TEST_OPERATIONS", "400"))
OPERATORS = 2
KILLED = 0.2
# As many round trips of the killer's as an operation has, more or less.
TRIPS = 6


class Someone:
    """An operator who does one thing after the other, each with a reason of its own."""

    def __init__(self, shift: Shift, name: str, direct_url: str, tasks: list[str]) -> None:
        self._shift = shift
        self._name = name
        self._direct_url = direct_url
        self._tasks = tasks
        self._rng = random.Random(name)
        self.acknowledged: list[str] = []
        self.cut = 0

    async def work(self, count: int) -> None:
        """Do so many things; a connection that was cut is opened anew."""
        conn: Conn | None = None
        async with await connect(self._direct_url) as killer:
            for number in range(count):
                try:
                    conn = conn or await connect(self._shift.world.url)
                    await self._act(conn, killer, f"{self._name} {number}")
                except HoldfastError:
                    """Refused, and so told: nothing was acknowledged."""
                except psycopg.Error:
                    # Behind a pooler a cut may hit somebody else, and be told in other words.
                    self.cut += 1
                    if conn is not None:
                        await conn.close()
                    conn = None
        if conn is not None:
            await conn.close()

    async def _act(self, conn: Conn, killer: Conn, reason: str) -> None:
        kill = None
        if self._rng.random() < KILLED:
            row = await (await conn.execute("select pg_backend_pid()")).fetchone()
            assert row is not None
            kill = asyncio.create_task(_kill(killer, row[0], self._rng.randrange(TRIPS)))
        try:
            if await self._operate(conn, reason):
                self.acknowledged.append(reason)
        finally:
            if kill is not None:
                await kill

    async def _operate(self, conn: Conn, reason: str) -> object:
        """Something at random; answers whether it had an effect."""
        shift, operator = self._shift, self._shift.world.operator
        task = self._rng.choice(self._tasks)
        group = (await shift.groups.page(conn))[0].fingerprint
        later = datetime.now(UTC) + timedelta(hours=1)

        async def retry() -> bool:
            return bool((await shift.dead.retry(conn, [task], reason)).retried)

        async def plan() -> None:
            made = await shift.plans.freeze(conn, DeadFilter(ids=[task]), reason)
            await shift.plans.abort(conn, made.id, reason)

        acts: list[Callable[[], Awaitable[object]]] = [
            retry,
            retry,
            plan,
            lambda: operator.cancel(conn, task, reason),
            lambda: operator.cancel(conn, task, reason),
            lambda: operator.pause(conn, task, reason),
            lambda: operator.resume(conn, task, reason),
            lambda: operator.pause_kind(conn, "mail.send", reason),
            lambda: operator.pause_queue(conn, "default", reason),
            lambda: shift.groups.ignore(conn, group, later, reason),
            lambda: shift.groups.resolve(conn, group, reason),
            lambda: shift.groups.reopen(conn, group, reason),
        ]
        return await self._rng.choice(acts)() is not False


async def _kill(killer: Conn, pid: int, trips: int) -> None:
    for _ in range(trips):
        await killer.execute("select 1")
    await killer.execute("select pg_terminate_backend(%s)", [pid])


@pytest.mark.catches("audit-after-the-effect", "audit-beside-the-effect")
async def test_an_act_that_was_acknowledged_is_in_the_audit_whatever_happens_to_connections(
    shift: Shift, direct_url: str
) -> None:
    ids = await shift.fail(20)
    people = [Someone(shift, name, direct_url, ids) for name in ("ada", "bob")]
    await asyncio.gather(*(someone.work(OPERATIONS // OPERATORS) for someone in people))
    conn = shift.world.conn
    written = {reason for (reason,) in await shift.world.rows_of("audit_log", "distinct reason")}
    acknowledged = {reason for someone in people for reason in someone.acknowledged}
    assert acknowledged - written == set()
    assert len(acknowledged) > OPERATIONS / 4
    assert sum(someone.cut for someone in people) > OPERATIONS / 40
    # Nor is there an effect without its entry, or an entry without its effect.
    cursor = await conn.execute(
        "select (select sum(replay_count) from holdfast.tasks where queue <> 'holdfast'),"
        " (select count(*) from holdfast.audit_log where action = 'TASK_RETRY'),"
        " (select count(*) from holdfast.plans),"
        " (select count(*) from holdfast.audit_log where action = 'PLAN_CREATE')"
    )
    row = await cursor.fetchone()
    assert row is not None
    replays, retries, plans, created = row
    assert (replays, plans) == (retries, created)
