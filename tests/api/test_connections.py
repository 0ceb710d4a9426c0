"""Seven kinds of connection: a task commits with the caller's rows, or not at all."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import Holdfast, Task
from holdfast.core.errors import KeyConflict, NotAConnection
from tests.world import World

ROW = "insert into public.orders (id) values (7)"


@dataclass
class Caller:
    """One way to have a transaction; every step is awaited, whether or not it blocks."""

    conn: Any
    execute: Callable[[str], Awaitable[object]]
    commit: Callable[[], Awaitable[object]]
    rollback: Callable[[], Awaitable[object]]
    awaited: bool = True


def _later(call: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def run(*arguments: object) -> Any:
        return call(*arguments)

    return run


def _run_text(call: Callable[..., Any]) -> Callable[[str], Any]:
    return lambda text: call(sqlalchemy.text(text))


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        yield Caller(conn, conn.execute, conn.commit, conn.rollback)


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Caller]:
    with psycopg.connect(url) as conn:
        yield Caller(conn, _later(conn.execute), _later(conn.commit), _later(conn.rollback), awaited=False)


@asynccontextmanager
async def asyncpg_(url: str) -> AsyncIterator[Caller]:
    conn = await asyncpg.connect(url, statement_cache_size=0)
    transaction = conn.transaction()
    await transaction.start()
    yield Caller(conn, conn.execute, transaction.commit, transaction.rollback)
    await conn.close()


@asynccontextmanager
async def session_async(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"),
                                 connect_args={"statement_cache_size": 0})  # fmt: skip
    async with AsyncSession(engine) as session:
        yield Caller(
            session, lambda text: session.execute(sqlalchemy.text(text)), session.commit, session.rollback
        )
    await engine.dispose()


@asynccontextmanager
async def session_async_psycopg(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    async with AsyncSession(engine) as session:
        yield Caller(
            session, lambda text: session.execute(sqlalchemy.text(text)), session.commit, session.rollback
        )
    await engine.dispose()


@asynccontextmanager
async def connection_async(url: str) -> AsyncIterator[Caller]:
    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"),
                                 connect_args={"statement_cache_size": 0})  # fmt: skip
    conn: AsyncConnection
    async with engine.connect() as conn:
        yield Caller(conn, _run_text(conn.execute), conn.commit, conn.rollback)
    await engine.dispose()


@asynccontextmanager
async def session_sync(url: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session:
        execute = _later(lambda text: session.execute(sqlalchemy.text(text)))
        yield Caller(session, execute, _later(session.commit), _later(session.rollback), awaited=False)
    engine.dispose()


@asynccontextmanager
async def connection_sync(url: str) -> AsyncIterator[Caller]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as conn:
        execute = _later(lambda text: conn.execute(sqlalchemy.text(text)))
        yield Caller(conn, execute, _later(conn.commit), _later(conn.rollback), awaited=False)
    engine.dispose()


CALLERS = [
    psycopg_async, psycopg_sync, asyncpg_, session_async, session_async_psycopg, connection_async,
    session_sync, connection_sync,
]  # fmt: skip


@pytest.fixture
def app() -> Holdfast:
    made = Holdfast()

    @made.task("order.confirm")
    async def confirm(task: Task[dict[str, int]]) -> None:
        """Nothing: this is about the way in."""

    return made


@pytest.fixture
async def orders(world: World) -> AsyncIterator[World]:
    """A table of the caller's own."""
    await world.conn.execute("create table if not exists public.orders (id integer primary key)")
    await world.conn.execute("delete from public.orders")
    yield world
    await world.conn.execute("drop table public.orders")


async def enqueue(app: Holdfast, caller: Caller, **options: Any) -> Any:
    kind = app._kinds["order.confirm"]
    if caller.awaited:
        return await kind.enqueue({"order": 7}, conn=caller.conn, **options)
    return kind.enqueue_sync({"order": 7}, conn=caller.conn, **options)


async def counts(world: World) -> tuple[int, int]:
    row = await (await world.conn.execute("select count(*) from public.orders")).fetchone()
    assert row is not None
    return row[0], await world.rows("tasks")


@pytest.mark.parametrize("make", CALLERS, ids=lambda make: make.__name__)
async def test_a_task_commits_or_rolls_back_with_the_caller_s_rows(
    orders: World, direct_url: str, app: Holdfast, make: Any
) -> None:
    async with make(direct_url) as caller:
        await caller.execute(ROW)
        handle = await enqueue(app, caller, key="order:7", subject="order 7")
        assert handle.created
        assert await counts(orders) == (0, 0), "nothing is seen before the commit"
        await caller.commit()
    assert await counts(orders) == (1, 1)
    (claim,) = await orders.claim()
    assert (claim.id, claim.key, claim.payload) == (handle.id, "order:7", '{"order": 7}')
    await orders.complete(claim)
    await orders.conn.execute("delete from public.orders")
    async with make(direct_url) as caller:
        await caller.execute(ROW)
        await enqueue(app, caller)
        await caller.rollback()
    assert await counts(orders) == (0, 0)


@pytest.mark.parametrize("make", CALLERS, ids=lambda make: make.__name__)
async def test_inside_a_savepoint_it_goes_with_the_savepoint(
    orders: World, direct_url: str, app: Holdfast, make: Any
) -> None:
    async with make(direct_url) as caller:
        await caller.execute(ROW)
        await caller.execute("savepoint before")
        await enqueue(app, caller)
        await caller.execute("rollback to savepoint before")
        kept = await enqueue(app, caller, key="kept")
        await caller.commit()
    assert await counts(orders) == (1, 1)
    assert (await orders.show(kept.id)).key == "kept"


@pytest.mark.parametrize("make", CALLERS, ids=lambda make: make.__name__)
async def test_a_key_with_another_payload_is_named_whatever_the_driver(
    orders: World, direct_url: str, app: Holdfast, make: Any
) -> None:
    await app._kinds["order.confirm"].enqueue({"order": 1}, conn=orders.conn, key="same")
    async with make(direct_url) as caller:
        with pytest.raises(KeyConflict, match=r"'same' of kind 'order\.confirm' belongs to task"):
            await enqueue(app, caller, key="same")
        await caller.rollback()


async def test_an_enqueue_waits_for_nothing(orders: World, direct_url: str, app: Holdfast) -> None:
    """Neither a claim that is open nor another enqueue holds it up."""
    first, second = await orders.open_direct(direct_url), await orders.open_direct(direct_url)
    kind = app._kinds["order.confirm"]
    await kind.enqueue({"order": 0}, conn=orders.conn, lane="7")
    async with first.transaction():
        await orders.claim(conn=first)
        await kind.enqueue({"order": 1}, conn=first, lane="7")
        await second.execute("set lock_timeout = '500ms'")
        await kind.enqueue({"order": 2}, conn=second, lane="7")


@pytest.mark.parametrize(
    "make", [psycopg_sync, session_sync, connection_sync], ids=lambda make: make.__name__
)
async def test_a_connection_of_the_other_sort_is_refused_with_the_way_out(
    world: World, direct_url: str, app: Holdfast, make: Any
) -> None:
    async with make(direct_url) as caller:
        with pytest.raises(NotAConnection, match="use enqueue_sync"):
            await app._kinds["order.confirm"].enqueue({"order": 7}, conn=caller.conn)
    async with psycopg_async(direct_url) as caller:
        with pytest.raises(NotAConnection, match="is awaited: use enqueue"):
            app._kinds["order.confirm"].enqueue_sync({"order": 7}, conn=caller.conn)
