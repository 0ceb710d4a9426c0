"""Kinds as a Python team meets them: define, enqueue, wait, finish, upgrade."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from pydantic import BaseModel

from holdfast import Holdfast, Task, minutes
from holdfast.core.errors import Misused, ResultTimeout, TaskCancelled, TaskFailed
from holdfast.core.state import State
from tests.tree import Tree, until
from tests.world import World


class Render(BaseModel):
    episode: int
    shot: int


@pytest.fixture
async def app(url: str) -> AsyncIterator[Holdfast]:
    async with Holdfast(url) as made:
        yield made


async def test_a_model_goes_in_and_comes_out_as_it_was(world: World, app: Holdfast) -> None:
    @app.task("video.render", queue="video", max_attempts=5, timeout=minutes(10))
    async def render(task: Task[Render]) -> str:
        return f"{task.payload.episode}/{task.payload.shot}"

    handle = await render.enqueue(Render(episode=7, shot=3), key="shot:3", subject="episode 7", priority=1)
    claim = await world.claim_one(queues=["video"])
    assert handle.created
    assert (claim.id, claim.key, claim.priority, claim.subject) == (handle.id, "shot:3", 1, "episode 7")
    payload = app.handlers["video.render"].decode(claim.payload, claim.version)
    assert payload == Render(episode=7, shot=3)
    again = await render.enqueue(Render(episode=7, shot=3), key="shot:3")
    assert (again.id, again.created) == (handle.id, False)
    task: Task[Render] = Task(claim.id, claim.kind, Render(episode=7, shot=3), "shot:3", claim.fence, 1)
    assert await render(task) == "7/3", "the handler is still a plain function"
    await world.complete(claim)


async def test_every_option_reaches_the_task(world: World, app: Holdfast) -> None:
    @app.task("report.build")
    async def build(task: Task[dict[str, int]]) -> None: ...

    later = datetime.now(UTC) + timedelta(hours=1)
    handle = await build.enqueue(
        {"month": 11}, queue="slow", priority=3, run_at=later, expires_at=timedelta(hours=2), trace_id="t-1",
        lane="books", max_attempts=9, timeout=30, key="nov", unique="queued",
    )  # fmt: skip
    shown = await handle.status()
    assert (shown.queue, shown.priority, shown.trace_id, shown.bucket) == ("slow", 3, "t-1", "lane:books")
    assert (shown.max_attempts, shown.key, shown.next_attempt_at) == (9, "nov", later)
    assert (await build.enqueue({"month": 11}, key="nov", unique="queued")).id == handle.id


async def test_many_kinds_in_one_statement(world: World, app: Holdfast) -> None:
    @app.task("a")
    async def first(task: Task[int]) -> None: ...

    @app.task("b", queue="other")
    async def second(task: Task[str]) -> None: ...

    handles = await app.enqueue_many([first.new(1), second.new("x", key="k"), first.new(2)])
    handles += await first.enqueue_many([3, 4], subject="s")
    assert len({handle.id for handle in handles}) == 5
    assert len(await world.claim(queues=["default"])) == 4


async def test_many_of_which_one_comes_after_nothing_are_not_made_at_all(world: World, app: Holdfast) -> None:
    @app.task("a")
    async def first(task: Task[int]) -> None: ...

    tasks = [first.new(1), first.new(2, after=[str(uuid4())])]
    with pytest.raises(Misused, match="does not exist"):
        await app.enqueue_many(tasks)
    assert await world.rows("tasks") == 0
    assert len(await app.enqueue_many([first.new(1), first.new(2)])) == 2


async def test_a_payload_of_an_older_version_is_brought_up_to_date(world: World, app: Holdfast) -> None:
    @app.task(
        "video.render",
        version=3,
        upgrades={
            1: lambda old: {"episode": old["ep"], "shot": old["shot"]},
            2: lambda old: old | {"shot": old["shot"] + 1},
        },
    )
    async def render(task: Task[Render]) -> None: ...

    decode = app.handlers["video.render"].decode
    assert decode('{"ep": 7, "shot": 1}', 1) == Render(episode=7, shot=2)
    assert decode('{"episode": 7, "shot": 1}', 3) == Render(episode=7, shot=1)
    with pytest.raises(Exception, match="has version 4, and this worker reads 3"):
        decode("{}", 4)


async def test_a_handle_waits_for_its_result(world: World, trees: Callable[..., Tree], url: str) -> None:
    trees().start()
    async with Holdfast(url) as app:

        @app.task("effect")
        async def effect(task: Task[dict[str, int]]) -> None: ...

        @app.task("hopeless")
        async def hopeless(task: Task[dict[str, int]]) -> None: ...

        @app.task("nobody")
        async def nobody(task: Task[dict[str, int]]) -> None: ...

        done, failed = await effect.enqueue({}), await hopeless.enqueue({})
        late = await nobody.enqueue({}, queue="unserved")
        assert await done.result(timeout=20) == "done"
        with pytest.raises(TaskFailed, match="TASK_ENTITY_NOT_FOUND: there is no such episode"):
            await failed.result(timeout=20)
        with pytest.raises(ResultTimeout, match=r"is still queued after 0\.1 s: is a worker running"):
            await late.result(timeout=0.1)
        assert await late.cancel("changed my mind") is State.CANCELLED
        with pytest.raises(TaskCancelled, match="changed my mind"):
            await late.result()
        assert (await app.handle(done.id).status()).state is State.COMPLETED


@pytest.mark.parametrize("kind", ["finish", "finish.thread", "finish.apart"])
async def test_a_handler_s_rows_and_its_result_are_one_commit(
    world: World, trees: Callable[..., Tree], kind: str
) -> None:
    await world.conn.execute("create table if not exists public.shots (id text primary key, fence bigint)")
    await world.conn.execute("delete from public.shots")
    tree = trees().start()
    good = await world.enqueue(kind, payload={"shot": "good"})
    bad = await world.enqueue(kind, payload={"shot": "bad"}, max_attempts=1)
    late = await world.enqueue(kind, payload={"shot": "late"}, max_attempts=1)
    await until(lambda: len(tree.lines("task.completed")) >= 1 and tree.lines("task.failed"), what="two ends")
    # While its handler waits inside the block, the task is taken away.
    await until(lambda: [e for e in tree.effects() if e.task == late], what="the late one")
    await world.conn.execute(
        "update holdfast.running set fence = nextval('holdfast.fence') where id = %s", [late]
    )
    await until(lambda: tree.lines("task.late_result_refused"), what="the refusal")
    rows = await (await world.conn.execute("select id, fence from public.shots")).fetchall()
    shown = await world.show(good)
    assert rows == [("good", shown.fence)]
    assert (shown.state, shown.result) == (State.COMPLETED, '{"shot": "good"}')
    assert await world.state(bad) is State.FAILED
    await world.conn.execute("drop table public.shots")
    await asyncio.to_thread(tree.close)
    await world.conn.execute("delete from holdfast.running")
    await world.conn.execute("delete from holdfast.tasks where id = %s", [late])
