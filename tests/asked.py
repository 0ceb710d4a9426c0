"""What a connection is asked, for tests of how little that is."""

from typing import Any

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from holdfast.db.connect import Conn


def asked_of(conn: Conn) -> list[str]:
    """The statements that this connection sends from now on, each with its values."""
    asked: list[str] = []

    class Told(AsyncCursor[TupleRow]):
        async def execute(self, query: Any, *args: Any, **options: Any) -> Any:
            asked.append(f"{query}\n{args}")
            return await super().execute(query, *args, **options)

    conn.cursor_factory = Told
    return asked
