"""`Holdfast`, the composition root: where kinds meet their handlers, and tasks are handed in."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from holdfast.api.codec import Codec, Upgrade, encode_result, payload_type
from holdfast.api.desk import Desk
from holdfast.api.handles import TaskHandle
from holdfast.api.kinds import Intake, Kind, positive
from holdfast.config import Settings
from holdfast.core.backoff import Backoff
from holdfast.core.errors import BadHandler
from holdfast.core.handler import Handler, Handlers, Isolation, Task
from holdfast.core.limit import Limit
from holdfast.core.outcome import Duration
from holdfast.core.task import QUEUE_DEFAULT, NewTask
from holdfast.store.enqueue import Enqueuer
from holdfast.store.operate import Operator

P = TypeVar("P")

KIND_CHARACTERS_MAX = 200


class Holdfast:
    """An app: its settings and its kinds. It opens no connection until it needs one of its own."""

    def __init__(self, database_url: str | None = None, *, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        if database_url is not None:
            self.settings = self.settings.model_copy(update={"database_url": database_url})
        self._kinds: dict[str, Kind[Any]] = {}
        self._desk = Desk(self.settings)
        self._operator = Operator(self.settings, by="app")
        self._intake = Intake(Enqueuer(self.settings), self._desk, self._operator)

    @property
    def handlers(self) -> Handlers:
        """Every kind that this app can run."""
        return {name: kind.handler for name, kind in self._kinds.items()}

    def task(  # noqa: PLR0913 (one name for each thing that a kind can say of itself)
        self,
        kind: str,
        *,
        queue: str = QUEUE_DEFAULT,
        timeout: Duration | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | None = None,
        isolation: Isolation | str = Isolation.THREAD,
        permanent: tuple[type[Exception], ...] = (),
        rate_limited: tuple[type[Exception], ...] = (),
        limit: Limit | None = None,
        per: tuple[str, Limit] | None = None,
        lane_on_failure: Literal["pass", "block"] = "pass",
        version: int = 1,
        upgrades: Mapping[int, Upgrade] | None = None,
    ) -> Callable[[Callable[[Task[P]], Any]], Kind[P]]:
        """Have a function handle tasks of a kind; it is given a `Task` and answers a value or an outcome.

        The kind's name stands in the database: it outlives the function's. `upgrades[n]` turns a payload
        of version n into one of n + 1, for tasks that were enqueued before a deploy.

        `limit` holds for all tasks of the kind, on all workers together; `per=("episode", Limit(…))` for
        those with the same value of that field of the payload, which are served in turn with the others.
        After a failed task its lane goes on, or with `lane_on_failure="block"` waits for an operator.
        """
        self._check(kind)
        if max_attempts is not None and max_attempts < 1:
            raise BadHandler(f"max_attempts of {kind} is {max_attempts}: a task has at least one attempt")
        if backoff is not None and not isinstance(backoff, Backoff):
            raise BadHandler(f"backoff of {kind} is {backoff!r}: write Backoff(base_seconds=…)")
        if isolation not in set(Isolation):
            raise BadHandler(f"isolation of {kind} is {isolation!r}: it is 'thread' or 'process'")
        if limit is not None and not isinstance(limit, Limit):
            raise BadHandler(f"limit of {kind} is {limit!r}: write Limit(running=…)")
        if per is not None and not isinstance(per[-1], Limit):
            raise BadHandler(f'per of {kind} is {per!r}: write per=("field", Limit(running=…))')
        if lane_on_failure not in ("pass", "block"):
            raise BadHandler(f"lane_on_failure of {kind} is {lane_on_failure!r}: it is 'pass' or 'block'")

        def take(function: Callable[[Task[P]], Any]) -> Kind[P]:
            codec = Codec(kind, payload_type(kind, function), version, upgrades or {})
            handler = Handler(
                kind=kind,
                call=function,
                awaits=inspect.iscoroutinefunction(function),
                queue=queue,
                timeout_seconds=None if timeout is None else positive("timeout", timeout),
                max_attempts=max_attempts,
                backoff=backoff or Backoff(),
                isolation=Isolation(isolation),
                permanent=permanent,
                rate_limited=rate_limited,
                decode=codec.decode,
                encode=encode_result,
                version=version,
                limit=limit,
                per=per,
                lane_blocks=lane_on_failure == "block",
            )
            made: Kind[P] = Kind(function, handler, codec, self._intake)
            self._kinds[kind] = made
            return made

        return take

    async def enqueue_many(self, tasks: Sequence[NewTask], *, conn: object | None = None) -> list[TaskHandle]:
        """Add tasks of any kinds, made with `kind.new(…)`, in one statement."""
        return await self._intake.enqueue(tasks, conn)

    def handle(self, task_id: str) -> TaskHandle:
        """A handle to a task by its id, whoever enqueued it."""
        return TaskHandle(task_id, False, self._desk, self._operator)

    async def close(self) -> None:
        """Let the app's own connections go."""
        await self._desk.close()

    async def __aenter__(self) -> "Holdfast":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check(self, kind: str) -> None:
        if not isinstance(kind, str):
            raise BadHandler(f'a kind needs a name: write @app.task("{getattr(kind, "__name__", "name")}")')
        if not kind or len(kind) > KIND_CHARACTERS_MAX or not kind.isprintable():
            raise BadHandler(
                f"{kind!r} cannot be a kind: it is a name of 1 to {KIND_CHARACTERS_MAX} printable characters"
            )
        if kind in self._kinds:
            other = self._kinds[kind].handler.call
            where = f"{getattr(other, '__module__', '?')}.{getattr(other, '__qualname__', other)}"
            raise BadHandler(f"kind {kind} has a handler already, {where}: give this one another name")
