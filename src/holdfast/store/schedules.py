"""Schedules in the database: whoever locks one fires its ticks, and moves it on in the same commit."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import HoldfastError, ScheduleNotFound
from holdfast.core.events import Listener, ScheduleFailed, SchedulesDeclared, SchedulesFired, silent
from holdfast.core.handler import Handler, Scheduled
from holdfast.core.outcome import as_seconds
from holdfast.core.schedule import Cron, Due
from holdfast.core.task import Enqueued, NewTask
from holdfast.store.audit import AuditWriter, Author
from holdfast.store.bridges import bridge_async
from holdfast.store.enqueue import Enqueuer
from holdfast.store.pool import Conn
from holdfast.store.sql import load

FIRE_LIMIT = 100
# One that could not fire is tried again after so long: another host may know its time zone.
AGAIN = timedelta(minutes=1)


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
    last_tick_at: datetime | None = None
    declared_at: datetime | None = None
    paused_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None

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


class Schedules:
    """The schedules of one installation."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str = "holdfast") -> None:
        self._sql = load("schedules.sql", settings.schema_name)
        self._enqueuer = Enqueuer(settings, listen)
        self._audit = AuditWriter(settings, listen)
        self._listen = listen
        self._by = by

    async def declare(self, conn: Conn, handlers: Iterable[Handler], now: datetime | None = None) -> None:
        """What code says of its kinds; a pause stays."""
        now = now or datetime.now(UTC)
        names = []
        for handler in handlers:
            for one, name in zip(handler.schedules, handler.schedule_names, strict=True):
                await conn.execute(self._sql["declare"], _declared(handler, one, name, now))
                names.append(name)
        if names:
            self._listen(SchedulesDeclared(names))

    async def fire(self, conn: Conn, now: datetime | None = None) -> None:
        """Make the tasks of every tick that has come."""
        moment = now or datetime.now(UTC)
        fired = FIRE_LIMIT
        while fired == FIRE_LIMIT:
            async with conn.transaction():
                fired = await self._fire_some(conn, moment)

    async def _fire_some(self, conn: Conn, now: datetime) -> int:
        cursor = await conn.execute(self._sql["due"], {"now": now, "limit": FIRE_LIMIT})
        found = [ScheduleView(*row) for row in await cursor.fetchall()]
        if not found:
            return 0
        due = {view.name: await self._fire_one(conn, view, now) for view in found}
        values = {
            "names": list(due),
            "nexts": [next_at for _, next_at in due.values()],
            "lasts": [fires[-1] if fires else None for fires, _ in due.values()],
        }
        await conn.execute(self._sql["fired"], values)
        self._listen(SchedulesFired(list(due), sum(len(fires) for fires, _ in due.values())))
        return len(found)

    async def _fire_one(self, conn: Conn, view: ScheduleView, now: datetime) -> Due:
        """One that cannot fire says so, holds up no other, and is tried again a little later."""
        try:
            due = view.cron.due(view.next_at, now)
            tasks = [
                view.task(key_of(view.name, tick), tick + view.cron.delay(view.name, tick))
                for tick in due.fires
            ]
            if tasks:
                async with conn.transaction():
                    await self._enqueuer.enqueue(bridge_async(conn), tasks)
        except HoldfastError as error:
            self._listen(ScheduleFailed(view.name, str(error)))
            return Due([], now + AGAIN)
        return due

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
        values = {"name": name, "next_at": next(view.cron.after(now or datetime.now(UTC)))}
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
    }
