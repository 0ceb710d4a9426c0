"""The bounds of a new task are the same for whoever enqueues from Python and from SQL, in the same words."""
# ruff: noqa: E501 (each refused task stands in one line)

import itertools
import json
import secrets
from uuid import uuid4

import psycopg
import pytest

from holdfast.config import PAYLOAD_BYTES_MAX, Settings
from holdfast.core.bounds import PAYLOAD_DEPTH_MAX
from holdfast.core.errors import SQLSTATES, BadPayload, HoldfastError, Misused, PayloadTooLarge
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Fail
from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.store.limits import Limits
from holdfast.store.store import Store
from tests.world import World

LIMIT = PAYLOAD_BYTES_MAX
DEEP = PAYLOAD_DEPTH_MAX


def nested(depth: int, left: str = "[", inside: str = "1", right: str = "]") -> str:
    return left * depth + inside + right * depth


async def refusal_in_sql(world: World, task: NewTask) -> HoldfastError | None:
    """What the SQL function says of a task, as the exception that Python raises for it."""
    try:
        async with world.conn.transaction():
            await world.conn.execute(
                "select holdfast.enqueue(%s, %s, %s, bucket => %s, subject => %s, trace_id => %s, key => %s)",
                [task.kind, task.payload, task.queue, task.bucket, task.subject, task.trace_id, task.key],
            )
    except psycopg.Error as error:
        exception, _ = SQLSTATES[str(error.sqlstate)]
        return exception(error.diag.message_primary)
    return None


async def refusal_in_python(world: World, task: NewTask) -> HoldfastError | None:
    try:
        await world.store.enqueue(world.conn, task)
    except HoldfastError as error:
        return error
    return None


REFUSED = {
    "a large payload": (NewTask("render", json.dumps("x" * (LIMIT - 1))), PayloadTooLarge, "has 256001 bytes"),
    "a large payload of few characters": (
        NewTask("render", json.dumps("é" * 150_000, ensure_ascii=False)),
        PayloadTooLarge,
        "has 300002 bytes, the limit is 256000: store the content elsewhere",
    ),
    "deep arrays": (NewTask("render", nested(DEEP + 1)), BadPayload, "is nested more than 64 deep"),
    "deep arrays with nothing inside": (NewTask("render", nested(DEEP + 1, inside="")), BadPayload, "64 deep"),
    "deep objects": (NewTask("render", nested(DEEP + 1, '{"a":', "1", "}")), BadPayload, "64 deep"),
    "very deep arrays": (NewTask("render", nested(5_000)), BadPayload, "64 deep"),
    "deep beside what is not": (
        NewTask("render", f'{{"a": {nested(DEEP)}, "b": [{{}}], "c": "]]]"}}'), BadPayload, "64 deep"
    ),
    "a payload that is large by the commas in its text": (
        NewTask("render", json.dumps(", " * 130_000)), PayloadTooLarge, "has 260002 bytes"
    ),
    "no kind": (NewTask(""), Misused, "a task needs a kind"),
    "a long kind": (NewTask("é" * 201), Misused, "a kind of 201 characters is too long"),
    "a kind that is a follow-up's bucket": (
        NewTask("after:x"), Misused, "'after:x' cannot be a kind: names that begin with after: are taken"
    ),
    "a kind that is a lane": (NewTask("lane:x"), Misused, "names that begin with lane: are taken"),
    "a kind that is a lane that blocks": (NewTask("lane!:x"), Misused, "begin with lane!: are taken"),
    "no queue": (NewTask("render", queue=""), Misused, "queue is empty: leave it out, or give it a name"),
    "a long queue": (NewTask("render", queue="q" * 201), Misused, "a queue of 201 characters is too long"),
    "our own queue": (NewTask("render", queue="holdfast"), Misused, "the queue holdfast is for Holdfast's own"),
    "no bucket": (NewTask("render", bucket=""), Misused, "'' cannot be the bucket of a task"),
    "the bucket of a follow-up": (NewTask("render", bucket="after:x"), Misused, "'after:x' cannot be the bucket"),
    "the limit of a kind": (NewTask("render", bucket="kind:render"), Misused, "cannot be the bucket"),
    "the limit of a queue": (NewTask("render", bucket="queue:default"), Misused, "cannot be the bucket"),
    "the limit of all keys": (NewTask("render", bucket="render/episode=*"), Misused, "cannot be the bucket"),
    "a key without a value": (NewTask("render", bucket="render/episode="), Misused, "cannot be the bucket"),
    "a lane without a name": (NewTask("render", bucket="lane:"), Misused, "cannot be the bucket"),
    "a lane without a name that blocks": (NewTask("render", bucket="lane!:"), Misused, "cannot be the bucket"),
    "a long bucket": (
        NewTask("render", bucket="render/episode=" + "é" * 493), Misused,
        "the bucket of a render task has 1001 bytes, the limit is 1000",
    ),
    "a long lane": (NewTask("render", bucket="lane:" + "x" * 996), Misused, "has 1001 bytes"),
    "a long subject": (NewTask("render", subject="x" * 1_001), Misused, "the subject of a render task has 1001"),
    "a long trace id": (NewTask("render", trace_id="x" * 9_000), Misused, "the trace id of a render task has 9000"),
    "a long key": (NewTask("render", key="x" * 1_001), Misused, "the key of a render task has 1001 bytes"),
}  # fmt: skip


