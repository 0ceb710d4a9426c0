"""A process dies after its handlers have ended and before their outcomes are written."""

from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from holdfast.core.failure import FailureClass
from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.db.connect import Conn
from holdfast.worker.flight_record import UNSETTLED_MAX, FlightRecord, RunMode
from tests.flights import flight_record, kill
from tests.tree import Tree, until, until_true
from tests.world import World


async def hold(conn: Conn, task: str) -> None:
    """Keep a claimed task from being settled, until the transaction of `conn` ends."""

    async def held() -> bool:
        cursor = await conn.execute(
            "select from holdfast.running where id = %s::uuid for update skip locked", [task]
        )
        return await cursor.fetchone() is not None

    await until_true(held, 30, "a claim")


async def cut(world: World) -> None:
    """End the connections on which dead executors settled: the server may not have noticed their death."""
    await world.conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'holdfast a settles'"
    )


def ended(record: FlightRecord) -> set[str]:
    return {flight.task_id for flight in record.entries() if flight.ended}


async def settled(tree: Tree, tasks: int, seconds: float = 60.0) -> None:
    await until(lambda: len(tree.lines("task.completed")) == tasks, seconds, "their ends")


async def records(world: World, tasks: list[str]) -> list[tuple[object, ...]]:
    cursor = await world.conn.execute(
        "select ended_as, reason, failure_class from holdfast.task_attempts where task_id = any (%s::uuid[])",
        [tasks],
    )
    return await cursor.fetchall()


@pytest.mark.requirement("O1", "T2")
@pytest.mark.catches(
    "ended-counts-as-not-started", "all-that-ended-are-suspects", "ended-stays-on-record", "ended-for-ever"
)
async def test_tasks_that_ended_before_their_process_died_go_back_unspent_and_on_record(
    world: World, trees: Callable[..., Tree]
) -> None:
    tasks = [await world.enqueue("sleep", payload={"seconds": 0.2}) for _ in range(40)]
    other = await world.open()
    tree = await trees().start("--concurrency", 40).ready()
    (pid,) = tree.executors()
    async with other.transaction():
        for task in tasks:
            await hold(other, task)
        with flight_record(pid, 40) as record:
            await until(lambda: ended(record) == set(tasks), what="the ends of the handlers")
            found = kill(pid, record)
        await cut(world)
    assert [flight.ended for flight in found] == [True] * 40, "the fault did not hit"
    await settled(tree, 40)
    assert await records(world, tasks) == [("reclaim", "ended", "worker_lost")] * 40
    second = [effect for effect in tree.effects() if effect.pid != pid]
    (again,) = tree.executors()
    assert [effect.pid for effect in second] == [again] * 40, "nobody is a suspect yet"
    for task in tasks:
        counters = (await world.show(task)).counters
        assert (counters.attempts, counters.failures, counters.crashes) == (1, 0, 0)
    with flight_record(again, 40) as record:
        assert record.entries() == [], "what is settled is off the record"


@pytest.mark.requirement("O1", "O4")
@pytest.mark.catches("ended-for-ever", "suspects-are-settled-together", "apart-not-in-flight")
async def test_a_task_whose_process_always_dies_after_its_end_is_poisoned_and_no_other(
    world: World, trees: Callable[..., Tree]
) -> None:
    others = [await world.enqueue("sleep", payload={"seconds": 0.2}) for _ in range(5)]
    guilty = await world.enqueue("sleep", payload={"seconds": 0.2})
    other = await world.open()
    # Room for all of them to run as suspects at one time.
    tree = trees().start("--concurrency", 20)
    runs = 0
    while await world.state(guilty) is not State.FAILED:
        assert runs < 5, "it runs without bound"
        runs += 1
        await _die_after_its_end(world, other, tree, guilty)
        assert len(await records(world, [guilty])) == runs
    await settled(tree, len(others))
    shown = await world.show(guilty)
    assert shown.error is not None
    assert shown.error.failure_class is FailureClass.POISON
    # Once unspent, once as a suspect, three times alone.
    assert (runs, shown.counters.crashes) == (5, 3)
    assert Counter(await records(world, [guilty])) == {
        ("reclaim", "ended", "worker_lost"): 4,
        ("fail", "ended", "poison"): 1,
    }
    for task in others:
        counters = (await world.show(task)).counters
        assert (counters.failures, counters.crashes) == (0, 0)


async def _die_after_its_end(world: World, other: Conn, tree: Tree, guilty: str) -> None:
    async with other.transaction():
        await hold(other, guilty)
        (pid,) = tree.executors()
        with flight_record(pid, 20) as record:
            await until(lambda: guilty in ended(record), what="its end")
            found = kill(pid, record)
        await cut(world)
    assert guilty in {flight.task_id for flight in found if flight.ended}, "the fault did not hit"
    if found[0].how is RunMode.OWN_PROCESS:
        assert sum(flight.ended for flight in found) == 1, "suspects are settled one at a time"
    await until(lambda: pid not in tree.executors(), what="the end of the process")

    async def taken_back() -> bool:
        cursor = await world.conn.execute("select from holdfast.running where id = %s::uuid", [guilty])
        return await cursor.fetchone() is None

    await until_true(taken_back, 30, "the task to be taken back")


