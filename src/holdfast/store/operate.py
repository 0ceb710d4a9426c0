"""Operations on tasks that no worker holds, and on kinds and queues.

Each verb answers which tasks it moved. The ones it could not move are left as they are. What a verb does and
the entry of the audit that tells of it are one transaction.
"""

from collections.abc import Sequence
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.bounds import check_moment
from holdfast.core.errors import Misused, MoveRefused, TaskContended, TaskNotFound, TaskStranded
from holdfast.core.events import KindStatusChanged, Listener, TasksMoved, TasksWoken, silent
from holdfast.core.failure import DeadReason, FailureClass
from holdfast.core.state import Move, State, after
from holdfast.core.task import RESERVED_QUEUE, Counters, ErrorMark, TaskView, is_id
from holdfast.db.connect import Conn
from holdfast.db.statements import load, load_all
from holdfast.store.audit import AuditWriter, Author

# A move can lose a race with a claim or a settle; then the task stands elsewhere and is asked again.
_TRIES = 5
_ACTIONS = {
    Move.PAUSE: Action.TASK_PAUSE,
    Move.RESUME: Action.TASK_RESUME,
    Move.REDRIVE: Action.TASK_RETRY,
}

FILES = ("store/operate.sql", "store/keys.sql", "store/line.sql", "store/permits.sql", "store/workers.sql")


