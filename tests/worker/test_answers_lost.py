"""The connection goes after the commit and before the answer: nothing stalls, nothing runs twice."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.core.state import State
from tests.chaos.proxy import Proxy
from tests.cluster import free_port
from tests.tree import Tree, until
from tests.world import World


@pytest.fixture
def proxy(direct_url: str) -> Iterator[Proxy]:
    upstream = int(str(psycopg.conninfo.conninfo_to_dict(direct_url)["port"]))
    between = Proxy(free_port(), upstream, 1)
    between.start()
    yield between
    between.stop()


@pytest.fixture
def cut_off(proxy: Proxy, world: World, database: str, tmp_path: Path) -> Iterator[Tree]:
    """A worker whose connections can be cut."""
    tree = Tree(f"postgresql://postgres@127.0.0.1:{proxy.port}/{database}", tmp_path)
    yield tree
    tree.close()


@pytest.mark.alone
@pytest.mark.catches("reconciliation-off")
async def test_tasks_of_a_claim_whose_answer_was_lost_run_soon(
    world: World, proxy: Proxy, cut_off: Tree
) -> None:
    tree = cut_off.start("--sleep", 0.05)
    first = await world.enqueue("effect")
    await until(lambda: tree.lines("task.completed"), what="it to be up")
    other = await world.open()
    async with other.transaction():
        tasks = [await world.enqueue("effect", conn=other) for _ in range(5)]
        proxy.cut_before_an_answer(1.0)
    assert await until(lambda: proxy.cuts > 0, what="a cut") < 5
    await until(lambda: {e.task for e in tree.effects()} >= {first, *tasks}, 8, "the five to run")
    await until(lambda: len(tree.lines("task.completed")) == 6, what="their ends")
    assert tree.lines("database.lost")
    assert len(tree.effects()) == 6, "each ran once"


@pytest.mark.catches("lost-answer-forgotten", "answer-lost-means-late")
async def test_a_verdict_whose_answer_was_lost_counts_once(world: World, proxy: Proxy, cut_off: Tree) -> None:
    tree = cut_off.start("--lease", 20, "--sleep", 30)
    # The first one opens the connection on which verdicts are written.
    await world.enqueue("effect")
    await until(lambda: tree.lines("task.completed"), what="it to be up")
    task = await world.enqueue("sleep", payload={"seconds": 1.0})
    await until(lambda: len(tree.effects()) == 2, what="its start")
    proxy.cut_before_an_answer(1.0)
    await until(lambda: len(tree.lines("task.completed")) == 2, what="its end")
    assert await world.state(task) is State.COMPLETED
    assert len(tree.effects()) == 2
    assert tree.lines("task.late_result_refused") == []


@pytest.mark.alone
@pytest.mark.catches("hints-not-heard")
async def test_a_hint_wakes_an_idle_worker_long_before_it_would_look(
    world: World, trees: Callable[..., Tree], direct_url: str
) -> None:
    tree = trees(at=direct_url).start("--sleep", 60)
    await world.enqueue("effect")
    await until(lambda: tree.lines("task.completed"), what="it to be up")
    # It looks after 20, 40, … 2560, 5120 ms: idle for 2.7 s, its next look is more than two away.
    watch = await world.open_direct(direct_url)
    idle = (
        "select count(*) from pg_stat_activity where application_name like 'holdfast % claims' "
        "and datname = current_database() and clock_timestamp() - state_change > interval '2.7 s'"
    )
    while await (await watch.execute(idle)).fetchone() != (1,):
        assert tree.process.poll() is None
    await world.enqueue("effect")
    assert await until(lambda: len(tree.effects()) == 2, what="the next") < 1.0
