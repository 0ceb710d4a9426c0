"""`Holdfast`, the composition root: registers task kinds and enqueues tasks."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, Unpack

from holdfast.api.codec import Codec
from holdfast.api.connections import AppConnections
from holdfast.api.declare import KindOptions, check, declare, gather
from holdfast.api.handles import TaskHandle
from holdfast.api.kinds import Kind
from holdfast.api.sender import Sender
from holdfast.config import Settings
from holdfast.core.bounds import BUCKET_PREFIXES, NAME_CHARACTERS_MAX, RESERVED_KINDS
from holdfast.core.errors import BadHandler, Misused
from holdfast.core.events import Listener, silent
from holdfast.core.handler import GATHER_SECONDS, GATHER_SIZE, Bulk, Handler, Handlers, Isolation, Task
from holdfast.core.outcome import Duration
from holdfast.core.task import NewTask
from holdfast.ops.plan_driver import plan_handler
from holdfast.store.enqueue import Enqueuer
from holdfast.store.operate import Operator
from holdfast.store.plan_tasks import PLAN_KIND
from holdfast.webhooks.api import WebhookKinds, Webhooks

P = TypeVar("P")

# How buckets are called in which tasks wait for others, and not for a limit; and kinds of our own.
RESERVED = (*BUCKET_PREFIXES, *RESERVED_KINDS)


class Holdfast:
    """An app: its settings and its kinds. It opens no connection until it needs one of its own.

    With `webhooks=True` it publishes events, and its workers deliver them.
    """

    def __init__(
        self, database_url: str | None = None, *, settings: Settings | None = None, webhooks: bool = False
    ) -> None:
        self.settings = settings or Settings()
        if database_url is not None:
            self.settings = self.settings.model_copy(update={"database_url": database_url})
        self._kinds: dict[str, Kind[Any]] = {}
        # Whoever runs this app's tasks hears here of what operators asked for and came to pass.
        self.listener: Listener = silent
        self._plans = plan_handler(self.settings, lambda: self.handlers, lambda event: self.listener(event))
        self._desk = AppConnections(self.settings)
        self._operator = Operator(self.settings, by="app")
        self._sender = Sender(Enqueuer(self.settings), self._desk, self._operator)
        self._webhooks: Webhooks | None = None
        self._features: list[WebhookKinds] = []
        if webhooks:
            self._webhooks = Webhooks(self.settings, self._sender.enqueue, self._sender.enqueue_sync)
            self._features.append(WebhookKinds(self.settings, lambda event: self.listener(event)))

    @property
    def handlers(self) -> Handlers:
        """Every kind that this app can run, and those that do what operators and features ask for."""
        own = {name: kind.handler for name, kind in self._kinds.items()}
        for feature in self._features:
            own |= feature.handlers
        return own | {PLAN_KIND: self._plans}

    @property
    def webhooks(self) -> Webhooks:
        """Where events are published."""
        if self._webhooks is None:
            raise Misused("this app delivers no events: make it with Holdfast(webhooks=True)")
        return self._webhooks

    def task(
        self, kind: str, *, isolation: Isolation | str = Isolation.THREAD, **options: Unpack[KindOptions]
    ) -> Callable[[Callable[[Task[P]], Any]], Kind[P]]:
        """Have a function handle tasks of a kind; it is given a `Task` and answers a value or an outcome.

        The kind's name stands in the database: it outlives the function's. A plain function runs in a
        thread, or with `isolation="process"` in a process of its own.
        """
        self._check(kind)
        check(kind, options, isolation)

        def take(function: Callable[[Task[P]], Any]) -> Kind[P]:
            return self._add(function, declare(kind, function, options, isolation=isolation))

        return take

    def bulk_task(
        self,
        kind: str,
        *,
        size: int = GATHER_SIZE,
        linger: Duration = GATHER_SECONDS,
        **options: Unpack[KindOptions],
    ) -> Callable[[Callable[[Bulk[P]], Any]], Kind[P]]:
        """Have a function handle many tasks of a kind in one call; it is given a `Bulk` of them.

        It answers a list with one value, outcome or exception for each task in their order, or None when
        all are done. If the call raises, parts of it are called again until it is known whose fault that
        was; so a task may be in several calls, and only one that fails alone has failed. A call
        has up to `size` tasks, and waits for so many no longer than `linger` after the first.
        """
        self._check(kind)
        check(kind, options, Isolation.THREAD)
        bulk = gather(kind, size, linger)

        def take(function: Callable[[Bulk[P]], Any]) -> Kind[P]:
            return self._add(function, declare(kind, function, options, bulk=bulk))

        return take

    def _add(self, function: Callable[..., Any], declared: tuple[Handler, Codec]) -> Kind[Any]:
        made: Kind[Any] = Kind(function, *declared, self._sender)
        theirs = {name: other.name for other in self._kinds.values() for name in other.handler.schedule_names}
        for name in made.handler.schedule_names:
            if name in theirs:
                raise BadHandler(
                    f"kind {theirs[name]} has a schedule called {name} already: "
                    f"give that of {made.name} another name"
                )
        self._kinds[made.name] = made
        return made

    async def enqueue_many(self, tasks: Sequence[NewTask], *, conn: object | None = None) -> list[TaskHandle]:
        """Add tasks of any kinds, made with `kind.new(…)`, in one statement."""
        return await self._sender.enqueue(tasks, conn)

    def handle(self, task_id: str) -> TaskHandle:
        """A handle to a task by its id, whoever enqueued it."""
        return TaskHandle(task_id, False, self._desk, self._operator)

    async def close(self) -> None:
        """Let the app's own connections go."""
        for feature in self._features:
            await feature.close()
        await self._desk.close()

    async def __aenter__(self) -> "Holdfast":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check(self, kind: str) -> None:
        if not isinstance(kind, str):
            raise BadHandler(f'a kind needs a name: write @app.task("{getattr(kind, "__name__", "name")}")')
        if not kind or len(kind) > NAME_CHARACTERS_MAX or not kind.isprintable():
            raise BadHandler(
                f"{kind!r} cannot be a kind: it is a name of 1 to {NAME_CHARACTERS_MAX} printable characters"
            )
        if kind.startswith(RESERVED):
            prefix = next(prefix for prefix in RESERVED if kind.startswith(prefix))
            raise BadHandler(f"{kind!r} cannot be a kind: names that begin with {prefix} are taken")
        if kind in self._kinds:
            other = self._kinds[kind].handler.call
            where = f"{getattr(other, '__module__', '?')}.{getattr(other, '__qualname__', other)}"
            raise BadHandler(f"kind {kind} has a handler already, {where}: give this one another name")
