"""Routes of the audit: list, export, verify, prune."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum
from typing import Annotated

from anyio import CancelScope
from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import Field

from holdfast.core.audit import PRUNE_BATCH, EntryFilter
from holdfast.core.errors import Misused
from holdfast.core.task import is_id
from holdfast.db.clock import read_clock
from holdfast.db.connect import Conn
from holdfast.http.quotas import OpenLimit
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import PAGE_MAX, EntryShape, Shape, Text, Why
from holdfast.http.service import Service
from holdfast.http.streams import LimitedStream
from holdfast.ops.audit import AuditReader
from holdfast.store.audit import Author

router = APIRouter(route_class=TransactionRoute, tags=["audit"])

DAYS_MAX = 36_500
EXPORTS_PER_TOKEN = 1
EXPORTS_MAX = 2
EXPORT_SECONDS = 600.0
# A filter that few entries match has a page read many.
EXPORT_PAGE_SECONDS = 30.0


class Format(StrEnum):
    """As what the audit is exported."""

    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


_MEDIA_TYPES = {
    Format.JSON: "application/json",
    Format.JSONL: "application/x-ndjson",
    Format.CSV: "text/csv; charset=utf-8",
}


# A page looks at so many of the newest, unless it is of one task or batch.
LOOK = 50_000


class Entries(Shape):
    """Which entries; what is not given is not asked for."""

    audit_action: Text | None = None
    audit_actor: Text | None = None
    subject: Text | None = None
    episode_id: Annotated[Text | None, Field(description="The same as subject.")] = None
    job_kind: Text | None = None
    trace_id: Text | None = None
    batch_id: Text | None = None
    task_id: Text | None = None

    def as_filter(self) -> EntryFilter:
        """The filter that it stands for."""
        for name, value in (("batchId", self.batch_id), ("taskId", self.task_id)):
            if value is not None and not is_id(value):
                raise Misused(f"{name} {value} is no id")
        return EntryFilter(
            self.audit_action,
            self.audit_actor,
            self.subject or self.episode_id,
            self.job_kind,
            self.trace_id,
            self.batch_id,
            self.task_id,
        )


class EntriesPage(Entries):
    """Which entries, and which page of them."""

    audit_page: Annotated[int, Field(ge=1, le=10_000)] = 1
    audit_page_size: Annotated[int, Field(ge=1, le=PAGE_MAX)] = 50


class EntriesShape(Shape):
    """A page of the audit."""

    items: list[EntryShape]  # type: ignore[valid-type]
    page: int
    page_size: int
    total: int
    partial: Annotated[
        bool,
        Field(description="Only the newest were looked at; an export has all."),
    ]


class Export(Entries):
    """Which entries, and as what."""

    format: Format = Format.JSONL


class Prune(Entries):
    """Which entries to let go, how old they must be, and why."""

    older_than_days: Annotated[float, Field(ge=0, le=DAYS_MAX)]
    dry_run: bool = False
    reason: Why = ""


class PrunedShape(Shape):
    """How many entries were let go, or would be."""

    dry_run: bool
    pruned: int
    prunable: int


@router.get("/api/tasks/audit-logs", response_model=EntriesShape)
async def list_entries(caller: CurrentCaller, only: Annotated[EntriesPage, Query()]) -> object:
    """Entries, the newest first."""
    reader, chosen = AuditReader(caller.settings), only.as_filter()
    offset = (only.audit_page - 1) * only.audit_page_size
    total, exact = await reader.count(caller.conn, chosen, LOOK)
    return {
        "items": await reader.page(caller.conn, chosen, limit=only.audit_page_size, offset=offset, look=LOOK),
        "page": only.audit_page,
        "page_size": only.audit_page_size,
        "total": total,
        "partial": not exact,
    }


@router.get(
    "/api/tasks/audit-logs/export",
    response_class=StreamingResponse,
    responses={200: {"content": {one.partition(";")[0]: {} for one in _MEDIA_TYPES.values()}}},
)
async def export(
    request: Request, caller: CurrentCaller, only: Annotated[Export, Query()]
) -> StreamingResponse:
    """Every entry, as a file; cells that a spreadsheet would run are defused. One at once for a token."""
    exports: OpenLimit = request.app.state.exports
    exports.check(caller.bearer.token)
    chosen = only.as_filter()
    # What the database refuses is said before an answer has begun.
    await AuditReader(caller.settings).page(caller.conn, chosen, limit=1, look=1)
    return LimitedStream(
        _pieces(caller.service, chosen, only.format),
        exports,
        caller.bearer.token,
        media_type=_MEDIA_TYPES[only.format],
        headers={"Content-Disposition": f'attachment; filename="audit.{only.format}"'},
    )


async def _pieces(service: Service, only: EntryFilter, how: Format) -> AsyncIterator[str]:
    # The connection of the request is gone when the answer begins. Each page has one for itself, which is
    # given back before the page is sent: a client that reads slowly holds none. A client that leaves does not
    # break off a statement, because that would cost the pool its connection.
    @asynccontextmanager
    async def connection() -> AsyncIterator[Conn]:
        with CancelScope(shield=True):
            async with (
                service.pool.connection() as conn,
                service.pool.bounded(conn, writes=False, seconds=EXPORT_PAGE_SECONDS),
            ):
                yield conn

    async for piece in AuditReader(service.settings).export_by_pages(connection, only, how):
        yield piece
        # Sending does not wait while the client reads fast enough: other requests have their turn here.
        await asyncio.sleep(0)


@router.post("/api/tasks/audit-logs/prune", response_model=PrunedShape)
async def prune(caller: CurrentCaller, act: Prune) -> object:
    """Let the content of old entries go, at most 500 in one call; their hashes stay."""
    writer, only = caller.audit, act.as_filter()
    before = await read_clock(caller.conn) - timedelta(days=act.older_than_days)
    if act.dry_run:
        found = await writer.prunable(caller.conn, before, only)
        return {"dry_run": True, "pruned": 0, "prunable": found}
    await writer.seal(caller.conn)
    pruned = await writer.prune(caller.conn, Author(caller.by, act.reason), before, only, PRUNE_BATCH)
    left = await writer.prunable(caller.conn, before, only)
    return {"dry_run": False, "pruned": pruned, "prunable": left}
