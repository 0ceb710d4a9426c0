"""Sets, declares and clears limits, one row for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.errors import Misused
from holdfast.core.events import LimitChanged, Listener, silent
from holdfast.core.limit import ANY, Limit, Scope
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.audit import AuditWriter, Author

CODE = "code"


@dataclass(frozen=True, slots=True)
class LimitView:
    """A limit as people see it."""

    name: str
    running_max: int | None
    rate_count: int | None
    rate_seconds: float | None
    rate_burst: int | None
    weight: float
    set_by: str
    set_at: datetime
    running: int
    holders: Mapping[str, int] | None
    spent_until: datetime | None
    waiting: int

    @property
    def rate(self) -> str:
        """The window in a word, or nothing."""
        if self.rate_count is None:
            return ""
        return f"{self.rate_count}/{self.rate_seconds:g}s + {self.rate_burst}"


class Limits:
    """The limits of one installation."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str) -> None:
        self._sql = load("store/limits.sql", settings.schema_name)
        self._tasks = load("store/line.sql", settings.schema_name)
        self._audit = AuditWriter(settings, listen)
        self._listen = listen
        self._by = by

    async def set(self, conn: Conn, scope: Scope, name: str, limit: Limit) -> str:
        """Set or change a limit; answers its full name. It holds for whatever starts from now on."""
        full = full_name(scope, name)
        values = {
            "name": full,
            "kind": name if scope is Scope.KIND and name != ANY else None,
            "queue": name if scope is Scope.QUEUE else None,
            "capacity": limit.running,
            "rate_count": limit.rate_count,
            "rate_seconds": limit.rate_seconds,
            "rate_burst": limit.rate_burst,
            "weight": limit.weight,
            "by": self._by,
        }
        async with conn.transaction():
            before = await self._starts_per_second(conn, full)
            await conn.execute(self._sql["set_limit"], values)
            await self._rescale(conn, full, before)
            if full == f"kind:{ANY}":
                await conn.execute(self._sql["set_default"])
            # Whoever found it full gave its turn up; now there may be room.
            await conn.execute(self._tasks["enlist"], {"names": [full]})
            await self._note(conn, Action.LIMIT_SET, values)
        self._listen(LimitChanged(full, self._by, cleared=False))
        return full

    async def declare(self, conn: Conn, limits: Iterable[tuple[Scope, str, Limit]]) -> None:
        """What code says of its kinds; a limit that a person set stays."""
        for scope, name, limit in limits:
            await self.set(conn, scope, name, limit)
        await conn.execute(self._sql["set_default"])

    async def clear(self, conn: Conn, scope: Scope, name: str) -> bool:
        """Let everything run again; whether there was a limit."""
        full = full_name(scope, name)
        async with conn.transaction():
            before = await self._starts_per_second(conn, full)
            rows = await (await conn.execute(self._sql["clear_limit"], {"name": full})).fetchall()
            names = [found for (found,) in rows]
            await conn.execute(self._sql["drop_bare"], {"names": names})
            await self._rescale(conn, full, before)
            await conn.execute(self._tasks["enlist"], {"names": [full]})
            if names:
                await self._note(conn, Action.LIMIT_CLEAR, {"name": full})
        if names:
            self._listen(LimitChanged(full, self._by, cleared=True))
        return bool(names)

    async def _note(self, conn: Conn, action: Action, values: Mapping[str, object]) -> None:
        """What a person did; what code declares is no act of an operator."""
        if self._by != CODE:
            details = {name: value for name, value in values.items() if value is not None and name != "by"}
            await self._audit.note(conn, action, Author(self._by, ""), details=details)

    async def _starts_per_second(self, conn: Conn, full: str) -> float | None:
        row = await (await conn.execute(self._sql["rate"], {"name": full})).fetchone()
        return None if row is None or row[0] is None else row[0] / row[1]

    async def _rescale(self, conn: Conn, full: str, before: float | None) -> None:
        """What was spent by the old rate counts by the new one."""
        if before is None:
            return
        now = await self._starts_per_second(conn, full)
        if now != before:
            await conn.execute(
                self._sql["rescale"], {"name": full, "factor": 0.0 if now is None else before / now}
            )

    async def show(self, conn: Conn) -> list[LimitView]:
        """Every limit."""
        rows = await (await conn.execute(self._sql["limits"])).fetchall()
        return [LimitView(*row) for row in rows]


def full_name(scope: Scope, name: str) -> str:
    """The name under which a limit is kept."""
    if not name:
        raise Misused(f"which {scope}? Give its name")
    if scope is Scope.KEY:
        if "=" not in name or "/" not in name.split("=", 1)[0]:
            raise Misused(
                f"{name!r} is no key: write KIND/FIELD=VALUE, for example video.render/episode=7, "
                "or =* for all"
            )
        return name
    return f"{scope}:{name}"
