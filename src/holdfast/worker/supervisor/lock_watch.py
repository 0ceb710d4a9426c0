"""Logs which session's lock delays a worker's statements.

Connections report that a statement is delayed, those of executors over the channel. Then the server is asked
once a second whether a lock is why, until nothing of this worker waits and the named transactions have ended.
"""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from holdfast.core.events import (
    DatabaseLocked,
    DatabaseUnlocked,
    Event,
    Listener,
    StatementDelayed,
    silent,
)
from holdfast.db.connect import Conn
from holdfast.db.link import Link, LinkLost
from holdfast.db.locks import Blocker, blockers, open_transactions
from holdfast.worker.channel import Channel, Report
from holdfast.worker.options import WorkerOptions

LOOK_SECONDS = 1.0
# After this many checks without a lock, watching stops: the delay has another reason.
CHECKS_WITHOUT_LOCK_MAX = 2


@dataclass(frozen=True, slots=True)
class Named:
    """A blocker that was named, and when, in monotonic seconds."""

    blocker: Blocker
    at: float


class LockWatch:
    """A listener in a supervisor. It forwards all events except StatementDelayed, which it investigates."""

    def __init__(self, options: WorkerOptions, listen: Listener) -> None:
        self._listen = listen
        url = options.direct_url or options.url
        self._link = Link(url, f"holdfast {options.name} locks", silent)
        self._delayed: set[str] = set()
        self._named: dict[tuple[int, str | None], Named] = {}
        self._watching: asyncio.Task[None] | None = None

    def __call__(self, event: Event, /) -> None:
        """Forward the event, or investigate it."""
        match event:
            case StatementDelayed(application):
                self._delayed.add(application)
                if self._watching is None or self._watching.done():
                    self._watching = asyncio.create_task(self._watch())
            case _:
                self._listen(event)

    async def _watch(self) -> None:
        without_lock = 0
        while self._delayed or self._named:
            try:
                waits = await self._link.use(self._look)
            except (LinkLost, psycopg.Error):
                # The connections that need the database report the error themselves.
                waits = False
            without_lock = 0 if waits or self._named else without_lock + 1
            if without_lock == CHECKS_WITHOUT_LOCK_MAX:
                without_lock = 0
                self._delayed.clear()
            await asyncio.sleep(LOOK_SECONDS)
        await self._link.close()

    async def _look(self, conn: Conn) -> bool:
        """Report new blockers and ended ones; return whether anything waits."""
        found = await blockers(conn, self._delayed)
        for blocker in found:
            key = blocker.pid, blocker.transaction
            if key not in self._named:
                self._named[key] = Named(blocker, time.monotonic())
                self._listen(_locked(blocker))
        if self._named:
            self._tell_ended(await open_transactions(conn, [one.blocker for one in self._named.values()]))
        return bool(found)

    def _tell_ended(self, still_open: Collection[tuple[int, str | None]]) -> None:
        for key in self._named.keys() - still_open:
            named = self._named.pop(key)
            seconds = round(time.monotonic() - named.at, 3)
            self._listen(DatabaseUnlocked(named.blocker.locked, named.blocker.pid, seconds))


def over_the_channel(channel: Channel) -> Listener:
    """The listener of an executor that tells its supervisor of delayed statements."""

    def hear(event: Event, /) -> None:
        if isinstance(event, StatementDelayed):
            channel.say(Report.DELAYED, application=event.application)

    return hear


def _locked(blocker: Blocker) -> DatabaseLocked:
    seconds = blocker.transaction_seconds
    return DatabaseLocked(
        blocker.locked,
        blocker.pid,
        blocker.application,
        blocker.user,
        blocker.state,
        None if seconds is None else round(seconds, 3),
        blocker.waits_for,
        blocker.waiting,
    )
