"""Helpers for users' tests: run tasks one by one with the real codec and SQL, and simulate crashes.

    async def test_checkout(holdfast):                       # the fixture of the pytest plugin
        await checkout(order)
        await holdfast.assert_enqueued("mail.send", payload={"to": 3})
        ran = await holdfast.run_next()
        assert ran.state == "completed"

Nothing is eager and nothing is mocked: a task is enqueued, claimed, run and settled as in production,
in this process and on the app's own database. The fixture empties the tables before and after a test.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from holdfast.app import Holdfast
from holdfast.core.decide import Policy
from holdfast.core.errors import HoldfastError
from holdfast.core.outcome import Duration, Expired, Failed, Finished, Outcome, as_seconds
from holdfast.core.state import State
from holdfast.core.task import Claim, TaskView
from holdfast.db.connect import Conn, connect
from holdfast.db.migrate import migrate_up
from holdfast.db.statements import in_schema
from holdfast.store.followups import Followups
from holdfast.store.operate import Operator
from holdfast.store.store import Store
from holdfast.worker.executor.claimer import Claimer
from holdfast.worker.executor.finish import Finishing
from holdfast.worker.executor.handlers import execute_async, execute_here, prepare
from holdfast.worker.policies import Policies

# Every table that a task leaves a trace in; the audit is only added to, in tests too.
TABLES = (
    "tasks", "ready", "blocked", "running", "cancel_requests", "wakes", "followups", "buckets", "line",
    "permits", "rates", "queues", "schedules", "sweeps", "workers", "maintenance", "task_keys",
    "settled_deltas", "settled_minutes", "settled_totals", "samples",
    "task_history", "task_attempts", "task_edits", "failure_groups",
    "failure_deltas", "failure_hours", "failure_releases", "releases", "queue_minutes", "kinds",
    "plans", "plan_items", "plan_skips", "plan_outcomes",
    "webhook_endpoints", "webhook_keys", "webhook_attempts",
)  # fmt: skip
_LEASE_SECONDS = 3_600.0


class Death(StrEnum):
    """Where a worker can be made to die."""

    BEFORE_HANDLER = "before_handler"
    AFTER_HANDLER = "after_handler"
    AFTER_COMMIT = "after_commit"


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one run."""

    task: TaskView
    outcome: Outcome | None

    @property
    def state(self) -> State:
        """Where the task stands now."""
        return self.task.state

    @property
    def result(self) -> Any:
        """The result that was kept."""
        return None if self.task.result is None else json.loads(self.task.result)


class NothingToRun(HoldfastError, AssertionError):
    """No task was there to run."""


