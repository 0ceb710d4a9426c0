"""A queue that has filled up since statistics called it empty."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.db.connect import Conn

_FILL = (
    "select from holdfast.enqueue_many(kinds => array['mail.send'],"
    " ids => array(select holdfast.uuid7() from generate_series(1, {tasks})),"
    " payloads => array_fill('{{}}'::jsonb, array[{tasks}]))"
)
_EMPTY = "delete from holdfast.ready; delete from holdfast.running; delete from holdfast.tasks"


@asynccontextmanager
async def outgrown(conn: Conn, tasks: int) -> AsyncIterator[None]:
    """So many stood there and were counted; then none; then as many again, which nobody has counted."""
    # Not left to chance: the server's own analyze may come at any moment.
    await conn.execute("alter table holdfast.ready set (autovacuum_enabled = off)")
    try:
        await conn.execute(_FILL.format(tasks=tasks))
        await conn.execute("analyze holdfast.ready")
        await conn.execute(_EMPTY)
        await conn.execute("analyze holdfast.ready")
        await conn.execute(_FILL.format(tasks=tasks))
        yield
    finally:
        await conn.execute(_EMPTY)
        await conn.execute("alter table holdfast.ready reset (autovacuum_enabled)")
