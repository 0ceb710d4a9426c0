"""Claims ready tasks: the ranges to scan, what a claim returns, and who may sweep below the floors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

from holdfast.config import Settings
from holdfast.core.events import Listener, TasksBlocked, TasksClaimed
from holdfast.core.task import PRIORITIES, TIMEOUT_SECONDS, Claim
from holdfast.db.connect import Conn
from holdfast.db.statements import load

BLOCK_LIMIT = 1_000
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, tzinfo=UTC)
_IN_TIME = attrgetter("run_at", "id")


@dataclass(frozen=True, slots=True)
class Range:
    """One stretch of one queue and priority to look at."""

    queue: str
    priority: int
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a claim could see: numbers below xmin had ended. `number` is its own, if it took one."""

    xmin: int
    number: int | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim took, and what it met on the way."""

    claims: Sequence[Claim]
    # How many tasks it blocked.
    blocked: int
    # Kinds of which it met tasks and that were not among those it served.
    unknown: Sequence[str]
    # Whether a bucket's turn had come, if that was asked for.
    due: bool
    seen: Snapshot
    paused: frozenset[str]


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """Where a claim looks, and for what."""

    ranges: Sequence[Range]
    # Tasks of other kinds are blocked; None stands for all.
    kinds: Sequence[str] | None = None
    # How many tasks may start at once though a limit counts them: their permits are leased with them.
    at_once: int = 0
    generation: int = 0
    # Whether to tell if a bucket's turn has come.
    line: bool = False


def all_ranges(queues: Iterable[str]) -> list[Range]:
    """These queues from their beginning, the most urgent tasks of each first."""
    return [Range(queue, priority, BEGINNING, END) for queue in queues for priority in PRIORITIES]


class Claims:
    """Moves tasks from ready to running."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        self._sql = load("store/claim.sql", settings.schema_name)
        self._listen = listen

    async def claim(
        self,
        conn: Conn,
        worker: str,
        limit: int,
        request: ClaimRequest,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Claimed:
        """Take up to so many tasks, in order of queue and priority."""
        values = _arrays(request.ranges, request.kinds) | {
            "limit": limit,
            "worker": worker,
            "timeout": timeout,
            "at_once": request.at_once,
            "generation": request.generation,
            "line": request.line,
        }
        cursor = await conn.execute(self._sql["claim"], values)
        (*_, about), *rows = await cursor.fetchall()
        at = datetime.fromisoformat(about["at"]).astimezone(UTC)
        seen = Snapshot(xmin=about["xmin"], number=about["number"], at=at)
        claims = [Claim._make((*row[:-1], at, worker, (row[13],) if row[13] else (), None)) for row in rows]
        if claims:
            claims.sort(key=_IN_TIME)
            if len({(claim.queue, claim.priority) for claim in claims}) > 1:
                order = {(r.queue, r.priority): place for place, r in enumerate(request.ranges)}
                claims.sort(key=lambda claim: order[claim.queue, claim.priority])
            self._listen(TasksClaimed(worker, claims))
        blocked: int = about["blocked"]
        if blocked:
            self._listen(TasksBlocked(blocked))
        return Claimed(
            claims, blocked, about["unknown"], bool(about["due"]), seen, frozenset(about["paused"])
        )

    async def block_heads(
        self,
        conn: Conn,
        ranges: Sequence[Range],
        kinds: Sequence[str] | None = None,
        limit: int = BLOCK_LIMIT,
    ) -> int:
        """Move tasks that a claim for these kinds would block out of its way, many at a time."""
        values = _arrays(ranges, kinds) | {"limit": limit}
        cursor = await conn.execute(self._sql["block_heads"], values)
        row = await cursor.fetchone()
        assert row is not None, "a count always answers"
        moved: int = row[0]
        if moved:
            self._listen(TasksBlocked(moved))
        return moved

    async def take_sweep(self, conn: Conn, queues: Sequence[str], every: float) -> list[str]:
        """The queues whose walk below the floor is now this claimer's."""
        values = {"queues": sorted(queues), "every": every}
        cursor = await conn.execute(self._sql["take_sweep"], values)
        return [queue for (queue,) in await cursor.fetchall()]


def _arrays(ranges: Sequence[Range], kinds: Sequence[str] | None) -> dict[str, object]:
    return {
        "queues": [stretch.queue for stretch in ranges],
        "priorities": [stretch.priority for stretch in ranges],
        "froms": [stretch.start for stretch in ranges],
        "tos": [stretch.end for stretch in ranges],
        "kinds": None if kinds is None else list(kinds),
    }
