"""Kinds that this version of a worker does not know: a gate before each, that only others pass."""

import time

import psycopg

from holdfast.core.events import KindsUnknown
from holdfast.db.link import Link, LinkLost
from holdfast.store.store import Store
from holdfast.store.unserved_kinds import UnservedKinds
from holdfast.worker.background import Background

AGAIN_SECONDS = 5.0


class UnknownKinds:
    """The unknown kinds that one executor has met."""

    def __init__(
        self,
        worker: str,
        store: Store,
        link: Link,
        background: Background,
    ) -> None:
        self._worker = worker
        self._listen = store.listen
        self._gates = UnservedKinds(store.settings, store.listen, by=worker)
        self._link = link
        self._background = background
        self._gated_at: dict[str, float] = {}

    def met(self, kind: str) -> None:
        """A task of a kind without a handler was claimed: the next ones step aside."""
        now = time.monotonic()
        if now - self._gated_at.get(kind, -AGAIN_SECONDS) >= AGAIN_SECONDS:
            self._gated_at[kind] = now
            self._listen(KindsUnknown(self._worker, [kind]))
            self._background.start(self._gate(kind))

    async def _gate(self, kind: str) -> None:
        try:
            await self._link.use(lambda conn: self._gates.gate(conn, kind))
        except (LinkLost, psycopg.Error):
            # The next task of the kind tries again.
            self._gated_at.pop(kind, None)
