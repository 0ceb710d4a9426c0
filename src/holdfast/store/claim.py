"""Claims ready tasks: the ranges to scan, what a claim returns, and the turn to sweep below the floors."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

from holdfast.config import Settings
from holdfast.core.events import Listener, TasksClaimed, TasksParked
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
    """What a claim took, what it moved behind buckets on the way, and whether it saw a bucket's turn."""

    claims: Sequence[Claim]
    parked: int
    turns: bool
    seen: Snapshot
    paused: frozenset[str]


@dataclass(frozen=True, slots=True)
class AtOnce:
    """How many tasks, of which kinds, a claim may start at once though a limit counts them.

    With `turns` it also tells whether any that wait have their turn.
    """

    tasks: int = 0
    kinds: Sequence[str] = ()
    generation: int = 0
    turns: bool = False


NOTHING_AT_ONCE = AtOnce()


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
        ranges: Sequence[Range],
        worker: str,
        limit: int,
        timeout: float = TIMEOUT_SECONDS,
        at_once: AtOnce = NOTHING_AT_ONCE,
    ) -> Claimed:
        """Take up to `limit` tasks out of these ranges, in order of queue and priority."""
        values = _arrays(ranges) | {
            "limit": limit,
            "worker": worker,
            "timeout": timeout,
            "at_once": at_once.tasks,
            "known": list(at_once.kinds),
            "generation": at_once.generation,
            "turns": at_once.turns,
        }
        cursor = await conn.execute(self._sql["claim"], values)
        head, *rows = await cursor.fetchall()
        seen = Snapshot(xmin=head[1], number=head[19], at=head[8].astimezone(UTC))
        claims = [Claim._make((*row, seen.at, worker, (row[13],) if row[13] else (), None)) for row in rows]
        if claims:
            claims.sort(key=_IN_TIME)
            if len({(claim.queue, claim.priority) for claim in claims}) > 1:
                order = {(r.queue, r.priority): place for place, r in enumerate(ranges)}
                claims.sort(key=lambda claim: order[claim.queue, claim.priority])
            self._listen(TasksClaimed(worker, claims))
        parked: int = head[16]
        if parked:
            self._listen(TasksParked(parked))
        return Claimed(claims, parked, bool(head[21]), seen, frozenset(json.loads(head[5] or "[]")))

    async def block_heads(self, conn: Conn, ranges: Sequence[Range], limit: int = BLOCK_LIMIT) -> int:
        """Move tasks that limits or pauses hold back out of the way of claims, many at a time."""
        values = _arrays(ranges) | {"limit": limit}
        cursor = await conn.execute(self._sql["block_heads"], values)
        row = await cursor.fetchone()
        assert row is not None, "a count always answers"
        moved: int = row[0]
        if moved:
            self._listen(TasksParked(moved))
        return moved

    async def take_sweep(self, conn: Conn, queues: Sequence[str], every: float) -> list[str]:
        """The queues whose walk below the floor is now this claimer's."""
        values = {"queues": sorted(queues), "every": every}
        cursor = await conn.execute(self._sql["take_sweep"], values)
        return [queue for (queue,) in await cursor.fetchall()]


def _arrays(ranges: Sequence[Range]) -> dict[str, object]:
    return {
        "queues": [stretch.queue for stretch in ranges],
        "priorities": [stretch.priority for stretch in ranges],
        "froms": [stretch.start for stretch in ranges],
        "tos": [stretch.end for stretch in ranges],
    }
