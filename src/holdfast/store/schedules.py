"""Fires schedules: a tick creates its task and advances the schedule in one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import HoldfastError, KeyConflict, Misused, ScheduleNotFound
from holdfast.core.events import Listener, ScheduleFailed, SchedulesDeclared, SchedulesFired, silent
from holdfast.core.handler import Handler, Scheduled
from holdfast.core.outcome import as_seconds
from holdfast.core.schedule import Cron, Due
from holdfast.core.task import Enqueued, NewTask
from holdfast.db.bridges import bridge_async
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.enqueue import Enqueuer

FIRE_LIMIT = 100
# One that could not be fired is tried again after so long. Another host may know its time zone, so whoever
# does maintenance waits longer than the others.
AGAIN_SECONDS = 60.0
AGAIN_LAST_SECONDS = 70.0


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as people see it."""

    name: str
    kind: str
    queue: str
    version: int
    expression: str
    zone: str
    payload: str
    bucket: str | None
    missed: str
    most: int
    jitter_seconds: float
    next_at: datetime
    caught_up_to: datetime
    last_tick_at: datetime | None
    declared_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    failed_at: datetime | None

    def correct_next_at(self, now: datetime) -> datetime:
        """The first tick after `caught_up_to`; a next_at that an operator moved earlier is kept.

        A last tick in the future is ignored: before 0.2.0 a worker with a fast clock could fire one.
        """
        dealt = self.caught_up_to
        if self.last_tick_at is not None and self.last_tick_at <= now:
            dealt = max(dealt, self.last_tick_at)
        first = next(self.cron.after(dealt))
        return first if dealt > now else min(first, self.next_at)

    def is_delayed(self, now: datetime) -> bool:
        """Whether next_at is later than the next tick; false if this host lacks the time zone."""
        with suppress(Misused):
            _, second = islice(self.cron.after(now), 2)
            return self.next_at >= second
        return False

    @property
    def cron(self) -> Cron:
        """When it fires."""
        when = self.expression, self.zone, self.name
        return Cron(*when, missed=self.missed, most=self.most, jitter=self.jitter_seconds)

    def task(self, key: str, run_at: datetime | None = None) -> NewTask:
        """The task of one tick."""
        return NewTask(
            self.kind,
            self.payload,
            queue=self.queue,
            version=self.version,
            key=key,
            run_at=run_at,
            bucket=self.bucket,
        )


class Pulse(NamedTuple):
    """What the database's clock says, and in how many seconds the next tick comes."""

    now: datetime
    next_tick_seconds: float | None


