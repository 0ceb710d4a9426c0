"""Finds, shows, redrives, edits and forgets dead letters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.bounds import check_payload, refuse_reserved
from holdfast.core.errors import JsonUnreadable, Misused, MoveRefused, TaskNotFound
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Handlers
from holdfast.core.operator_events import TasksForgotten
from holdfast.core.state import Move, after
from holdfast.core.stored_json import read_json
from holdfast.core.task import TaskView, is_id
from holdfast.db.connect import Conn
from holdfast.db.statements import load, load_all
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.operate import Operator
from holdfast.views.counts import EXACT_MAX, Samples
from holdfast.views.tasks import LOOK, Found

FAILED = ("failed",)
RETRYABLE = ("failed", "cancelled")
SUBJECTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters; what is None is not asked for."""

    subject: str | None = None
    kind: str | None = None
    queue: str | None = None
    trace: str | None = None
    reason: str | None = None
    code: str | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: Sequence[str] | None = None
    states: Sequence[str] = FAILED

    def __post_init__(self) -> None:
        for task_id in self.ids or ():
            if not is_id(task_id):
                raise TaskNotFound(task_id)

    def values(self) -> dict[str, object]:
        """What the statements take."""
        found = asdict(self)
        found["states"] = list(self.states)
        found["ids"] = None if self.ids is None else list(self.ids)
        return found

    def said(self) -> dict[str, object]:
        """What was asked for, to be kept with what came of it."""
        asked = {name: value for name, value in self.values().items() if value is not None}
        return {name: value if isinstance(value, list) else str(value) for name, value in asked.items()}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One line of a list of dead letters."""

    id: str
    kind: str
    queue: str
    state: str
    attempts: int
    subject: str | None
    trace_id: str | None
    enqueued_at: datetime
    died_at: datetime
    dead_reason: str | None
    failure_class: str | None
    error_code: str | None
    error: str | None
    fingerprint: str | None
    replay_count: int
    last_replayed_at: datetime | None
    last_replayed_by: str | None
    last_replay_reason: str | None


@dataclass(frozen=True, slots=True)
class Sort:
    """How many dead letters are alike, and since when."""

    kind: str
    dead_reason: str | None
    failure_class: str | None
    error_code: str | None
    fingerprint: str | None
    tasks: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Statistics:
    """All dead letters, counted."""

    total: int
    by_kind: dict[str, int]
    by_class: dict[str, int]
    by_reason: dict[str, int]
    by_subject: dict[str, int]
    # Of many thousands: when they were counted, and the subjects are those of some of them.
    counted_at: datetime | None = None
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Retried:
    """Which of the tasks were put back to work, and why the others were not."""

    retried: Sequence[str] = ()
    refused: dict[str, str] = field(default_factory=dict)


class DeadLetters:
    """The dead letters of one installation; `handlers` are those of the app, where it is known."""

    def __init__(
        self, settings: Settings, listen: Listener = silent, *, by: str, handlers: Handlers | None = None
    ) -> None:
        self._sql = load("store/failures.sql", settings.schema_name)
        self._tasks = load_all(["store/line.sql", "store/operate.sql"], settings.schema_name)
        self._samples = Samples(settings)
        self._audit = AuditWriter(settings, listen)
        self._operator = Operator(settings, listen, by=by)
        self._handlers = handlers or {}
        self._listen = listen
        self._by = by
        self._payload_bytes_max = settings.payload_bytes_max

    async def page(
        self, conn: Conn, only: DeadFilter, *, limit: int = 20, offset: int = 0, before: str | None = None
    ) -> list[DeadLetter]:
        """A page, the newest first; it goes on below the id of the last one."""
        values = only.values() | {"limit": limit, "offset": offset, "before": before, "look": None}
        return await self._page(conn, values)

    async def look(self, conn: Conn, only: DeadFilter, limit: int, before: str | None) -> Found[DeadLetter]:
        """The same of failed ones for whoever asks: no more are looked at than take a moment."""
        values = only.values() | {"limit": limit, "offset": 0, "before": before, "look": LOOK}
        items = await self._page(conn, values)
        if len(items) == limit:
            return Found(items, items[-1].id)
        edge = await (await conn.execute(self._sql["dead_edge"], values)).fetchone()
        return Found(items) if edge is None else Found(items, edge[0], partial=True)

    async def _page(self, conn: Conn, values: Mapping[str, object]) -> list[DeadLetter]:
        before = values["before"]
        if before is not None and not is_id(str(before)):
            raise TaskNotFound(str(before))
        return [DeadLetter(*row) for row in await (await conn.execute(self._sql["dead"], values)).fetchall()]

    async def sorts(self, conn: Conn, only: DeadFilter, most: int | None = None) -> list[Sort]:
        """How many of each sort a filter finds, the most first; of so many at most, where that is given."""
        name = "breakdown" if most is None else "breakdown_of_some"
        cursor = await conn.execute(self._sql[name], only.values() | {"most": most})
        return [Sort(*row) for row in await cursor.fetchall()]

    async def statistics(self, conn: Conn, *, quick: bool = False) -> Statistics:
        """Total, by kind, by class, by reason, and by subject; `quick` may answer with a sample."""
        most = EXACT_MAX + 1 if quick else None
        sorts = await self.sorts(conn, DeadFilter(), most)
        counts = [(sort.kind, sort.failure_class, sort.dead_reason, sort.tasks) for sort in sorts]
        exact, counted_at = True, None
        if quick and sum(sort.tasks for sort in sorts) > EXACT_MAX:
            sample = await self._samples.marked(conn)
            exact, counted_at = False, sample.at
            sampled = [
                (kind, of, why, tasks) for mark, kind, of, why, tasks in sample.figures if mark == "failed"
            ]
            counts = sampled or counts
        kinds, classes, reasons = Counter[str](), Counter[str](), Counter[str]()
        for kind, failure_class, reason, tasks in counts:
            kinds[kind] += tasks
            classes[failure_class or "unknown"] += tasks
            reasons[reason or "unknown"] += tasks
        cursor = await conn.execute(self._sql["by_subject"], {"limit": SUBJECTS_SHOWN, "most": most})
        subjects: dict[str, int] = dict(await cursor.fetchall())
        total = sum(kinds.values())
        return Statistics(total, dict(kinds), dict(classes), dict(reasons), subjects, counted_at, exact)

    async def retry(self, conn: Conn, task_ids: Sequence[str], reason: str) -> Retried:
        """Put these back to work; each that cannot be says why."""
        retried = await self._operator.redrive(conn, task_ids, reason)
        refused = {}
        for task_id in task_ids:
            if task_id not in retried:
                try:
                    state = (await self._operator.show(conn, task_id)).state
                    allowed = after(state, Move.REDRIVE) is not None
                    refused[task_id] = (
                        str(await self._operator.obstacle(conn, task_id)) if allowed else f"it is {state}"
                    )
                except TaskNotFound:
                    refused[task_id] = "it does not exist"
        return Retried(retried, refused)

    async def edit(self, conn: Conn, task_id: str, payload: str, reason: str) -> None:
        """Give a dead letter another payload and put it back to work; the old payload is kept."""
        before = await self._operator.show(conn, task_id)
        # Where a delivery goes, and what it says, was checked when it was made.
        refuse_reserved(before.kind, "edited")
        row = await (await conn.execute(self._sql["payload_hash"], {"id": task_id})).fetchone()
        if row is None:
            raise MoveRefused(task_id, before.state, Move.REDRIVE)
        handler = self._handlers.get(before.kind)
        if handler is None:
            raise Misused(
                f"kind {before.kind} is not known here: name the app that has it, so that the payload "
                "can be checked"
            )
        encoded = handler.check(payload)
        check_payload(before.kind, encoded, self._payload_bytes_max)
        values = {
            "id": task_id, "seen": row[0], "payload": encoded, "version": handler.version,
            "by": self._by, "reason": reason,
        }  # fmt: skip
        author = Author(self._by, reason)
        async with conn.transaction():
            if await (await conn.execute(self._tasks["edit"], values)).fetchone() is None:
                raise MoveRefused(task_id, (await self._operator.show(conn, task_id)).state, Move.REDRIVE)
            changed = _changed(before.payload or "{}", encoded)
            await self._audit.note_tasks(
                conn, Action.TASK_EDIT, author, [task_id], details={"changed": changed}
            )
            await self._operator.redrive(conn, [task_id], reason)

    async def forget(self, conn: Conn, task_ids: Sequence[str], reason: str) -> list[str]:
        """Let dead letters go for good; answers which."""
        values = {"ids": DeadFilter(ids=task_ids).values()["ids"]}
        async with conn.transaction():
            # Noted first: what is gone cannot say any more what it was.
            locked = await conn.execute(self._tasks["lock_dead"], values)
            ids = [task_id for (task_id,) in await locked.fetchall()]
            await self._audit.note_tasks(conn, Action.TASK_FORGET, Author(self._by, reason), ids)
            rows = await (await conn.execute(self._tasks["forget"], {"ids": ids})).fetchall()
            lanes = [bucket for _, bucket in rows if bucket is not None]
            if lanes:
                await conn.execute(self._tasks["enlist"], {"names": lanes})
        if ids:
            self._listen(TasksForgotten(ids, self._by, reason))
        return ids

    async def edits(self, conn: Conn, task_id: str) -> list["Edit"]:
        """What a task's payload was before it was changed."""
        rows = await (await conn.execute(self._sql["edits"], {"id": task_id})).fetchall()
        return [Edit(*row) for row in rows]

    async def reveal(self, conn: Conn, task_id: str, reason: str) -> TaskView:
        """The task with nothing struck out, for whoever says why; that it was shown is in the audit."""
        view = await self._operator.show(conn, task_id)
        async with conn.transaction():
            await self._audit.note_tasks(conn, Action.TASK_REVEAL, Author(self._by, reason), [view.id])
        return view


@dataclass(frozen=True, slots=True)
class Edit:
    """A payload as it was before somebody changed it."""

    edited_at: datetime
    edited_by: str
    reason: str
    version: int
    payload: str


_ALL = "(all of it)"


def _changed(before: str, after: str) -> list[str]:
    """The fields that differ: their names are for the audit, their values are not."""
    try:
        old, new = read_json(before), read_json(after)
    except JsonUnreadable:
        return [_ALL]
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [_ALL] if old != new else []
    return sorted(name for name in old.keys() | new.keys() if old.get(name, ...) != new.get(name, ...))