@pytest.mark.catches(
    "sql-takes-large-payloads",
    "sql-takes-deep-payloads",
    "sql-takes-any-name",
    "sql-takes-long-labels",
    "usual-task-has-long-labels",
    "python-takes-deep-payloads",
)
@pytest.mark.parametrize(("task", "error", "said"), REFUSED.values(), ids=list(REFUSED))
async def test_what_is_out_of_bounds_is_refused_in_the_same_words_by_sql_and_by_python(
    world: World, task: NewTask, error: type[HoldfastError], said: str
) -> None:
    for refusal in (await refusal_in_python(world, task), await refusal_in_sql(world, task)):
        assert type(refusal) is error
        assert said in str(refusal)
    assert str(await refusal_in_python(world, task)) == str(await refusal_in_sql(world, task))
    assert await world.rows("tasks") == 0


@pytest.mark.catches("python-takes-deep-payloads")
@pytest.mark.parametrize("task", [task for task, _, _ in REFUSED.values()], ids=list(REFUSED))
async def test_python_refuses_before_the_transaction_of_the_caller_is_lost(
    world: World, task: NewTask
) -> None:
    async with world.conn.transaction():
        with pytest.raises(HoldfastError):
            await world.store.enqueue(world.conn, task)
        await world.enqueue("render")
    assert await world.rows("tasks") == 1


TAKEN = {
    "the largest payload": NewTask("render", json.dumps("x" * (LIMIT - 2))),
    # Each comma is followed by a blank where jsonb is shown.
    "the largest payload of many values": NewTask("render", f"[{'1,' * (LIMIT // 2 - 2)}1]"),
    "the largest payload of many names": NewTask(
        "render", json.dumps({f"{n:05}": "a: , b" for n in range(13_000)}, separators=(",", ":"))
    ),
    "the deepest arrays": NewTask("render", nested(DEEP)),
    "the deepest objects": NewTask("render", nested(DEEP, '{"a":', "1", "}")),
    "many arrays beside each other": NewTask("render", f"[{','.join(['[[]]'] * 500)}]"),
    "brackets in text": NewTask("render", json.dumps("[" * 500)),
    "the longest kind": NewTask("é" * 200),
    "a kind with a colon": NewTask("mail:send", bucket="mail:send/tenant=a:b"),
    "the longest queue": NewTask("render", queue="q" * 200),
    "a lane": NewTask("render", bucket="lane:=*"),
    "a lane that blocks": NewTask("render", bucket="lane!:order=7"),
    "a key": NewTask("render", bucket="render/episode=a=*"),
    "the longest names of all": NewTask(
        "é" * 200,
        queue="é" * 200,
        bucket="lane:" + "é" * 497,
        subject="é" * 500,
        trace_id="é" * 500,
    ),
}


@pytest.mark.parametrize("task", TAKEN.values(), ids=list(TAKEN))
@pytest.mark.catches("blanks-of-jsonb-counted")
async def test_what_is_within_bounds_is_taken_by_sql_and_by_python(world: World, task: NewTask) -> None:
    assert await refusal_in_python(world, task) is None
    assert await refusal_in_sql(world, task) is None
    assert await world.rows("tasks") == 2


