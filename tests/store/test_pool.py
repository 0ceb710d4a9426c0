"""Connections keep what their address asks for, and have what our statements need."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from holdfast.config import Settings
from holdfast.db.connect import Conn, connect, connect_sync, is_direct
from holdfast.http.service import Service
from tests.pooler import refusing_options

ASKED = "-c statement_timeout=12345 -c work_mem=5555kB"
SHOWN = {"statement_timeout": "12345ms", "work_mem": "5555kB"}
OURS = {
    "enable_seqscan": "off",
    "jit": "off",
    "enable_memoize": "off",
    "default_transaction_isolation": "read committed",
}


async def shown(conn: Conn, *names: str) -> dict[str, str]:
    """What these settings are in a session."""
    row = await (
        await conn.execute(f"select {', '.join('current_setting(%s)' for _ in names)}", names)
    ).fetchone()
    assert row is not None
    return dict(zip(names, row, strict=True))


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Conn]:
    """The first of our two ways to connect."""
    async with await connect(url) as conn:
        yield conn


@asynccontextmanager
async def pooled(url: str) -> AsyncIterator[Conn]:
    """The other one, of the HTTP API."""
    service = Service(Settings(database_url=url))
    try:
        async with service.pool.connection() as conn:
            yield conn
    finally:
        await service.close()


@pytest.mark.catches("options-of-the-address-dropped")
@pytest.mark.parametrize("by", ["the address", "PGOPTIONS"])
@pytest.mark.parametrize("way", [opened, pooled])
async def test_options_of_an_address_hold_beside_ours(
    direct_url: str, monkeypatch: pytest.MonkeyPatch, way: object, by: str
) -> None:
    url = direct_url
    if by == "PGOPTIONS":
        monkeypatch.setenv("PGOPTIONS", ASKED)
    else:
        url = f"{direct_url}?options={ASKED.replace(' ', '%20').replace('=', '%3D')}"
    async with way(url) as conn:  # type: ignore[operator]
        assert await shown(conn, *SHOWN) == SHOWN
        if way is opened:
            assert await shown(conn, *OURS) == OURS
            assert is_direct(conn)
    with connect_sync(url, application="test") as blocking:
        assert blocking.execute("show statement_timeout").fetchone() == ("12345ms",)
        assert blocking.execute("show work_mem").fetchone() == ("5555kB",)


@pytest.mark.catches("options-of-the-address-win")
async def test_options_of_an_address_cannot_unpin_plans(direct_url: str) -> None:
    unpinned = "options=-c%20enable_seqscan%3Don%20-c%20default_transaction_isolation%3Dserializable"
    async with await connect(f"{direct_url}?{unpinned}") as conn:
        assert await shown(conn, *OURS) == OURS
        assert is_direct(conn)


async def test_a_pooler_that_refuses_options_is_used_without_them(direct_url: str) -> None:
    with refusing_options(direct_url) as behind:
        async with await connect(behind) as conn:
            assert not is_direct(conn)
            assert await shown(conn, "application_name") == {"application_name": "holdfast"}
        with connect_sync(behind, application="test") as blocking:
            assert blocking.execute("select 1").fetchone() == (1,)


@pytest.mark.catches("encoding-of-the-role")
async def test_text_is_sent_as_utf8_whatever_the_default_is(
    direct_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    async with await connect(direct_url) as conn, pooled(direct_url) as other:
        for one in (conn, other):
            assert await (await one.execute("select %s::text", ["日本 –"])).fetchone() == ("日本 –",)
    with connect_sync(direct_url, application="test") as blocking:
        assert blocking.execute("select %s::text", ["日本 –"]).fetchone() == ("日本 –",)
