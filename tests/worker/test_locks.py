"""Another session locks what a worker needs: nothing is lost, few backends wait, and the log names it."""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast.core.events import DatabaseFound, DatabaseLocked, DatabaseLost, DatabaseUnlocked, Event
from holdfast.db.connect import Conn, connect, connect_sync
from holdfast.db.link import Blocked, Link, LinkLost
from holdfast.db.locks import Blocker, blockers
from holdfast.http.pool import PoolConnection
from holdfast.worker.options import WorkerOptions
from holdfast.worker.supervisor.lock_watch import LockWatch
from tests.cluster import QUICK, postgres
from tests.locks.scene import Scene
from tests.locks.worker import DEADLINE
from tests.tree import Tree, until, until_true
from tests.worker.test_maintenance import Keeper, silent_worker
from tests.world import World

NAME = "holdfast test claims"
READ = "select count(*) from holdfast.ready"


async def lock(conn: Conn, table: str = "ready") -> None:
    """Begin a transaction that keeps everybody else from a table."""
    await conn.execute("begin")
    name = sql.Identifier("holdfast", table)
    await conn.execute(sql.SQL("lock table {} in access exclusive mode").format(name))


async def count(conn: Conn, name: str, where: str = "true") -> int:
    """The backends of an application."""
    row = await (
        await conn.execute(
            f"select count(*) from pg_stat_activity where application_name = %s and {where}".encode(), [name]
        )
    ).fetchone()
    assert row is not None
    found: int = row[0]
    return found


async def read(conn: Conn) -> int:
    await conn.execute(READ)
    return conn.info.backend_pid


@pytest.mark.catches("locks-waited-for-until-the-deadline")
async def test_a_statement_that_gets_no_lock_ends_and_its_connection_stays(
    world: World, direct_url: str
) -> None:
    other = await world.open_direct(direct_url)
    told: list[Event] = []
    link = Link(direct_url, NAME, told.append, deadline_seconds=1.0)
    backend = await link.use(read)
    await lock(other)
    for _ in range(2):
        with pytest.raises(Blocked):
            await link.use(read)
    await other.execute("rollback")
    assert await link.use(read) == backend
    assert link.generation == 1
    assert not [event for event in told if isinstance(event, DatabaseLost)]
    await link.close()


async def _async_read(conn: Conn) -> None:
    with suppress(psycopg.Error):
        await conn.execute(READ)
    await conn.close()


@pytest.mark.catches("backend-outlives-its-client", "api-backend-outlives-its-client")
@pytest.mark.parametrize("opened", ["connect", "connect_sync", "PoolConnection"])
async def test_a_backend_that_waits_for_a_lock_ends_when_its_client_has_gone(
    world: World, direct_url: str, opened: str
) -> None:
    other = await world.open_direct(direct_url)
    await lock(other)
    doing: Awaitable[object]
    if opened == "connect_sync":
        sync = connect_sync(direct_url, application=NAME)
        descriptor = sync.fileno()
        doing = asyncio.create_task(asyncio.to_thread(_sync_read, sync))
    else:
        conn = await (
            connect(direct_url, application=NAME)
            if opened == "connect"
            # Without its time for locks, which would end the wait as well.
            else PoolConnection.connect(f"{direct_url}?options=-clock_timeout%3D0", application_name=NAME)
        )
        descriptor = conn.fileno()
        doing = asyncio.create_task(_async_read(conn))
    watch = await world.open_direct(direct_url)

    async def waits() -> bool:
        return await count(watch, NAME, "wait_event_type = 'Lock'") == 1

    await until_true(waits, 10, "it to wait")
    with socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)
    await doing

    async def gone() -> bool:
        return await count(watch, NAME) == 0

    await until_true(gone, 6, "the end of its backend")
    await other.execute("rollback")


def _sync_read(conn: "psycopg.Connection[Any]") -> None:
    with suppress(psycopg.Error):
        conn.execute(READ)
    conn.close()


async def test_a_commit_that_waits_for_a_standby_goes_on_waiting_when_its_client_has_gone() -> None:
    """If it ended, others would see what the standby lacks."""
    quick = {**QUICK, "synchronous_standby_names": "nobody"}
    with postgres(15, quick) as server:
        async with await connect(f"{server}/postgres") as watch:
            await watch.execute("set synchronous_commit = local")
            await watch.execute("create table written ()")
            conn = await connect(f"{server}/postgres", application=NAME)
            writing = asyncio.create_task(conn.execute("insert into written default values"))

            async def waits() -> bool:
                return await count(watch, NAME, "wait_event = 'SyncRep'") == 1

            await until_true(waits, 10, "the commit to wait")
            Link._cut(conn)
            with pytest.raises(psycopg.OperationalError):
                await writing
            await conn.close()
            began = time.monotonic()
            # The server looks every two seconds whether the client is there.
            while time.monotonic() - began < 5.0:
                assert await waits()
            assert await (await watch.execute("select count(*) from written")).fetchone() == (0,)