class Schedules:
    """The schedules of one installation."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str = "holdfast") -> None:
        self._sql = load("store/schedules.sql", settings.schema_name)
        self._enqueuer = Enqueuer(settings, listen)
        self._audit = AuditWriter(settings, listen)
        self._listen = listen
        self._by = by

    async def declare(self, conn: Conn, handlers: Iterable[Handler], now: datetime | None = None) -> None:
        """What code says of its kinds; a pause stays. `now` is the database's clock unless given."""
        now = now or await read_clock(conn)
        names = []
        for handler in handlers:
            for one, name in zip(handler.schedules, handler.schedule_names, strict=True):
                await conn.execute(self._sql["declare"], _declared(handler, one, name, now))
                names.append(name)
        if names:
            self._listen(SchedulesDeclared(names))

    async def pulse(self, conn: Conn, now: datetime | None = None) -> Pulse:
        """Read the database's clock, and when to fire next."""
        values = {"now": now, "wait": AGAIN_LAST_SECONDS}
        row = await (await conn.execute(self._sql["pulse"], values)).fetchone()
        assert row is not None, "a select without a table always answers"
        return Pulse(*row)

    async def fire(self, conn: Conn, now: datetime | None = None, *, failed: bool = False) -> None:
        """Make the tasks of every tick that has come; with `failed`, only of those that another could not."""
        values = {
            "now": now or await read_clock(conn),
            "failed": failed,
            "wait": AGAIN_SECONDS if failed else AGAIN_LAST_SECONDS,
            "limit": FIRE_LIMIT,
        }
        fired = FIRE_LIMIT
        while fired == FIRE_LIMIT:
            async with conn.transaction():
                fired = await self._fire_some(conn, values)

    async def _fire_some(self, conn: Conn, values: Mapping[str, object]) -> int:
        cursor = await conn.execute(self._sql["due"], values)
        found = [ScheduleView(*row) for row in await cursor.fetchall()]
        now = values["now"]
        assert isinstance(now, datetime), "it was read or given"
        tried = {view.name: await self._fire_one(conn, view, now) for view in found}
        due = {name: ticks for name, ticks in tried.items() if ticks is not None}
        if due:
            moved = {
                "now": now,
                "names": list(due),
                "nexts": [next_at for _, next_at in due.values()],
                "lasts": [fires[-1] if fires else None for fires, _ in due.values()],
            }
            await conn.execute(self._sql["fired"], moved)
            self._listen(SchedulesFired(list(due), sum(len(fires) for fires, _ in due.values())))
        if len(due) < len(tried):
            names = [name for name in tried if name not in due]
            await conn.execute(self._sql["not_fired"], {"now": now, "names": names})
        return len(found)

    async def _fire_one(self, conn: Conn, view: ScheduleView, now: datetime) -> Due | None:
        """One that cannot be fired says so, holds up no other, and is tried again later."""
        try:
            due = view.cron.due(view.next_at, now, failed=view.failed_at is not None)
            tasks = [
                view.task(key_of(view.name, tick), tick + view.cron.delay(view.name, tick))
                for tick in due.fires
            ]
            try:
                await self._enqueue(conn, tasks)
            except KeyConflict:
                # A tick whose key stands for a task with another payload has had its task.
                for task in tasks:
                    with suppress(KeyConflict):
                        await self._enqueue(conn, [task])
        except HoldfastError as error:
            self._listen(ScheduleFailed(view.name, str(error)))
            return None
        return due

    async def _enqueue(self, conn: Conn, tasks: Sequence[NewTask]) -> None:
        if tasks:
            async with conn.transaction():
                await self._enqueuer.enqueue(bridge_async(conn), tasks)

    async def correct(self, conn: Conn, now: datetime | None = None) -> None:
        """Move next ticks to where they belong: the clock was put back, or a worker's clock was fast."""
        now = now or await read_clock(conn)
        wrong: list[tuple[str, datetime, datetime]] = []
        for view in await self.list(conn):
            # One whose time zone is not known here is left to those who know it.
            with suppress(Misused):
                if view.paused_at is None and (correct := view.correct_next_at(now)) != view.next_at:
                    wrong.append((view.name, view.next_at, correct))
        if wrong:
            names, seen, nexts = map(list, zip(*wrong, strict=True))
            await conn.execute(self._sql["correct"], {"names": names, "seen": seen, "nexts": nexts})

    async def list(self, conn: Conn) -> list[ScheduleView]:
        """Every schedule."""
        cursor = await conn.execute(self._sql["list"], {"name": None})
        return [ScheduleView(*row) for row in await cursor.fetchall()]

    async def show(self, conn: Conn, name: str) -> ScheduleView:
        """One of them."""
        row = await (await conn.execute(self._sql["list"], {"name": name})).fetchone()
        if row is None:
            known = ", ".join(view.name for view in await self.list(conn))
            raise ScheduleNotFound(name, known)
        return ScheduleView(*row)

    async def pause(self, conn: Conn, name: str, reason: str) -> None:
        """Fire no more of its ticks; those that pass meanwhile are not made up for."""
        await self.show(conn, name)
        async with conn.transaction():
            await conn.execute(self._sql["pause"], {"name": name, "by": self._by, "reason": reason})
            await self._note(conn, Action.SCHEDULE_PAUSE, name, reason)

    async def resume(self, conn: Conn, name: str, now: datetime | None = None) -> bool:
        """Fire the ticks from now on; whether it was paused."""
        view = await self.show(conn, name)
        now = now or await read_clock(conn)
        values = {"name": name, "now": now, "next_at": next(view.cron.after(now))}
        async with conn.transaction():
            resumed = await (await conn.execute(self._sql["resume"], values)).fetchone() is not None
            if resumed:
                await self._note(conn, Action.SCHEDULE_RESUME, name)
        return resumed

    async def run(self, conn: Conn, name: str) -> Enqueued:
        """Make a task now, beside its ticks."""
        view = await self.show(conn, name)
        async with conn.transaction():
            (made,) = await self._enqueuer.enqueue(bridge_async(conn), [view.task(f"{name}@run-{uuid4()}")])
            await self._note(conn, Action.SCHEDULE_RUN, name)
        return made

    async def remove(self, conn: Conn, name: str) -> None:
        """Forget it; code that still declares it makes it anew when a worker starts."""
        await self.show(conn, name)
        async with conn.transaction():
            await conn.execute(self._sql["remove"], {"name": name})
            await self._note(conn, Action.SCHEDULE_REMOVE, name)

    async def _note(self, conn: Conn, action: Action, name: str, reason: str = "") -> None:
        await self._audit.note(conn, action, Author(self._by, reason), details={"schedule": name})


def key_of(name: str, tick: datetime) -> str:
    """What the task of one tick is known by."""
    return f"{name}@{tick.astimezone(UTC):%Y-%m-%dT%H:%MZ}"


def _declared(handler: Handler, scheduled: Scheduled, name: str, now: datetime) -> dict[str, object]:
    cron, payload, bucket = scheduled
    return {
        "name": name,
        "kind": handler.kind,
        "queue": handler.queue,
        "version": handler.version,
        "expression": cron.expression,
        "zone": cron.zone,
        "payload": payload,
        "bucket": bucket,
        "missed": str(cron.missed),
        "most": cron.most,
        "jitter": as_seconds(cron.jitter),
        "next_at": next(cron.after(now)),
        "now": now,
    }
