"""A task kind: its handler and the methods that enqueue its tasks."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, TypedDict, TypeVar, Unpack

from holdfast.api.codec import Codec
from holdfast.api.handles import TaskHandle
from holdfast.api.sender import Sender
from holdfast.core.errors import Misused
from holdfast.core.handler import Bulk, Handler, Task
from holdfast.core.limit import bucket_of_key, bucket_of_lane
from holdfast.core.outcome import Duration, as_seconds
from holdfast.core.task import PRIORITIES, Moment, NewTask, Unique

P = TypeVar("P")
# Later than that a moment would be beyond what Python can read from the database.
DELAY_MAX = timedelta(days=36_500)


class TaskOptions(TypedDict, total=False):
    """What can be said of one task beside its payload; a timedelta for a time means from now on."""

    queue: str
    priority: int
    run_at: Moment
    expires_at: Moment
    subject: str
    trace_id: str
    key: str
    unique: Literal["key", "queued", "replace"]
    lane: str
    per: str
    max_attempts: int
    timeout: Duration
    after: "Sequence[TaskHandle | str]"
    id: str


class Kind(Generic[P]):
    """A function with a name that tasks are enqueued under; called, it is the function itself."""

    def __init__(self, function: Callable[..., Any], handler: Handler, codec: Codec, sender: Sender) -> None:
        functools.update_wrapper(self, function)
        self.name = handler.kind
        self.handler = handler
        self._function = function
        self._codec = codec
        self._sender = sender

    def __call__(self, task: Task[P] | Bulk[P]) -> Any:
        """Call the handler as the plain function that it is."""
        return self._function(task)

    def __repr__(self) -> str:
        return f"<kind {self.name}>"

    def new(self, payload: P, **options: Unpack[TaskOptions]) -> NewTask:
        """A task that is not enqueued yet, for `app.enqueue_many`."""
        return _new(self.handler, payload, self._codec.encode(payload), options)

    async def enqueue(
        self, payload: P, *, conn: object | None = None, **options: Unpack[TaskOptions]
    ) -> TaskHandle:
        """Add one task: in the transaction of `conn`, or at once on a connection of the app's own."""
        (handle,) = await self._sender.enqueue([self.new(payload, **options)], conn)
        return handle

    async def enqueue_many(
        self, payloads: Iterable[P], *, conn: object | None = None, **options: Unpack[TaskOptions]
    ) -> list[TaskHandle]:
        """Add many tasks in one statement, all with the same options."""
        if "key" in options or "id" in options:
            raise Misused(
                f"one key or id cannot stand for many {self.name} tasks: make each with "
                f"{self.name}'s new(payload, key=…) and pass them to app.enqueue_many"
            )
        return await self._sender.enqueue([self.new(payload, **options) for payload in payloads], conn)

    def enqueue_sync(
        self, payload: P, *, conn: object | None = None, **options: Unpack[TaskOptions]
    ) -> TaskHandle:
        """Add one task where calls block: with a psycopg Connection, a SQLAlchemy Session or Connection."""
        (handle,) = self._sender.enqueue_sync([self.new(payload, **options)], conn)
        return handle


def _new(handler: Handler, payload: object, text: str, options: TaskOptions) -> NewTask:
    unknown = sorted(set(options) - set(TaskOptions.__annotations__))
    if unknown:
        known = ", ".join(TaskOptions.__annotations__)
        raise Misused(
            f"a {handler.kind} task has no option {', '.join(unknown)}: there are {known}; "
            "a delay is run_at=timedelta(…)"
        )
    priority = options.get("priority", 2)
    if priority not in PRIORITIES:
        raise Misused(f"priority {priority} does not exist: it is 0 (most urgent), 1, 2 (usual) or 3")
    attempts = options.get("max_attempts")
    if attempts is not None and attempts < 1:
        raise Misused(f"max_attempts is {attempts}: a task has at least one attempt")
    key, lane = options.get("key"), options.get("lane")
    unique = Unique(options.get("unique", "key"))
    if unique is not Unique.KEY and key is None:
        raise Misused(f'unique="{unique}" says what a second task of the same key means: give it a key')
    for name, given in (("key", key), ("lane", lane), ("queue", options.get("queue"))):
        if given == "":
            raise Misused(f"{name} is empty: leave it out, or give it a name")
    timeout = options.get("timeout")
    return NewTask(
        handler.kind,
        text,
        id=options.get("id"),
        queue=options.get("queue", handler.queue),
        priority=priority,
        version=handler.version,
        run_at=_moment("run_at", options.get("run_at")),
        expires_at=_moment("expires_at", options.get("expires_at")),
        subject=options.get("subject"),
        trace_id=options.get("trace_id"),
        key=key,
        unique=unique,
        bucket=_bucket(handler, payload, options),
        max_attempts=attempts,
        timeout_seconds=None if timeout is None else positive("timeout", timeout),
        after=_after(handler.kind, options),
    )


def _after(kind: str, options: TaskOptions) -> list[str]:
    after = options.get("after")
    if after is None:
        return []
    if isinstance(after, (str, TaskHandle)) or not after:
        raise Misused(f"after= of a {kind} task is {after!r}: give a list of handles or ids")
    if options.get("lane") is not None:
        raise Misused(f"a {kind} task cannot have a lane and come after others: the lane would wait for it")
    # In the order given, each of them once.
    return list(dict.fromkeys(one.id if isinstance(one, TaskHandle) else one for one in after))


def _bucket(handler: Handler, payload: object, options: TaskOptions) -> str | None:
    """What the task stands behind: its lane, or the limit of its key."""
    lane, per = options.get("lane"), options.get("per")
    if lane is not None:
        if per is not None or handler.per is not None:
            raise Misused(
                f"a {handler.kind} task cannot have a lane and a limit per key: "
                "a lane runs one at a time already"
            )
        return bucket_of_lane(lane, blocks=handler.lane_blocks)
    if handler.per is None:
        return None if per is None else bucket_of_key(handler.kind, "key", per)
    field = handler.per[0]
    if per is not None:
        return bucket_of_key(handler.kind, field, per)
    return bucket_of_payload(handler.kind, field, payload)


def bucket_of_payload(kind: str, field: str, payload: object) -> str:
    """The limit that a task stands behind by the value of that field."""
    value = payload.get(field) if isinstance(payload, Mapping) else getattr(payload, field, None)
    if value is None:
        raise Misused(
            f"a {kind} task stands behind the limit of its {field}, and its payload has none: "
            'give it one, or per="…"'
        )
    return bucket_of_key(kind, field, value)


def positive(name: str, duration: Duration) -> float:
    """A duration in seconds that is longer than nothing."""
    seconds = as_seconds(duration)
    if not 0 < seconds < 1e8:
        raise Misused(f"{name} is {seconds:g} s: it must be more than nothing, and less than three years")
    return seconds


def _moment(name: str, moment: Moment | None) -> Moment | None:
    if isinstance(moment, timedelta) and abs(moment) > DELAY_MAX:
        raise Misused(f"{name} is {moment.days} days from now: the limit is {DELAY_MAX.days}")
    if isinstance(moment, datetime) and moment.tzinfo is None:
        raise Misused(f"{name} is {moment}, without a time zone: write datetime.now(UTC) + …, or a timedelta")
    return moment
