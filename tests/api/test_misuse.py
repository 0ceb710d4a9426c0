"""Ways to use it wrongly: each error names the thing, its state and the next step."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Cron, Holdfast, HoldfastError, Limit, Task
from holdfast.core.task import NewTask
from tests.world import World

NOWHERE = "postgresql://nobody:secret@127.0.0.1:1/nothing"


class Render(BaseModel):
    episode: int


def kind(app: Holdfast) -> Any:
    @app.task("video.render")
    async def render(task: Task[Render]) -> None: ...

    return render


Misuse = Callable[[Holdfast], object]


def no_name(app: Holdfast) -> object:
    return app.task(print)  # type: ignore[arg-type]


def two_handlers(app: Holdfast) -> None:
    kind(app)
    kind(app)


def empty_name(app: Holdfast) -> object:
    return app.task("")


def newline_in_name(app: Holdfast) -> object:
    return app.task("video\nrender")


def not_a_function(app: Holdfast) -> object:
    return app.task("x")("handler")  # type: ignore[arg-type]


def no_argument(app: Holdfast) -> object:
    return app.task("x")(lambda: None)  # type: ignore[arg-type, misc]


def two_arguments(app: Holdfast) -> object:
    def handler(episode: int, shot: int) -> None: ...

    return app.task("x")(handler)  # type: ignore[arg-type]


def bare_payload(app: Holdfast) -> object:
    def handler(payload: Render) -> None: ...

    return app.task("x")(handler)  # type: ignore[arg-type]


def generator(app: Holdfast) -> object:
    def handler(task: Task[int]) -> Any:
        yield 1

    return app.task("x")(handler)


def unknown_annotation(app: Holdfast) -> object:
    def handler(task: "Task[Missing]") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    return app.task("x")(handler)


def missing_upgrade(app: Holdfast) -> object:
    def handler(task: Task[int]) -> None: ...

    return app.task("x", version=4, upgrades={1: dict})(handler)


def wrong_isolation(app: Holdfast) -> object:
    def handler(task: Task[int]) -> None: ...

    return app.task("x", isolation="container")(handler)


def no_timeout(app: Holdfast) -> object:
    def handler(task: Task[int]) -> None: ...

    return app.task("x", timeout=0)(handler)


async def wrong_field(app: Holdfast) -> None:
    await kind(app).enqueue({"episode": "seven"})


async def unserialisable(app: Holdfast) -> None:
    @app.task("x")
    async def handler(task: Task[Any]) -> None: ...

    await handler.enqueue(object())


async def misspelt_option(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), kye="order:7")


def backoff_as_number(app: Holdfast) -> object:
    return app.task("x", backoff=5)  # type: ignore[arg-type]


async def naive_time(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), run_at=datetime(2026, 11, 15))  # noqa: DTZ001


async def wrong_priority(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), priority=9)


async def no_attempts(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), max_attempts=0)


async def negative_timeout(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), timeout=-1)


async def unique_without_key(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), unique="queued")


async def empty_key(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), key="")


async def empty_queue(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), queue="")


async def one_key_for_many(app: Holdfast) -> None:
    await kind(app).enqueue_many([Render(episode=7)], key="k")


async def conn_is_a_url(app: Holdfast) -> None:
    await kind(app).enqueue(Render(episode=7), conn="postgresql://localhost")


async def too_large(app: Holdfast) -> None:
    await app.enqueue_many([NewTask("video.render", '"' + "x" * 300_000 + '"')])


async def no_database(app: Holdfast) -> None:
    async with Holdfast(NOWHERE) as away:
        await kind(away).enqueue(Render(episode=7))


def no_database_sync(app: Holdfast) -> None:
    kind(Holdfast(NOWHERE)).enqueue_sync(Render(episode=7))


async def wrong_url(app: Holdfast) -> None:
    async with Holdfast("postgres//shop") as away:
        await kind(away).enqueue(Render(episode=7))


async def driver_in_the_url(app: Holdfast) -> None:
    async with Holdfast("postgresql+asyncpg://me:secret@db.example/prod") as away:
        await kind(away).enqueue(Render(episode=7))


async def unknown_task(app: Holdfast) -> None:
    await app.handle("01a1dd9f-e4cd-7dd9-a565-3c06926c0b06").status()


async def finish_outside(app: Holdfast) -> None:
    task: Task[int] = Task("0190", "x", 7, "k", 1, 1)
    async with task.finish():
        pass


def reserved_name(app: Holdfast) -> object:
    return app.task("after:sale")


def two_schedules_of_one_name(app: Holdfast) -> None:
    @app.task("a", schedule=Cron("0 3 * * *", name="nightly"))
    async def first(task: Task[object]) -> None: ...

    @app.task("b", schedule=Cron("0 3 * * *", name="nightly"))
    async def second(task: Task[object]) -> None: ...


def schedule_without_its_key(app: Holdfast) -> None:
    @app.task("a", schedule=Cron("0 3 * * *"), per=("tenant", Limit(running=1)))
    async def first(task: Task[object]) -> None: ...


def limit_of_a_hidden_field(app: Holdfast) -> object:
    return app.task("a", secrets=("card",), per=("card", Limit(running=1)))


MISUSES: dict[Misuse, str] = {
    reserved_name: "'after:sale' cannot be a kind: names that begin with after: are taken",
    two_schedules_of_one_name: "kind a has a schedule called nightly already: give that of b another name",
    schedule_without_its_key: "a a task stands behind the limit of its tenant, and its payload has none",
    limit_of_a_hidden_field: "per of a is card, which is not to be shown: names of limits would show it",
    no_name: 'a kind needs a name: write @app.task("print")',
    two_handlers: "kind video.render has a handler already, tests.api.test_misuse.kind.<locals>.render: give",
    empty_name: "'' cannot be a kind: it is a name of 1 to 200 printable characters",
    newline_in_name: r"'video\nrender' cannot be a kind: it is a name of 1 to 200 printable characters",
    not_a_function: "'handler' is not a function: write @app.task(\"x\") above a function",
    no_argument: "the handler of x takes 0 arguments: it is given one, the task",
    two_arguments: "the handler of x takes 2 arguments: it is given one, the task",
    bare_payload: "the handler of x takes a Render: it is given a task, so write Task[Render]",
    generator: "the handler of x yields: a handler returns a value or an outcome",
    unknown_annotation: "the annotations of the handler of x cannot be read: name 'Missing' is not defined",
    missing_upgrade: "kind x has version 4 and upgrades from [1]: give one for each version",
    wrong_isolation: "isolation of x is 'container': it is 'thread' or 'process'",
    no_timeout: "timeout is 0 s: it must be more than nothing",
    wrong_field: "a video.render task takes another payload: episode: Input should be a valid integer",
    unserialisable: "the payload of a x task cannot be written as JSON: Unable to serialize unknown type",
    misspelt_option: "a video.render task has no option kye: there are queue, priority, run_at",
    backoff_as_number: "backoff of x is 5: write Backoff(base_seconds",
    naive_time: "run_at is 2026-11-15 00:00:00, without a time zone: write datetime.now(UTC)",
    wrong_priority: "priority 9 does not exist: it is 0 (most urgent), 1, 2 (usual) or 3",
    no_attempts: "max_attempts is 0: a task has at least one attempt",
    negative_timeout: "timeout is -1 s: it must be more than nothing",
    unique_without_key: 'unique="queued" says what a second task of the same key means: give it a key',
    empty_key: "key is empty: leave it out, or give it a name",
    empty_queue: "queue is empty: leave it out, or give it a name",
    one_key_for_many: "one key or id cannot stand for many video.render tasks: make each with",
    conn_is_a_url: "a builtins.str cannot be used as conn here: pass a psycopg Connection",
    too_large: "the payload of a video.render task has 300002 bytes, the limit is 256000: store the content",
    no_database: "the database at 127.0.0.1:1/nothing cannot be reached: ",
    no_database_sync: "the database at 127.0.0.1:1/nothing cannot be reached: ",
    wrong_url: "the database at an address that cannot be read cannot be reached: ",
    driver_in_the_url: "write postgresql://user@host:5432/name, without a driver’s name",
    unknown_task: "task 01a1dd9f-e4cd-7dd9-a565-3c06926c0b06 does not exist, or its retention is over",
    finish_outside: "task 0190 is not run by a worker, so it cannot be finished",
}


async def _do(misuse: Misuse, app: Holdfast) -> None:
    done = misuse(app)
    if isinstance(done, Awaitable):
        await done


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda misuse: misuse.__name__)
async def test_a_misuse_is_told_what_is_wrong_and_what_to_do(world: World, url: str, misuse: Misuse) -> None:
    async with Holdfast(url) as app:
        with pytest.raises(HoldfastError) as caught:
            await _do(misuse, app)
    assert MISUSES[misuse] in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_database_without_tables_says_how_to_make_them(direct_url: str) -> None:
    async with Holdfast(settings=_settings(direct_url, "not_there")) as app:
        with pytest.raises(
            HoldfastError, match="the schema not_there has no tables yet: run `holdfast migrate`"
        ):
            await kind(app).enqueue(Render(episode=7))


def _settings(url: str, schema: str) -> Any:
    from holdfast import Settings

    return Settings(HOLDFAST_DATABASE_URL=url, HOLDFAST_SCHEMA=schema)  # type: ignore[call-arg]