class Operator:
    """The moves of a person, or of maintenance in a person's place."""

    def __init__(
        self, settings: Settings | None = None, listen: Listener = silent, *, by: str = "holdfast"
    ) -> None:
        self._sql = load_all(FILES, (settings or Settings()).schema_name)
        self._read = load("views/tasks.sql", (settings or Settings()).schema_name)
        self._audit = AuditWriter(settings or Settings(), listen)
        self._listen = listen
        self._by = by

    async def show(self, conn: Conn, task_id: str) -> TaskView:
        """One task as people see it, wherever it stands."""
        _require_ids([task_id])
        cursor = await conn.execute(self._read["show"], {"id": task_id})
        row = await cursor.fetchone()
        if row is None:
            raise TaskNotFound(task_id)
        return _view(row)

    async def cancel(self, conn: Conn, task_id: str, reason: str) -> State:
        """Cancel a task that waits; ask one that runs to stop. Answers the state it is in now."""
        _require_ids([task_id])
        for _ in range(_TRIES):
            values = {"ids": [task_id], "reason": reason}
            async with conn.transaction():
                cursor = await conn.execute(self._sql["request_cancel"], values)
                row = await cursor.fetchone()
                if row is not None:
                    await self._let_pass(conn, [task_id])
                    author = Author(self._by, reason)
                    await self._audit.note_tasks(conn, Action.TASK_CANCEL, author, [task_id])
            if row is not None:
                self._listen(TasksMoved(Move.REQUEST_CANCEL, [task_id], self._by, reason))
                return State.RUNNING if row[1] else State.CANCELLED
            await self._require(conn, task_id, Move.REQUEST_CANCEL)
        raise await self.obstacle(conn, task_id)

    async def pause(self, conn: Conn, task_id: str, reason: str) -> None:
        """Hold a queued task until it is resumed."""
        await self._surely(conn, Move.PAUSE, task_id, reason)

    async def resume(self, conn: Conn, task_id: str, reason: str = "") -> None:
        """Let a paused task run again."""
        await self._surely(conn, Move.RESUME, task_id, reason)

    async def wake(self, conn: Conn, task_ids: Sequence[str]) -> list[str]:
        """Poll these now rather than later, if they have snoozed; answers which."""
        _require_ids(task_ids)
        ids: list[str] = []
        # One that snoozes just now is found nowhere at first, and stands in ready when asked once more.
        for _ in range(2):
            left = [id_ for id_ in task_ids if id_ not in ids]
            if left:
                async with conn.transaction():
                    cursor = await conn.execute(self._sql["wake"], {"ids": left})
                    found = [row[0] for row in await cursor.fetchall()]
                    await self._audit.note_tasks(conn, Action.TASK_WAKE, Author(self._by, ""), found)
                ids += found
        if ids:
            self._listen(TasksWoken(ids, self._by))
        return ids

    async def redrive(self, conn: Conn, task_ids: Sequence[str], reason: str) -> list[str]:
        """Put failed and cancelled tasks back to work; answers which."""
        return await self._move(conn, Move.REDRIVE, task_ids, reason)

    async def expire(self, conn: Conn, limit: int = 1_000) -> list[str]:
        """Cancel what did not start in time."""
        cursor = await conn.execute(self._sql["expire"], {"limit": limit})
        ids = [id_ for (id_,) in await cursor.fetchall()]
        if ids:
            await self._let_pass(conn, ids)
            self._listen(TasksMoved(Move.EXPIRE, ids, self._by, "expired"))
        return ids

    async def pause_kind(self, conn: Conn, kind: str, reason: str, *, until: datetime | None = None) -> None:
        """Start no more tasks of a kind; those that run go on."""
        if until is not None:
            check_moment("the end of a pause", until)
        values = {"kind": kind, "by": self._by, "until": until, "reason": reason}
        async with conn.transaction():
            await conn.execute(self._sql["pause_kind"], values)
            author = Author(self._by, reason)
            await self._audit.note(conn, Action.KIND_PAUSE, author, kind=kind, details={"until": until})
        self._listen(KindStatusChanged(kind, "paused", self._by, reason))

    async def resume_kind(self, conn: Conn, kind: str) -> bool:
        """Let a kind run again, more from second to second; whether it was paused."""
        async with conn.transaction():
            cursor = await conn.execute(self._sql["resume_kind"], {"kind": kind})
            opened = await cursor.fetchone() is not None
            if opened:
                await self._audit.note(conn, Action.KIND_RESUME, Author(self._by, ""), kind=kind)
        if opened:
            self._listen(KindStatusChanged(kind, "open", self._by, ""))
        return opened

    async def pause_queue(self, conn: Conn, queue: str, reason: str, until: datetime | None = None) -> None:
        """Start nothing more from a queue."""
        if queue == RESERVED_QUEUE:
            raise Misused(f"queue {queue} cannot be paused: what operators ask for is done there")
        if until is not None:
            check_moment("the end of a pause", until)
        values = {"queue": queue, "by": self._by, "until": until, "reason": reason}
        async with conn.transaction():
            await conn.execute(self._sql["pause_queue"], values)
            details = {"queue": queue, "until": until}
            await self._audit.note(conn, Action.QUEUE_PAUSE, Author(self._by, reason), details=details)

    async def resume_queue(self, conn: Conn, queue: str) -> bool:
        """Serve a queue again; whether it was paused."""
        async with conn.transaction():
            cursor = await conn.execute(self._sql["resume_queue"], {"queue": queue})
            resumed = await cursor.fetchone() is not None
            if resumed:
                details = {"queue": queue}
                await self._audit.note(conn, Action.QUEUE_RESUME, Author(self._by, ""), details=details)
        return resumed

    async def end_due_pauses(self, conn: Conn) -> list[str]:
        """End the pauses whose end has come; answers the queues and buckets."""
        return [name for (name,) in await (await conn.execute(self._sql["end_due_pauses"])).fetchall()]

    async def prune_rates(self, conn: Conn, limit: int = 1_000) -> int:
        """Forget what was spent of rates long ago."""
        return len(await (await conn.execute(self._sql["prune_rates"], {"limit": limit})).fetchall())

    async def prune_keys(self, conn: Conn, limit: int = 1_000) -> int:
        """Forget idempotency keys whose window is over."""
        cursor = await conn.execute(self._sql["prune_keys"], {"limit": limit})
        return len(await cursor.fetchall())

    async def prune_cancel_requests(self, conn: Conn) -> int:
        """Forget requests whose claim has ended."""
        await conn.execute(self._sql["prune_wakes"])
        return len(await (await conn.execute(self._sql["prune_cancel_requests"])).fetchall())

    async def prune_workers(self, conn: Conn) -> int:
        """Forget lost workers of which nothing is left."""
        return len(await (await conn.execute(self._sql["prune_workers"])).fetchall())

    async def prune_cancelled(
        self, conn: Conn, days: int, *, now: datetime | None = None, limit: int = 1_000
    ) -> int:
        """Let go of cancelled tasks whose retention is over."""
        values = {"days": days, "now": now, "limit": limit}
        cursor = await conn.execute(self._sql["prune_cancelled"], values)
        return len(await cursor.fetchall())

    async def _surely(self, conn: Conn, move: Move, task_id: str, reason: str) -> None:
        """Do it or say why not; whoever is told that it was done finds it done, and in the audit."""
        for _ in range(_TRIES):
            if await self._move(conn, move, [task_id], reason):
                return
            await self._require(conn, task_id, move)
        raise await self.obstacle(conn, task_id)

    async def _move(self, conn: Conn, move: Move, task_ids: Sequence[str], reason: str) -> list[str]:
        _require_ids(task_ids)
        values = {"ids": list(task_ids), "by": self._by, "reason": reason}
        async with conn.transaction():
            cursor = await conn.execute(self._sql[move.value], values)
            ids = [id_ for (id_,) in await cursor.fetchall()]
            if ids:
                await self._let_pass(conn, ids)
                await self._audit.note_tasks(conn, _ACTIONS[move], Author(self._by, reason), ids)
        if ids:
            self._listen(TasksMoved(move, ids, self._by, reason))
        return ids

    async def _let_pass(self, conn: Conn, ids: Sequence[str]) -> None:
        """Where these stood behind buckets, others there may start now."""
        await conn.execute(self._sql["enlist_beside"], {"ids": list(ids)})

    async def _require(self, conn: Conn, task_id: str, move: Move) -> None:
        """Raise unless the move is allowed now, in which case it is worth another try."""
        state = (await self.show(conn, task_id)).state
        if after(state, move) is None:
            raise MoveRefused(task_id, state, move)

    async def obstacle(self, conn: Conn, task_id: str) -> TaskContended | TaskStranded:
        """Why a move that the task's state allows was not made."""
        row = await (await conn.execute(self._read["has_row"], {"id": task_id})).fetchone()
        match row:
            case (False, False):
                how = "is queued, but its row in ready, blocked or running is missing or differs from tasks"
            case (True, True):
                how = "is failed, cancelled or paused, but still has a row in ready, blocked or running"
            case _:
                return TaskContended(task_id)
        advice = "nothing was done; run `holdfast doctor --repair --reason …`"
        return TaskStranded(f"task {task_id} {how}: {advice}")


