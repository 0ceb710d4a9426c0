"""An operator works while one viewer attacks; `make hostile-clients` does the same at full size."""

import httpx
import pytest

from holdfast.config import Settings
from holdfast.ops.tokens import Role, Tokens
from tests.hostile_clients import ENTRIES, attacked, watch
from tests.world import World

EACH = 100
SECONDS = 10.0
WINDOWS = 4


@pytest.mark.alone
@pytest.mark.requirement("B9")
@pytest.mark.catches("export-holds-a-connection")
async def test_b9_a_viewer_cannot_take_the_api_from_an_operator(
    served: httpx.AsyncClient, world: World, url: str
) -> None:
    await world.conn.execute(ENTRIES.encode())
    tokens = Tokens(Settings(database_url=url), by="test")
    viewer = await tokens.create(world.conn, "eve", Role.VIEWER, None)
    operator = await tokens.create(world.conn, "bob", Role.OPERATOR, None)
    address = str(served.base_url).rstrip("/")
    async with attacked(address, viewer.token, EACH):
        seen = await watch(address, operator.token, SECONDS)
        for _ in range(WINDOWS - 1):
            if seen.is_well() or not seen.was_answered():
                break
            # A shared machine may be slow for as long as a window; an API that is held up stays so.
            seen = await watch(address, operator.token, SECONDS)
    assert seen.is_well(), seen.shown()