async def test_a_task_with_the_longest_names_waits_behind_its_bucket_and_fails(
    world: World, limits: Limits
) -> None:
    """The names are random, because an index compresses what repeats itself."""

    def name(count: int) -> str:
        return secrets.token_hex(count // 2)

    kind, queue = name(200), name(200)
    bucket = f"{kind}/tenant={name(790)}"
    await limits.set(world.conn, Scope.KEY, f"{kind}/tenant=*", Limit(running=1))
    for _ in range(2):
        subject, trace, key = name(1_000), name(1_000), name(1_000)
        await world.enqueue(kind, queue=queue, bucket=bucket, subject=subject, trace_id=trace, key=key)
    (claim,) = await world.claim(queues=[queue])
    assert await world.rows("blocked") == 1
    await world.settle((claim, Fail("TASK_PRECONDITION_FAILED", "no")))
    assert await world.state(claim.id) is State.FAILED


@pytest.mark.catches("numbers-are-larger-than-they-look")
async def test_numbers_that_are_huge_as_text_are_refused(world: World) -> None:
    """Each takes 22 bytes in jsonb, and 131,001 as text."""
    with pytest.raises(psycopg.Error) as refused:
        await world.conn.execute(
            "select holdfast.enqueue('noop', (select jsonb_agg(('1e131000')::numeric) from generate_series(1, 60)))"
        )
    assert refused.value.sqlstate == "HF003"


@pytest.mark.catches("sql-takes-any-name", "usual-task-is-not-looked-at")
async def test_sql_and_python_agree_about_every_kind_of_name(world: World) -> None:
    kinds = [
        "",
        "mail",
        "a:b",
        ":",
        "after:x",
        "lane:x",
        "lane!:x",
        "lane",
        "kind:x",
        "queue:x",
        "holdfast.x",
    ]
    queues = ["", "default", "holdfast", "after:x"]
    buckets = [
        None, "", "b", ":", "=", "=*", "*", "x:y", "mail/f=1", "mail/f=", "mail/f=*", "mail/f=a=*", "a:b/f=1", "a:b/f=*",
        "kind:x/f=1", "lane:", "lane:x", "lane:=*", "lane!:", "lane!:x", "lane!:=*", "lanes:=", "after:x", "kind:w", "queue:w",
    ]  # fmt: skip
    different = []
    for kind, queue, bucket in itertools.product(kinds, queues, buckets):
        task = NewTask(kind, queue=queue, bucket=bucket)
        python, in_sql = await refusal_in_python(world, task), await refusal_in_sql(world, task)
        if (type(python), str(python)) != (type(in_sql), str(in_sql)):
            different.append((task, python, in_sql))
    assert not different


@pytest.mark.catches("replace-brings-in-anything")
async def test_what_is_out_of_bounds_cannot_come_in_by_replacing_a_task(world: World) -> None:
    replace = "select holdfast.enqueue('index', %s, key => 'page:1', uniqueness => 'replace', bucket => %s)"
    await world.conn.execute(replace, ['{"v": 1}', "index/of=a"])
    for payload, bucket in ((json.dumps("x" * LIMIT), None), (nested(DEEP + 1), None), ("{}", "after:x")):
        with pytest.raises(psycopg.Error) as refused:
            await world.conn.execute(replace, [payload, bucket])
        assert refused.value.sqlstate in ("HF003", "HF004", "HF005")
    assert await world.rows_of("tasks", "payload, bucket") == [({"v": 1}, "index/of=a")]


@pytest.mark.catches("anybody-stands-behind-a-follow-up")
async def test_only_a_follow_up_stands_behind_the_bucket_of_a_follow_up(world: World) -> None:
    own = uuid4()
    with pytest.raises(psycopg.Error, match="cannot be the bucket of a task"):
        await world.conn.execute(
            "select holdfast.enqueue('render', id => %s, bucket => %s)", [own, f"after:{own}"]
        )
    first = await world.enqueue("render")
    await world.store.enqueue(world.conn, NewTask("report", id=str(own), after=[first], key="day:1"))
    again = await world.store.enqueue(world.conn, NewTask("report", after=[first], key="day:1"))
    assert again.id == str(own)
    assert not again.created
    # A second one under the same key leaves nothing behind that nobody releases.
    assert await world.rows_of("followups", "task_id") == [(own,)]
    assert (await world.claim_one()).id == first


@pytest.mark.parametrize("bucket", ["after:x", "lane:books", "lane!:books", "kind:render", ""])
async def test_a_follow_up_cannot_ask_for_a_bucket_that_no_task_may_have(world: World, bucket: str) -> None:
    first = await world.enqueue("render")
    with pytest.raises(psycopg.Error) as refused:
        await world.conn.execute(
            "select * from holdfast.enqueue_after(%s, array[%s]::uuid[], 'report', '{}', bucket => %s)",
            [uuid4(), first, bucket],
        )
    assert refused.value.sqlstate == "HF005"
    assert await world.rows("followups") == 0


@pytest.mark.catches("sql-limit-reported-as-it-comes")
async def test_python_with_a_larger_limit_than_the_database_says_what_the_database_says(world: World) -> None:
    lenient = Store(Settings(database_url=world.url, payload_bytes_max=10 * LIMIT))
    with pytest.raises(PayloadTooLarge, match=r"a render task has 300002 bytes, the limit is 256000: store"):
        await lenient.enqueue(world.conn, NewTask("render", json.dumps("x" * 300_000)))