def _require_ids(task_ids: Sequence[str]) -> None:
    """What is no id at all is no task either."""
    for task_id in task_ids:
        if not is_id(task_id):
            raise TaskNotFound(task_id)


def _view(row: tuple[object, ...]) -> TaskView:
    values = dict(zip(_COLUMNS, row, strict=True))
    counters = Counters(**{name: values.pop(name) for name in Counters.__dataclass_fields__})  # type: ignore[arg-type]
    error = [values.pop(name) for name in _ERROR]
    mark = None
    if error[0] is not None:
        mark = ErrorMark(FailureClass(error[0]), *error[1:])  # type: ignore[arg-type]
    values["state"] = State(str(values["state"]))
    if values["dead_reason"] is not None:
        values["dead_reason"] = DeadReason(str(values["dead_reason"]))
    return TaskView(**values, counters=counters, error=mark)  # type: ignore[arg-type]


_ERROR = ("failure_class", "error_code", "error_message", "error_stack", "failed_at")
_COLUMNS = (
    "id", "kind", "queue", "state", "priority", "payload", "result", "subject", "trace_id", "key",
    "attempts", "failures", "crashes", "polls", "rate_limits", "max_attempts", "fence", "worker",
    "bucket", "enqueued_at", "next_attempt_at", "last_attempt_at", "finished_at",
    "execution_seconds", "progress", "dead_reason", "mark_reason", "failure_class", "error_code",
    "error_message", "error_stack", "failed_at", "lease_expires_at", "fingerprint",
)  # fmt: skip
