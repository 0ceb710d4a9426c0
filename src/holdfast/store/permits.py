"""Claims tasks that are behind limits together with their permits, and returns permits."""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.config import Settings
from holdfast.core.events import Listener, TasksClaimed
from holdfast.core.task import TIMEOUT_SECONDS, Claim
from holdfast.db.connect import Conn
from holdfast.db.statements import load_all

RELIST_LIMIT = 2_000
# As the generated column buckets.rate_ahead counts on.
START_SECONDS = 0.05
FILES = ("store/claim_blocked.sql", "store/line.sql", "store/permits.sql")


@dataclass(frozen=True, slots=True)
class LineRange:
    """Where to look in the line for one queue and kind: from this turn on."""

    queue: str
    kind: str
    floor: int = 0


def whole_line(queues: Iterable[str], kinds: Collection[str]) -> list[LineRange]:
    """The line from its beginning, for these queues and kinds."""
    return [LineRange(queue, kind) for queue in queues for kind in kinds]


@dataclass(frozen=True, slots=True)
class BlockedRequest:
    """What a claim of blocked tasks looks for: where, and what the worker holds of limits already."""

    line: Sequence[LineRange]
    queues: Sequence[str]
    # None stands for all kinds.
    kinds: Sequence[str] | None = None
    # How many more tasks to claim ahead, by bucket whose permits this worker holds, and where to begin there.
    ahead: Mapping[str, int] = field(default_factory=dict)
    floors: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # Permits to give back first.
    freed: Mapping[str, int] = field(default_factory=dict)
    generation: int = 0


@dataclass(frozen=True, slots=True)
class BlockedClaimed:
    """What a claim of blocked tasks took, and what it says about limits."""

    claims: Sequence[Claim]
    # By limit: the permits that the worker holds now, and the limit's capacity if it has one.
    held: Mapping[str, tuple[int, int | None]]
    # How many workers share a limit.
    workers: int
    # Buckets in which more tasks wait.
    more: Sequence[str]
    # The oldest turn that was met, by queue and kind.
    met: Sequence[tuple[str, str, int]]


class Permits:
    """Leases and returns the permits of limits."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        self._sql = load_all(FILES, settings.schema_name)
        self._listen = listen

    async def claim_blocked(
        self,
        conn: Conn,
        worker: str,
        limit: int,
        request: BlockedRequest,
        timeout: float = TIMEOUT_SECONDS,
    ) -> BlockedClaimed:
        """Take up to so many tasks from behind buckets that have room, with their permits."""
        values = {
            "queues": [one.queue for one in request.line],
            "kinds": [one.kind for one in request.line],
            "floors": [one.floor for one in request.line],
            "served": list(request.queues),
            "known": None if request.kinds is None else list(request.kinds),
            "limit": limit,
            "worker": worker,
            "generation": request.generation,
            "timeout": timeout,
            "places": list(request.floors),
            "ahead": [request.ahead.get(bucket, 0) for bucket in request.floors],
            "floor_priorities": [priority for priority, _ in request.floors.values()],
            "floor_positions": [position for _, position in request.floors.values()],
            "freed": list(request.freed),
            "counts": list(request.freed.values()),
        }
        asked_at = time.monotonic()
        cursor = await conn.execute(self._sql["claim_blocked"], values)
        head, *rows = await cursor.fetchall()
        about = json.loads(head[5])
        claims = [
            Claim._make((*row[:-2], worker, tuple(row[-2]), asked_at + START_SECONDS if row[-1] else None))
            for row in rows
        ]
        if claims:
            self._listen(TasksClaimed(worker, claims))
        return BlockedClaimed(claims, about["leased"], about["workers"], about["more"], about["met"] or ())

    async def free_permits(self, conn: Conn, worker: str, generation: int, freed: Mapping[str, int]) -> None:
        """Give permits back without claiming."""
        await conn.execute(self._sql["free_permits"], _permits_of(worker, generation, freed))

    async def set_permits(self, conn: Conn, worker: str, generation: int, held: Mapping[str, int]) -> None:
        """After an answer was lost: the worker holds these permits and no others."""
        values = _permits_of(worker, generation, held)
        rows = await (await conn.execute(self._sql["set_permits"], values)).fetchall()
        await self.enlist(conn, [name for (name,) in rows])

    async def relist(self, conn: Conn, after: str = "", limit: int = RELIST_LIMIT) -> tuple[int, str | None]:
        """Give a turn to buckets that lack one; how many did, and where to go on, if there is more."""
        row = await (await conn.execute(self._sql["relist"], {"after": after, "limit": limit})).fetchone()
        assert row is not None, "a count always answers"
        return row[0], row[1]

    async def enlist(self, conn: Conn, names: Sequence[str]) -> None:
        """Give a turn to those of these buckets that have tasks: there may be room now."""
        if names:
            await conn.execute(self._sql["enlist"], {"names": list(names)})


def _permits_of(worker: str, generation: int, permits: Mapping[str, int]) -> dict[str, object]:
    names, counts = list(permits), list(permits.values())
    return {"worker": worker, "generation": generation, "names": names, "counts": counts}
