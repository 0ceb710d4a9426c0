"""Reading the audit: pages, exports, and the proof that nobody changed it."""

import csv
import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, fields

from holdfast.config import Settings
from holdfast.core.audit import Entry, EntryFilter
from holdfast.core.errors import Misused
from holdfast.store.pool import Conn
from holdfast.store.sql import load

PAGE = 1_000
WRONG_SHOWN = 20
FORMATS = ("json", "jsonl", "csv")
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
        self._sql = load("audit.sql", settings.schema_name)

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
        if how not in FORMATS:
            raise Misused(f"the audit cannot be exported as {how}: there are {', '.join(FORMATS)}")
        yield {"json": "[", "jsonl": "", "csv": _row(field.name for field in fields(Entry))}[how]
        before: tuple[int, int] | None = None
        first = True
        while True:
            page = await self._read(conn, only, PAGE, 0, before)
            for entry in page:
                yield _written(entry, how, first=first)
                first = False
            if len(page) < PAGE:
                break
            before = page[-1].chunk, page[-1].place
        if how == "json":
            yield "\n]\n"

    async def verify(self, conn: Conn, head: tuple[int, str] | None = None) -> Verified:
        """Look at every entry and every seal; `head` is one that was noted earlier."""
        wrong = []
        async with conn.transaction():
            await conn.execute("set transaction isolation level repeatable read, read only")
            limit = {"limit": WRONG_SHOWN}
            for number, chunk, why in await (await conn.execute(self._sql["verify_seals"], limit)).fetchall():
                wrong.append(f"seal {number} (chunk {chunk}): {why}")
            for chunk, place in await (await conn.execute(self._sql["verify_strays"], limit)).fetchall():
                wrong.append(f"entry {chunk}.{place}: it is in no seal")
            for (batch,) in await (await conn.execute(self._sql["verify_prunes"], limit)).fetchall():
                wrong.append(f"prune {batch}: what it let go is not what its entry says")
            if head is not None:
                row = await (await conn.execute(self._sql["seal_hash"], {"number": head[0]})).fetchone()
                if row is None or row[0] != head[1]:
                    wrong.append(f"seal {head[0]}: it is not the one that was noted")
            row = await (await conn.execute(self._sql["verified"])).fetchone()
            assert row is not None, "counts always answer"
        entries, pruned, unsealed, number, hash_ = row
        return Verified(entries, pruned, unsealed, number or 0, hash_ or "", wrong)

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
        return [Entry(*row) for row in await (await conn.execute(self._sql["entries"], values)).fetchall()]


def _written(entry: Entry, how: str, *, first: bool) -> str:
    if how == "csv":
        return _row(astuple(entry))
    text = json.dumps(asdict(entry), default=str, ensure_ascii=False)
    return f"{text}\n" if how == "jsonl" else f"{'' if first else ','}\n{text}"


def _row(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(_cell(value) for value in values)
    return out.getvalue()


def _cell(value: object) -> str:
    """As text that no spreadsheet runs."""
    text = "" if value is None else json.dumps(value) if isinstance(value, dict) else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