@pytest.mark.catches("ended-accuses-who-runs")
async def test_who_runs_while_another_has_ended_is_not_accused_alone(
    world: World, trees: Callable[..., Tree]
) -> None:
    over = await world.enqueue("sleep", payload={"seconds": 0.05})
    at_work = await world.enqueue("sleep", payload={"seconds": 60})
    other = await world.open()
    tree = await trees().start().ready()
    (pid,) = tree.executors()
    async with other.transaction():
        await hold(other, over)
        with flight_record(pid) as record:
            await until(lambda: ended(record) == {over} and len(record.entries()) == 2, what="both")
            kill(pid, record)
        await cut(world)
    await settled(tree, 1)
    assert (await world.show(at_work)).counters.crashes == 0
    assert await records(world, [at_work]) == [("reclaim", None, "worker_lost")]


@pytest.mark.catches("apart-not-in-flight")
async def test_a_task_in_a_process_of_its_own_is_on_record_as_started(
    world: World, trees: Callable[..., Tree]
) -> None:
    task = await world.enqueue("apart", payload={"seconds": 1.0})
    tree = await trees().start().ready()
    (pid,) = tree.executors()
    await until(lambda: tree.effects(), what="its start")
    with flight_record(pid) as record:
        assert [flight.how for flight in kill(pid, record)] == [RunMode.OWN_PROCESS]
    await settled(tree, 1)
    assert await records(world, [task]) == [("reclaim", None, "worker_lost")]


@pytest.mark.alone
@pytest.mark.catches("results-dropped-before-the-lease-ends", "lost-answer-forgotten")
async def test_results_are_kept_while_the_database_refuses_connections(
    world: World, trees: Callable[..., Tree], direct_url: str
) -> None:
    tasks = [await world.enqueue("sleep", payload={"seconds": 0.5}) for _ in range(10)]
    tree = trees().start("--lease", 15)
    await until(lambda: len(tree.effects()) == 10, what="their starts")
    with _refusing(direct_url):
        await until(lambda: len(tree.effects("end")) == 10, what="the ends of the handlers")
        await until(lambda: tree.lines("worker.lease_at_risk"), what="a lease that is about to end")
    await settled(tree, 10)
    assert await records(world, tasks) == []


@pytest.mark.catches("unsettled-goes-back-as-drained")
async def test_what_could_not_be_written_before_the_lease_ended_is_on_record_as_ended(
    world: World, trees: Callable[..., Tree], direct_url: str
) -> None:
    tasks = [await world.enqueue("sleep", payload={"seconds": 0.5}) for _ in range(10)]
    tree = trees().start("--lease", 2)
    await until(lambda: len(tree.effects()) == 10, what="their starts")
    with _refusing(direct_url):
        await until(lambda: tree.lines("executor.ended"), what="the end of the lease")
    await settled(tree, 10)
    assert await records(world, tasks) == [("release", "unsettled", None)] * 10
    for task in tasks:
        assert (await world.show(task)).counters.attempts == 1


class _refusing:  # noqa: N801 (a context)
    """While this lasts, the database refuses connections, and has ended those of workers."""

    def __init__(self, url: str) -> None:
        server, _, self._name = url.rpartition("/")
        self._admin = psycopg.connect(f"{server}/postgres", autocommit=True)

    def __enter__(self) -> None:
        self._allow("false")
        self._admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and application_name like 'holdfast a %%'",
            [self._name],
        )

    def __exit__(self, *_: object) -> None:
        self._allow("true")
        self._admin.close()

    def _allow(self, word: str) -> None:
        self._admin.execute(f"alter database {self._name} allow_connections {word}".encode())


@pytest.mark.catches("claims-on-while-nothing-is-settled")
async def test_no_more_is_claimed_while_what_has_ended_cannot_be_settled(
    world: World, trees: Callable[..., Tree]
) -> None:
    tasks = 3 * UNSETTLED_MAX
    await world.store.enqueue_many(world.conn, [NewTask("noop", "{}")] * tasks)
    other = await world.open()
    async with other.transaction():
        await other.execute("lock table holdfast.task_history in exclusive mode")
        tree = trees().start()
        await until(lambda: len(tree.lines("task.claimed")) >= UNSETTLED_MAX, what="claims")
        claimed = 0
        while claimed < (claimed := len(tree.lines("task.claimed"))):
            await until_true(lambda: _idle(world), 30, "a worker that claims no more")
        assert claimed < UNSETTLED_MAX + 2_000
    await settled(tree, tasks)


async def _idle(world: World) -> bool:
    """Whether the worker waits for the lock, and for nothing else, three times in a row."""
    for _ in range(3):
        cursor = await world.conn.execute(
            "select count(*) from pg_stat_activity where application_name like 'holdfast a claims'"
            " and state <> 'idle'"
        )
        if await cursor.fetchone() != (0,):
            return False
    return True
