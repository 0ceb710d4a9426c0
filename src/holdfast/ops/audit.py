"""Reads the audit: pages, exports, verification."""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict, astuple, dataclass, fields, replace

import psycopg

from holdfast.config import Settings
from holdfast.core.audit import Entry, EntryFilter
from holdfast.core.errors import Misused
from holdfast.core.redact import shown_url
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter

PAGE = 1_000
# So many entries are written at once, before whoever sends them may do something else.
PIECE = 50
WRONG_SHOWN = 20
FORMATS = ("json", "jsonl", "csv")
_NAMES = tuple(field.name for field in fields(Entry))
# What verification looks at, and how a row of each is shown.
_CHECKS = {
    "verify_seals": "seal {} (chunk {}): {}",
    "verify_strays": "entry {}.{}: it is in no seal",
    "verify_unsealed": "chunk {}: it waits to be sealed, but {}",
    "verify_sequence": "sequence audit_chunk: it is at {}, and the newest chunk is {}",
    "verify_prunes": "prune {}: what it let go is not what its entry says",
}
# What a spreadsheet takes for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification covered, what it found wrong, and the head of the chain."""

    entries: int
    pruned: int
    unsealed: int
    head_number: int
    head_hash: str
    wrong: Sequence[str]


class AuditReader:
    """The audit of one installation, for people."""

    def __init__(self, settings: Settings) -> None:
        self._sql = load("ops/audit.sql", settings.schema_name)

    async def page(
        self, conn: Conn, only: EntryFilter, *, limit: int = 50, offset: int = 0, look: int | None = None
    ) -> list[Entry]:
        """A page of entries, the newest first; of so many at most, where that is given."""
        return await self._read(conn, only, limit, offset, None, look)

    async def count(self, conn: Conn, only: EntryFilter, look: int | None = None) -> tuple[int, bool]:
        """How many entries there are, and whether all were looked at."""
        values = asdict(only) | {"before_chunk": None, "before_place": None, "look": look}
        row = await (await conn.execute(self._sql["count_entries"], values)).fetchone()
        assert row is not None, "a count always answers"
        found, looked_at = row
        return found, look is None or looked_at < look

    async def export(self, conn: Conn, only: EntryFilter, how: str) -> AsyncIterator[str]:
        """Every entry, the newest first, as pieces of a text in one of the formats."""
        async for piece in self.export_by_pages(lambda: nullcontext(conn), only, how):
            yield piece

    async def export_by_pages(
        self, connection: Callable[[], AbstractAsyncContextManager[Conn]], only: EntryFilter, how: str
    ) -> AsyncIterator[str]:
        """The same, with a connection for each page, which is given back before the page is sent."""
        if how not in FORMATS:
            raise Misused(f"the audit cannot be exported as {how}: there are {', '.join(FORMATS)}")
        yield {"json": "[", "jsonl": "", "csv": _row(field.name for field in fields(Entry))}[how]
        before: tuple[int, int] | None = None
        first = True
        while True:
            async with connection() as conn:
                page = await self._read(conn, only, PAGE, 0, before)
            for start in range(0, len(page), PIECE):
                piece = page[start : start + PIECE]
                yield "".join(
                    _written(entry, how, first=first and not place) for place, entry in enumerate(piece)
                )
                first = False
            if len(page) < PAGE:
                break
            before = page[-1].chunk, page[-1].place
        if how == "json":
            yield "\n]\n"

    async def prove(self, conn: Conn, writer: AuditWriter, head: tuple[int, str] | None = None) -> Verified:
        """Seal what can be sealed, then verify; what stands in the way of sealing is a finding."""
        held_up = []
        try:
            await writer.seal(conn)
        except psycopg.errors.LockNotAvailable:
            held_up.append("sealing is held up: another session has sealed and does not commit")
        except psycopg.Error as error:
            if not unreadable(error):
                raise
            held_up.append(f"sealing fails: {error.diag.message_primary}")
        found = await self.verify(conn, head)
        return replace(found, wrong=[*held_up, *found.wrong])

    async def verify(self, conn: Conn, head: tuple[int, str] | None = None) -> Verified:
        """Look at every entry and every seal; `head` is one that was noted earlier."""
        wrong = []
        async with conn.transaction():
            await conn.execute("set transaction isolation level repeatable read, read only")
            for name, shown in _CHECKS.items():
                wrong += await self._check(conn, name, shown)
            if head is not None:
                row = await (await conn.execute(self._sql["seal_hash"], {"number": head[0]})).fetchone()
                if row is None or row[0] != head[1]:
                    wrong.append(f"seal {head[0]}: it is not the one that was noted")
            row = await (await conn.execute(self._sql["verified"])).fetchone()
            assert row is not None, "counts always answer"
        entries, pruned, unsealed, number, hash_ = row
        return Verified(entries, pruned, unsealed, number or 0, hash_ or "", wrong)

    async def _check(self, conn: Conn, name: str, shown: str) -> list[str]:
        """What one statement finds wrong; rows that it cannot read are a finding too."""
        try:
            # A savepoint, so that the other statements still run.
            async with conn.transaction():
                rows = await (await conn.execute(self._sql[name], {"limit": WRONG_SHOWN})).fetchall()
        except psycopg.Error as error:
            if not unreadable(error):
                raise
            return [f"{name}: the audit holds what cannot be read: {error.diag.message_primary}"]
        return [shown.format(*row) for row in rows]

    async def _read(
        self,
        conn: Conn,
        only: EntryFilter,
        limit: int,
        offset: int,
        before: tuple[int, int] | None,
        look: int | None = None,
    ) -> list[Entry]:
        chunk, place = before or (None, None)
        values = asdict(only) | {
            "limit": limit,
            "offset": offset,
            "before_chunk": chunk,
            "before_place": place,
            "look": look,
        }
        rows = await (await conn.execute(self._sql["entries"], values)).fetchall()
        return [Entry(*(*row[:11], _details(row[11]), *row[12:])) for row in rows]


def unreadable(error: psycopg.Error) -> bool:
    """Whether rows are the cause, and not the connection, the server's load or a missing right."""
    code = error.sqlstate or ""
    return code[:2] in ("22", "23", "54") or code == "XX000"


def _details(text: str | None) -> Mapping[str, object] | None:
    """The details of an entry; those that Python cannot read as JSON are shown as text."""
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {"unreadable": text[:1_000]}
    if not isinstance(found, dict):
        return {"value": found}
    url = found.get("url")
    # Entries about webhooks from before 0.3.0 have whole URLs, with the tokens in them.
    return found | {"url": shown_url(url)} if isinstance(url, str) else found


def _written(entry: Entry, how: str, *, first: bool) -> str:
    if how == "csv":
        return _row(astuple(entry))
    text = json.dumps({name: getattr(entry, name) for name in _NAMES}, default=str, ensure_ascii=False)
    return f"{text}\n" if how == "jsonl" else f"{'' if first else ','}\n{text}"


def _row(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(_cell(value) for value in values)
    return out.getvalue()


def _cell(value: object) -> str:
    """As text that no spreadsheet runs."""
    text = "" if value is None else json.dumps(value) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
