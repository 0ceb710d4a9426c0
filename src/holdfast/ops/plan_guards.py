"""Asks the guards of kinds whether dead letters may be redriven, and at what cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from holdfast.config import Settings
from holdfast.core.errors import JsonUnreadable, Misused
from holdfast.core.failure import kept
from holdfast.core.handler import Candidate, Guarded, Handlers
from holdfast.core.stored_json import read_json
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.dead_letters import DeadFilter

PAGE = 1_000
# For a preview that a viewer asks for: guards may do anything, and payloads are large.
SOME, SOME_PAGE, SOME_CHARACTERS = 500, 20, 1_000_000


@dataclass(slots=True)
class Asked:
    """What the guards said: vetoes by task, and the money that the rest would move."""

    kinds: Sequence[str]
    vetoes: dict[str, str] = field(default_factory=dict)
    money_effect: Decimal = Decimal(0)
    are_all: bool = True


class PlanGuards:
    """The guards of an app's kinds."""

    def __init__(self, settings: Settings, handlers: Handlers) -> None:
        self._sql = load("ops/plans.sql", settings.schema_name)
        self._guards = {
            kind: handler.guard for kind, handler in handlers.items() if handler.guard is not None
        }
        self._known = frozenset(handlers)

    def unknown(self, kinds: Iterable[str]) -> list[str]:
        """Those of these kinds that this app does not have, so that nobody can ask their guards."""
        return sorted(set(kinds) - self._known)

    async def ask_all(self, conn: Conn, only: DeadFilter) -> Asked:
        """Ask about everything that a filter finds, page by page."""
        asked = Asked(sorted(self._guards))
        after: str | None = None
        while self._guards:
            rows = await self._page(conn, only, asked, after, PAGE)
            await self._ask(rows, asked)
            if len(rows) < PAGE:
                break
            after = str(rows[-1][0])
        return asked

    async def ask_some(self, conn: Conn, only: DeadFilter) -> Asked:
        """Ask about so many, of so many characters together, and say whether those were all."""
        asked = Asked(sorted(self._guards))
        after: str | None = None
        left, characters = SOME, SOME_CHARACTERS
        while self._guards:
            rows = await self._page(conn, only, asked, after, SOME_PAGE)
            chosen = []
            for row in rows:
                left -= 1
                characters -= len(str(row[2]))
                if left >= 0 and characters >= 0:
                    chosen.append(row)
            await self._ask(chosen, asked)
            if len(chosen) < len(rows):
                asked.are_all = False
                break
            if len(rows) < SOME_PAGE:
                break
            after = str(rows[-1][0])
        return asked

    async def _page(
        self, conn: Conn, only: DeadFilter, asked: Asked, after: str | None, limit: int
    ) -> Sequence[tuple[object, ...]]:
        values = only.values() | {"kinds": asked.kinds, "after": after, "limit": limit}
        return await (await conn.execute(self._sql["guarded"], values)).fetchall()

    async def ask_next(self, conn: Conn, plan_id: str, place: int, count: int) -> Asked:
        """Ask about the next items of a plan, just before they go."""
        asked = Asked(sorted(self._guards))
        if self._guards:
            values = {"plan": plan_id, "place": place, "count": count, "kinds": asked.kinds}
            await self._ask(await (await conn.execute(self._sql["next_items"], values)).fetchall(), asked)
        return asked

    async def _ask(self, rows: Sequence[tuple[object, ...]], asked: Asked) -> None:
        by_kind: dict[str, list[Candidate]] = {}
        for id_, kind, payload, version, subject, code in rows:
            try:
                values = read_json(str(payload))
            except JsonUnreadable as error:
                asked.vetoes[str(id_)] = f"its payload cannot be read: {error}"
                continue
            candidate = Candidate(str(id_), str(kind), values, version, subject, code)  # type: ignore[arg-type]
            by_kind.setdefault(candidate.kind, []).append(candidate)
        for kind, candidates in by_kind.items():
            for candidate, said in zip(candidates, await self._said(kind, candidates), strict=True):
                if said.veto is not None:
                    asked.vetoes[candidate.id] = kept(said.veto)
                else:
                    asked.money_effect += said.money_effect

    async def _said(self, kind: str, candidates: Sequence[Candidate]) -> Sequence[Guarded]:
        said = await self._guards[kind](candidates)
        if len(said) != len(candidates):
            raise Misused(f"the guard of {kind} answered {len(said)} for {len(candidates)} dead letters")
        return said
