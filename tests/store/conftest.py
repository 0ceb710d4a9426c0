"""What several files of this folder begin with."""

import os
from collections.abc import AsyncIterator

import pytest
from psycopg import sql

from holdfast.config import Settings
from holdfast.db.connect import Conn, connect
from holdfast.store.limits import Limits
from tests.conftest import direct
from tests.world import World


@pytest.fixture
def limits(world: World) -> Limits:
    return Limits(Settings(database_url=world.url), world.events.append, by="ada")


@pytest.fixture
async def blank() -> AsyncIterator[Conn]:
    """An empty database of its own."""
    name = f"holdfast_blank_{os.getpid()}"
    identifier = sql.Identifier(name)
    async with await connect(f"{direct()}/postgres") as admin:
        await admin.execute(sql.SQL("drop database if exists {} with (force)").format(identifier))
        await admin.execute(sql.SQL("create database {}").format(identifier))
        async with await connect(f"{direct()}/{name}") as conn:
            yield conn
        await admin.execute(sql.SQL("drop database {} with (force)").format(identifier))