@pytest.mark.catches("sends-beside-the-abandoned", "lock-blamed-on-the-database")
async def test_without_a_time_for_locks_one_statement_is_left_behind_and_no_more(
    world: World, url: str, direct_url: str
) -> None:
    """As behind a pooler, where the server does not know how long a lock may be waited for."""
    other, watch = await world.open_direct(direct_url), await world.open_direct(direct_url)
    told: list[Event] = []
    link = Link(url, NAME, told.append, deadline_seconds=0.3, lock_seconds=60.0)
    await lock(other)
    began = time.monotonic()
    # The server looks after two seconds whether the client of a backend is still there.
    while time.monotonic() - began < 1.8:
        with pytest.raises(LinkLost):
            await link.use(read)
        assert await count(watch, NAME, "wait_event_type = 'Lock'") <= 1
    await other.execute("rollback")

    async def works() -> bool:
        with suppress(LinkLost):
            return bool(await link.use(read))
        return False

    await until_true(works, 2, "it to go on")
    assert not [event for event in told if isinstance(event, DatabaseLost)]
    await link.close()


@pytest.mark.catches("late-statement-not-told")
async def test_a_statement_that_is_late_for_another_reason_is_told_once_the_database_answers(
    world: World, url: str
) -> None:
    told: list[Event] = []
    link = Link(url, NAME, told.append, deadline_seconds=0.3)

    async def sleep(conn: Conn) -> None:
        await conn.execute("select pg_sleep(1)")

    with pytest.raises(LinkLost):
        await link.use(sleep)
    await link.use(read)
    lost, found = [event for event in told if isinstance(event, (DatabaseLost, DatabaseFound))]
    assert lost == DatabaseLost("a statement was not answered within 0.3 s")
    assert found == DatabaseFound()
    await link.close()


class Watched:
    """A connection whose delays are looked into, and what was told of them."""

    def __init__(self, url: str) -> None:
        self.told: list[Event] = []
        self._watch = LockWatch(WorkerOptions(url, name="test"), self.told.append)
        self.link = Link(url, NAME, self._watch, deadline_seconds=5.0)

    async def named(self) -> DatabaseLocked:
        await until(lambda: self.told, 10, "the cause")
        (locked,) = self.told
        assert isinstance(locked, DatabaseLocked)
        return locked

    async def close(self) -> None:
        """Wait for the end of what was named, and of the looks."""
        await until(lambda: isinstance(self.told[-1], DatabaseUnlocked), 10, "the end of the lock")
        assert self._watch._watching is not None
        await self._watch._watching
        await self.link.close()


async def test_whoever_holds_a_row_is_named(world: World, url: str, direct_url: str) -> None:
    await world.register(world.worker)
    other, watched = await world.open_direct(direct_url), Watched(url)
    await other.execute("begin")
    await other.execute("update holdfast.workers set name = name")
    renewing = asyncio.create_task(
        watched.link.use(lambda conn: world.store.workers.renew(conn, [world.worker], 30.0))
    )
    row = await watched.named()
    assert (row.pid, row.user, row.state) == (other.info.backend_pid, "postgres", "idle in transaction")
    assert (row.locked, row.waiting) == (["a row of holdfast.workers"], [NAME])
    assert row.transaction_seconds is not None
    await other.execute("commit")
    await renewing
    await watched.close()


async def test_whoever_waits_before_us_is_named_with_whom_it_waits_for(
    world: World, url: str, direct_url: str
) -> None:
    """Somebody wants a table exclusively and waits for a reader: everybody else waits behind them."""
    other, third = await world.open_direct(direct_url), await world.open_direct(direct_url)
    watched = Watched(url)
    await other.execute("begin")
    await other.execute(READ)
    wanting = asyncio.create_task(lock(third))
    await until_true(lambda: _waits_for(world, other, third), 10, "the one who wants it")
    reading = asyncio.create_task(watched.link.use(read))
    queued = await watched.named()
    assert (queued.locked, queued.pid) == (["holdfast.ready"], third.info.backend_pid)
    assert queued.waits_for == [other.info.backend_pid]
    await other.execute("commit")
    await wanting
    await third.execute("rollback")
    await reading
    await watched.close()


