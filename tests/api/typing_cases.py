"""Twenty right uses and twenty wrong ones, for mypy and pyright: each line marked `wrong` must be flagged."""
# ruff: noqa

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from holdfast import Cancel, Complete, Fail, Holdfast, Retry, Snooze, Task, hours, minutes, seconds


class Render(BaseModel):
    episode: int
    shot: int


app = Holdfast("postgresql:///shop")
good = Render(episode=7, shot=3)


@app.task("video.render", queue="video", max_attempts=5, timeout=minutes(10))
async def render(task: Task[Render]) -> str | Snooze:
    if task.payload.shot > 3:
        return Snooze(seconds(15), progress=50.0)
    async with task.finish({"url": "u"}) as tx:
        await tx.execute("select 1")
    return f"{task.payload.episode}"


@app.task("mail.send", permanent=(ValueError,), isolation="process", timeout=30)
def send(task: Task[dict[str, int]]) -> Fail | Retry | Cancel | Complete | None:
    with task.finish() as tx:
        tx.execute("select 1")
    return Retry("later", after=hours(1)) if task.attempt < 3 else None


@app.task("report.build", version=2, upgrades={1: lambda old: old})
async def build(task: Task[int]) -> None: ...


async def right() -> None:
    handle = await render.enqueue(good)
    await render.enqueue(good, key="shot:3", subject="episode 7", trace_id="t", priority=1)
    await render.enqueue(good, run_at=datetime.now(UTC), expires_at=timedelta(hours=1))
    await render.enqueue(good, unique="queued", key="k", lane="l", queue="q")
    await render.enqueue(good, conn=object(), max_attempts=3, timeout=seconds(5))
    await render.enqueue_many([good, good], subject="s")
    await app.enqueue_many([render.new(good), send.new({"to": 3}), build.new(7)])
    send.enqueue_sync({"to": 3})
    state: str = (await handle.status()).state
    result = await handle.result(timeout=minutes(1))
    await handle.cancel("why")
    assert handle.created and handle.id and state and result
    await app.handle("id").status()
    await render(Task("id", "video.render", good, "key", 1, 1))
    await app.close()


async def wrong() -> None:
    handle = await render.enqueue(good)
    await render.enqueue({"episode": 7, "shot": 3})  # wrong
    await render.enqueue(7)  # wrong
    await render.enqueue(Render(episode="seven", shot=3))  # wrong
    await render.enqueue(Render(episode=7))  # wrong
    await render.enqueue()  # wrong
    await render.enqueue(good, queue=7)  # wrong
    await render.enqueue(good, priority="high")  # wrong
    await render.enqueue(good, run_at="tomorrow")  # wrong
    await render.enqueue(good, colour="red")  # wrong
    await render.enqueue(good, unique="sometimes")  # wrong
    await render.enqueue_many(good)  # wrong
    await render.enqueue_many([1, 2])  # wrong
    send.enqueue_sync({"to": "three"})  # wrong
    build.new("seven")  # wrong
    await handle.result(timeout="10 s")  # wrong
    handle.made  # wrong
    (await handle.status()).stat  # wrong
    Snooze("soon")  # wrong
    app.task(7)  # wrong
    render(good)  # wrong
