"""The store: everything that writes tasks, for one schema and one listener."""

from collections.abc import Sequence

from holdfast.config import Settings
from holdfast.core.events import Listener, silent
from holdfast.core.task import KEY_WINDOW_SECONDS, Enqueued, NewTask
from holdfast.db.bridges import bridge_async
from holdfast.db.connect import Conn
from holdfast.store.claim import Claims
from holdfast.store.enqueue import Enqueuer
from holdfast.store.permits import Permits
from holdfast.store.settle import Settler
from holdfast.store.workers import Workers

HINT_CHANNEL = "ready"


class Store:
    """Its parts run on the connection they are given, so that they commit with whatever else is there."""

    def __init__(self, settings: Settings | None = None, listen: Listener = silent) -> None:
        self.settings = settings or Settings()
        self.listen = listen
        self._enqueuer = Enqueuer(self.settings, listen)
        self.claims = Claims(self.settings, listen)
        self.permits = Permits(self.settings, listen)
        self.settler = Settler(self.settings, listen)
        self.workers = Workers(self.settings, listen, self.settler, self.permits)

    async def enqueue(self, conn: Conn, task: NewTask) -> Enqueued:
        """Add one task, in the caller's transaction."""
        (enqueued,) = await self.enqueue_many(conn, [task])
        return enqueued

    async def enqueue_many(
        self, conn: Conn, tasks: Sequence[NewTask], key_seconds: float = KEY_WINDOW_SECONDS
    ) -> list[Enqueued]:
        """Add many tasks in one statement; a key that stands for another task answers with that."""
        return await self._enqueuer.enqueue(bridge_async(conn), tasks, key_seconds)
