"""A claim that the server refuses for its size is tried again with fewer tasks."""

from collections.abc import AsyncIterator, Callable

import pytest

from tests.tree import Tree, until
from tests.world import World

REFUSE_LARGE_CLAIMS = """
create function refuse_large_claims() returns trigger language plpgsql as $$
begin
    if (select count(*) from claimed) > 4 then
        raise exception using errcode = '54000', message = 'too much for one claim';
    end if;
    return null;
end
$$;
create trigger refuse_large_claims after insert on holdfast.running
    referencing new table as claimed for each statement execute function refuse_large_claims();
"""


@pytest.fixture
async def small_claims(world: World) -> AsyncIterator[None]:
    """A server that refuses claims of more than four tasks."""
    await world.conn.execute(REFUSE_LARGE_CLAIMS)
    yield
    await world.conn.execute("drop function refuse_large_claims() cascade")


@pytest.mark.usefixtures("small_claims")
@pytest.mark.catches("failed-claims-stay-large")
async def test_a_claim_that_is_too_large_is_tried_again_with_half_as_many_tasks(
    world: World, trees: Callable[..., Tree]
) -> None:
    tasks = [await world.enqueue("noop") for _ in range(40)]
    tree = trees().start("--concurrency", 40)
    await until(lambda: len(tree.lines("task.completed")) == len(tasks), 60, "all of them")
    assert tree.lines("database.statement_failed")