class Bench:
    """A worker that does one thing at a time, when a test says so."""

    def __init__(self, app: Holdfast, conn: Conn) -> None:
        self._app = app
        self.conn = conn
        self._settings = app.settings
        self._store = Store(app.settings)
        self._operator = Operator(app.settings, by="test")
        self._handlers = app.handlers
        self._finisher = Finishing(app.settings, self._handlers)
        self._policies = Policies(self._handlers)

    @classmethod
    async def open(cls, app: Holdfast) -> "Bench":
        """A bench on the app's own database, brought up to date; refused where that is no test's."""
        conn = await connect(app.settings.database_url, application="holdfast test")
        try:
            await _require_a_test_database(conn, app.settings.schema_name)
            await migrate_up(
                conn,
                app.settings.schema_name,
                payload_bytes_max=app.settings.payload_bytes_max,
                audit_prune_days_min=app.settings.audit_prune_days_min,
            )
        except BaseException:
            await conn.close()
            raise
        return cls(app, conn)

    async def close(self) -> None:
        """Let the connections go."""
        await self._finisher.close()
        await self._app.close()
        await self.conn.close()

    async def empty(self) -> None:
        """Leave no task behind."""
        names = "; ".join(f"delete from holdfast.{table}" for table in TABLES)
        await self.conn.execute(in_schema(names, self._settings.schema_name))

    async def run_next(
        self,
        kind: str | None = None,
        *,
        queues: Sequence[str] = ("default",),
        dies: Death | str | None = None,
    ) -> Ran:
        """Run the next task that is due, or the next of a kind; `dies` says where its worker does."""
        worker = str(uuid4())
        await self._store.workers.register(self.conn, worker, "test", _LEASE_SECONDS)
        claim = await self._claim(worker, kind, queues)
        outcome = None if dies == Death.BEFORE_HANDLER else await self._outcome(claim)
        if dies is None or dies == Death.AFTER_COMMIT:
            await self._settle(claim, outcome)
        if dies is None:
            await self._store.workers.retire(self.conn, worker)
        else:
            await self._bury(worker)
        shown = outcome.then if isinstance(outcome, Finished) else outcome
        return Ran(await self._operator.show(self.conn, claim.id), shown)

    async def drain(self, *, queues: Sequence[str] = ("default",), limit: int = 1_000) -> list[Ran]:
        """Run what is due until nothing is; retries whose time has not come stay."""
        ran: list[Ran] = []
        while len(ran) < limit:
            try:
                ran.append(await self.run_next(queues=queues))
            except NothingToRun:
                return ran
        raise AssertionError(f"{limit} tasks were run, and there are more: does one enqueue itself?")

    async def enqueued(self, kind: str | None = None) -> list[TaskView]:
        """Every task that waits, the oldest first."""
        found = await self.conn.execute(
            in_schema(
                "select id::text from holdfast.task_states where state = 'queued'"
                " and (%(kind)s::text is null or kind = %(kind)s) order by id",
                self._settings.schema_name,
            ),
            {"kind": kind},
        )
        return [await self._operator.show(self.conn, id_) for (id_,) in await found.fetchall()]

    async def assert_enqueued(self, kind: str, *, payload: object = None, **facts: object) -> TaskView:
        """Fail unless a task of the kind waits with this payload, subject, key, queue, …"""
        waiting = await self.enqueued(kind)
        for task in waiting:
            same = payload is None or json.loads(task.payload or "null") == payload
            if same and all(getattr(task, name) == value for name, value in facts.items()):
                return task
        wanted = {"payload": payload} if payload is not None else {}
        seen = [json.loads(task.payload or "null") for task in waiting]
        raise AssertionError(f"no {kind} task waits with {wanted | facts}; those that wait have {seen}")

    async def move_time(self, duration: Duration) -> None:
        """Let time pass: everything happened so much earlier."""
        ago = timedelta(seconds=as_seconds(duration))
        moved = {
            "tasks": ("run_at", "expires_at", "enqueued_at", "polling_since", "progressed_at"),
            "ready": ("run_at",),
            "task_keys": ("expires_at",),
            "running": ("started_at", "deadline_at"),
        }
        async with self.conn.transaction():
            for table, columns in moved.items():
                changes = ", ".join(f"{column} = {column} - %(ago)s" for column in columns)
                statement = f"update holdfast.{table} set {changes}"
                await self.conn.execute(in_schema(statement, self._settings.schema_name), {"ago": ago})
        await self._operator.expire(self.conn)

    async def _claim(self, worker: str, kind: str | None, queues: Sequence[str]) -> Claim:
        kinds = sorted(self._handlers)
        await Followups(self._settings).release(self.conn)
        claimer = Claimer(self._store, queues, worker, kinds=kinds)
        passed: list[Claim] = []
        found: Claim | None = None
        while found is None:
            # A look puts what stands behind a limit aside, and the next one finds it there.
            claims = await claimer.claim(self.conn, 1) or await claimer.claim(self.conn, 1)
            if not claims:
                break
            if kind is None or claims[0].kind == kind:
                found = claims[0]
            else:
                passed += claims
        await self._store.workers.reconcile(self.conn, worker, [found] if found else [])
        if found is None:
            await self._store.workers.retire(self.conn, worker)
            what = f"{kind} task" if kind else "task"
            raise NothingToRun(
                f"no {what} of {', '.join(queues)} is due: is it scheduled, paused or run already?"
            )
        return found

    async def _outcome(self, claim: Claim) -> Outcome | Finished:
        handler = self._handlers[claim.kind]
        task = prepare(handler, claim, self._finisher)
        if isinstance(task, Failed):
            return task
        outcome = await execute_async(handler, task) if handler.awaits else execute_here(handler, task)
        return Finished(outcome) if task.settled else outcome

    async def _settle(self, claim: Claim, outcome: Outcome | Finished | None) -> None:
        if outcome is None or isinstance(outcome, Finished):
            return
        verdict = self._policies.judge(claim, Expired() if claim.expired else outcome)
        await self._store.settler.settle(self.conn, [(claim, verdict)])

    async def _bury(self, worker: str) -> None:
        """The worker is gone, and its lease has ended."""
        await self.conn.execute(
            in_schema(
                "update holdfast.workers set lease_expires_at = now() - interval '1 s' where id = %s::uuid",
                self._settings.schema_name,
            ),
            [worker],
        )
        await self._store.workers.reclaim(self.conn, lambda _: Policy())
        await self._store.workers.retire(self.conn, worker)


async def _require_a_test_database(conn: Conn, schema: str) -> None:
    """Refuse to change and empty what looks like somebody's work: name it test, or let it be empty."""
    name = conn.info.dbname
    row = await (await conn.execute("select to_regclass(%s)", [f"{schema}.tasks"])).fetchone()
    if "test" in re.split(r"[^a-z]+", name.lower()) or row is None or row[0] is None:
        return
    row = await (
        await conn.execute(
            in_schema(
                "select (select count(*) from holdfast.tasks) + (select count(*) from holdfast.task_history),"
                " (select count(*) from holdfast.workers where lost_at is null)"
                " + (select count(*) from holdfast.schedules)",
                schema,
            )
        )
    ).fetchone()
    assert row is not None, "a count always answers"
    if row != (0, 0):
        raise HoldfastError(
            f"the database {name} holds {row[0]} tasks and {row[1]} workers and schedules, and tests would "
            "empty it: set HOLDFAST_DATABASE_URL to one for tests, with the word test in its name"
        )