async def test_a_role_without_rights_sees_who_it_is_but_not_since_when(world: World, direct_url: str) -> None:
    other, waiting = await world.open_direct(direct_url), await connect(direct_url, application=NAME)
    await lock(other)
    reading = asyncio.create_task(_async_read(waiting))
    asking = await world.open_direct(direct_url)
    async with asking.transaction(force_rollback=True):
        await asking.execute("create role of_no_rights")
        await asking.execute("set local role of_no_rights")
        found: list[Blocker] = []
        while not found:
            found = await blockers(asking, [NAME])
    assert (found[0].pid, found[0].locked) == (other.info.backend_pid, ["holdfast.ready"])
    assert (found[0].user, found[0].application) == ("postgres", "holdfast")
    assert (found[0].state, found[0].transaction_seconds) == (None, None)
    await other.execute("rollback")
    await reading


@pytest.mark.catches("short-waits-are-named")
async def test_a_wait_that_has_just_begun_is_not_the_cause(world: World, direct_url: str) -> None:
    """When a lock ends, the statements that waited for it wait for one another for a moment."""
    other, waiting = await world.open_direct(direct_url), await connect(direct_url, application=NAME)
    await lock(other)
    reading = asyncio.create_task(_async_read(waiting))
    await until_true(lambda: _waits_for(world, other, waiting), 10, "the reader to wait")
    found: list[Blocker] = []
    asked = 0
    while not found:
        found = await blockers(world.conn, [NAME])
        asked += 1
    row = await (
        await world.conn.execute(
            "select clock_timestamp() - waitstart >= interval '0.2 s' from pg_locks"
            " where pid = %s and not granted",
            [waiting.info.backend_pid],
        )
    ).fetchone()
    assert row == (True,)
    assert asked > 1
    await other.execute("rollback")
    await reading


async def _waits_for(world: World, holder: Conn, waiter: Conn) -> bool:
    row = await (
        await world.conn.execute("select pg_blocking_pids(%s)", [waiter.info.backend_pid])
    ).fetchone()
    return row == ([holder.info.backend_pid],)


@pytest.mark.catches("blocked-chore-stops-the-others")
async def test_a_chore_that_gets_no_lock_holds_up_no_other(world: World, direct_url: str) -> None:
    task, _ = await silent_worker(world)
    conn, other = await world.open_direct(direct_url), await world.open_direct(direct_url)
    await conn.execute("set lock_timeout = '100ms'")
    await lock(other, "schedules")
    keeper = Keeper(world, conn)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        await keeper.turn()
    assert await world.attempts(task) == ["reclaim"]
    await other.execute("rollback")
    await keeper.rest(1.0)


@pytest.mark.parametrize("opened", ["connect_sync", "PoolConnection"])
async def test_options_of_the_address_are_kept(direct_url: str, opened: str) -> None:
    url = f"{direct_url}?options=-cwork_mem%3D7MB"
    if opened == "connect_sync":
        sync = connect_sync(url, application=NAME)
        row = sync.execute("show work_mem").fetchone()
        sync.close()
    else:
        conn = await PoolConnection.connect(url, autocommit=True)
        row = await (await conn.execute("show work_mem")).fetchone()
        await conn.close()
    assert row == ("7MB",)


@pytest.mark.alone
@pytest.mark.catches("blocker-not-named", "blocker-named-again", "locks-waited-for-until-the-deadline")
async def test_a_locked_table_costs_no_connections_and_one_line_names_the_cause(
    world: World,
    trees: Callable[..., Tree],
    direct_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Statements have a second instead of ten, so the lock outlasts many; `make locks` locks every table."""
    monkeypatch.setenv(DEADLINE, "1")
    tree = trees("locked", at=direct_url, app="tests.locks.app:app", module="tests.locks.worker")
    await tree.start("--processes", 4).ready(4)
    watch = await world.open_direct(direct_url)
    scene = Scene(watch, direct_url, tree, 4)
    async with scene.at_work():
        seen = await scene.lock("tasks", 5.0, before_seconds=1.0)
    assert seen.misses() == []
    assert seen.waited >= 4, "every executor met the lock"
    assert [line["event"] for line in seen.lines] == ["database.locked", "database.unlocked"]
    ended = await scene.ended()
    assert (ended["attempts at most"], ended["failures at most"]) == (2, 1), ended
