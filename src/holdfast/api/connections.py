"""The app's own database connections, opened on first use, for calls that pass no connection."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg

from holdfast.config import Settings
from holdfast.db.connect import Conn, away, connect, connect_sync

T = TypeVar("T")

# After so long without use a connection is asked whether it is still there.
STALE_SECONDS = 5.0


class AppConnections:
    """One connection for each event loop, and one for calls that block."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.database_url
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, _Place] = WeakKeyDictionary()
        self._sync: psycopg.Connection[Any] | None = None
        self._sync_used_at = 0.0
        self._sync_turn = threading.Lock()

    async def use(self, work: Callable[[Conn], Awaitable[T]]) -> T:
        """Do some work on the app's own connection, alone."""
        loop = asyncio.get_running_loop()
        place = self._places.get(loop)
        if place is None:
            place = self._places[loop] = _Place()
        async with place.turn:
            conn = await self._fresh(place)
            try:
                return await work(conn)
            finally:
                place.used_at = time.monotonic()

    def use_sync(self, work: Callable[["psycopg.Connection[Any]"], T]) -> T:
        """The same, where calls block."""
        with self._sync_turn:
            conn = self._fresh_sync()
            try:
                return work(conn)
            finally:
                self._sync_used_at = time.monotonic()

    async def close(self) -> None:
        """Let every connection of this loop go, and the one that blocks."""
        place = self._places.pop(asyncio.get_running_loop(), None)
        if place is not None and place.conn is not None:
            await place.conn.close()
        self.close_sync()

    def close_sync(self) -> None:
        """Let the connection of calls that block go."""
        if self._sync is not None:
            self._sync.close()
            self._sync = None

    async def _fresh(self, place: "_Place") -> Conn:
        if place.conn is not None and not place.conn.closed:
            if time.monotonic() - place.used_at < STALE_SECONDS:
                return place.conn
            try:
                await place.conn.execute("select 1")
            except psycopg.OperationalError:
                await place.conn.close()
            else:
                return place.conn
        try:
            place.conn = await connect(self._url, application="holdfast app")
        except psycopg.Error as error:
            raise away(self._url, error) from error
        return place.conn

    def _fresh_sync(self) -> "psycopg.Connection[Any]":
        if self._sync is not None and not self._sync.closed:
            if time.monotonic() - self._sync_used_at < STALE_SECONDS:
                return self._sync
            try:
                self._sync.execute("select 1")
            except psycopg.OperationalError:
                self._sync.close()
            else:
                return self._sync
        try:
            self._sync = connect_sync(self._url, application="holdfast app")
        except psycopg.Error as error:
            raise away(self._url, error) from error
        return self._sync


class _Place:
    """The connection of one event loop."""

    def __init__(self) -> None:
        self.conn: Conn | None = None
        self.used_at = 0.0
        self.turn = asyncio.Lock()
