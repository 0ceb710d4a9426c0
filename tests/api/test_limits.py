"""Limits, keys and lanes as a team writes them, and as an operator sees and changes them."""

from collections.abc import AsyncIterator

import pytest

from holdfast import Holdfast, HoldfastError, Limit, Task
from holdfast.core.outcome import Fail
from holdfast.core.state import State
from tests.commands import document, run
from tests.store.test_limits import claim_all
from tests.world import World

pytestmark = pytest.mark.usefixtures("command_line")


@pytest.fixture
async def app(world: World, url: str) -> AsyncIterator[Holdfast]:
    async with Holdfast(url) as made:
        yield made


@pytest.mark.requirement("T4")
@pytest.mark.catches("key-of-the-payload-ignored")
async def test_a_kind_says_its_limits_and_the_payload_its_key(world: World, app: Holdfast) -> None:
    @app.task("video.render", limit=Limit(running=50), per=("episode", Limit(running=4, rate="10/s")))
    async def render(task: Task[dict[str, int]]) -> None: ...

    names = [(str(scope), name, limit.running) for scope, name, limit in render.handler.limits()]
    assert names == [("kind", "video.render", 50), ("key", "video.render/episode=*", 4)]
    assert render.new({"episode": 7}).bucket == "video.render/episode=7"
    assert render.new({"episode": 7}, per="8").bucket == "video.render/episode=8"
    with pytest.raises(
        HoldfastError, match="stands behind the limit of its episode, and its payload has none"
    ):
        render.new({})
    with pytest.raises(HoldfastError, match="cannot have a lane and a limit per key"):
        render.new({"episode": 7}, lane="x")


async def test_a_key_or_a_lane_is_given_at_enqueue(app: Holdfast) -> None:
    @app.task("report", lane_on_failure="block")
    async def report(task: Task[dict[str, int]]) -> None: ...

    assert report.new({}, per="tenant-7").bucket == "report/key=tenant-7"
    assert report.new({}, lane="books").bucket == "lane!:books"
    assert report.new({}).bucket is None
    for wrong in ("", "*"):
        with pytest.raises(HoldfastError, match="a key is a name"):
            report.new({}, per=wrong)


@pytest.mark.requirement("T4")
@pytest.mark.catches("permits-not-counted", "limit-change-unheard")
async def test_limits_are_set_shown_and_cleared_on_the_command_line(world: World) -> None:
    said = await run("limit", "set", "kind", "mail.send", "--running", "1", "--rate", "100/m")
    assert said == "kind:mail.send is limited: 1 at once, 100 starts in 60 s, 10 more at once\n"
    for _ in range(3):
        await world.enqueue()
    assert len(await claim_all(world)) == 1
    (shown,) = await document("limit", "show")
    assert (shown["name"], shown["running"], shown["running_max"], shown["waiting"]) == (
        "kind:mail.send",
        1,
        1,
        2,
    )
    assert "100/60s + 10" in await run("limit", "show")
    assert (await document("limit", "set", "queue", "default", "--running", "9"))["limit"] == "queue:default"
    assert "mail.send is not limited any more" in await run("limit", "clear", "kind", "mail.send")
    assert "has no limit" in await run("limit", "clear", "kind", "mail.send", code=1)
    assert len(await claim_all(world)) == 2


async def test_a_kind_and_a_task_are_paused_and_resumed(world: World) -> None:
    task = await world.enqueue()
    assert "is paused for 5 minutes" in await run(
        "kind", "pause", "mail.send", "--reason", "provider down", "--minutes", "5", "--by", "ada"
    )
    assert await claim_all(world) == []
    (why, *_) = (await document("task", "why", task))["because"]
    assert why.startswith("its kind mail.send is paused by ada: provider down, until ")
    assert "starts again" in await run("kind", "resume", "mail.send")
    await run("kind", "resume", "mail.send", code=1)
    await run("task", "pause", task, "--reason", "look at it")
    assert await world.state(task) is State.PAUSED
    await run("task", "resume", task)
    assert [claim.id for claim in await claim_all(world)] == [task]


async def reasons(task: str) -> list[str]:
    found: list[str] = (await document("task", "why", task))["because"]
    return found


@pytest.mark.catches("holders-not-named", "lane-head-not-named")
async def test_why_names_the_limit_its_holder_the_lane_and_the_rate(world: World) -> None:
    await run("limit", "set", "kind", "mail.send", "--running", "1")
    await run("limit", "set", "kind", "rated", "--rate", "1/h", "--burst", "1")
    waiting = [await world.enqueue() for _ in range(2)]
    rated = [await world.enqueue("rated") for _ in range(2)]
    laned = [await world.enqueue("laned", bucket="lane!:books") for _ in range(2)]
    held = {claim.id: claim for claim in await claim_all(world)}
    said = await reasons(next(task for task in waiting if task not in held))
    holder = f"test {world.worker[:13]} (1)"
    assert f"the limit of kind:mail.send, 1 at once, is full: held by {holder}" in said
    said = await reasons(next(task for task in rated if task not in held))
    assert "the rate of kind:rated, 1 in 3600 s, is spent for now" in said
    said = await reasons(laned[1])
    assert f"its lane lane!:books runs one at a time, and task {laned[0]} (running) comes first" in said
    await world.settle((held[laned[0]], Fail("NO", "no")))
    said = await reasons(laned[1])
    assert f"its lane lane!:books runs one at a time, and task {laned[0]} (failed) comes first" in said
