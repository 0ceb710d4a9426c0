"""Checks the database for `/readyz` on its own connection and shares the result for a second."""

import asyncio
import time

import psycopg
from psycopg import sql

from holdfast.core.errors import HoldfastError
from holdfast.db.connect import Conn
from holdfast.db.migrate import require_current
from holdfast.http.problems import missing_right
from holdfast.http.service import Service

SHARED_SECONDS = 1.0
CHECK_SECONDS = 6.0


class Readiness:
    """Whether the database answers, at the version that this package needs; one look a second at most."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._conn: Conn | None = None
        self._checking: asyncio.Task[Exception | None] | None = None
        self._checked_at = 0.0

    async def check(self) -> Exception | None:
        """What is wrong, if anything; whoever asks meanwhile or soon after is given the same answer."""
        is_old = time.monotonic() - self._checked_at > SHARED_SECONDS
        if self._checking is None or (self._checking.done() and is_old):
            self._checking = asyncio.create_task(self._look())
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                return await asyncio.shield(self._checking)
        except TimeoutError:
            return psycopg.OperationalError("the database gives no answer")

    async def close(self) -> None:
        """Let the connection go."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        await self._drop()

    async def _look(self) -> Exception | None:
        try:
            if self._conn is not None:
                try:
                    return await self._require_current(self._conn)
                except psycopg.OperationalError:
                    if not self._conn.closed:
                        raise
                    # It may have ended while nobody looked: only a new one shows how things are.
                    await self._drop()
            self._conn = await self._service.pool.connect()
            return await self._require_current(self._conn)
        except (psycopg.Error, HoldfastError) as error:
            await self._drop()
            return error
        finally:
            self._checked_at = time.monotonic()

    async def _require_current(self, conn: Conn) -> Exception | None:
        async with self._service.pool.bounded(conn, writes=False):
            settings = self._service.settings
            await require_current(conn, settings.schema_name)
            readable = sql.SQL("select from {}.tasks limit 0").format(sql.Identifier(settings.schema_name))
            try:
                await conn.execute(readable)
            except psycopg.errors.InsufficientPrivilege as error:
                raise missing_right(settings.database_url, error) from error
        return None

    async def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()
