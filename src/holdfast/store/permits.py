"""Claims tasks that are behind limits together with their permits, and returns permits."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.config import Settings
from holdfast.core.events import Listener, TasksClaimed
from holdfast.core.task import TIMEOUT_SECONDS, Claim
from holdfast.db.connect import Conn
from holdfast.db.statements import load_all
from holdfast.store.slots import Slots
from holdfast.store.turns import Turns

STIR_LIMIT = 2_000
# As the generated column buckets.rate_ahead counts on.
START_SECONDS = 0.05
FILES = ("store/claim_waiting.sql", "store/line.sql", "store/permits.sql")


@dataclass(frozen=True, slots=True)
class AtOnce:
    """How many tasks, of which kinds, a claim may start at once though a limit counts them.

    With `turns` it also tells whether any that wait have their turn.
    """

    tasks: int = 0
    kinds: Sequence[str] = ()
    epoch: int = 0
    turns: bool = False


NOTHING_AT_ONCE = AtOnce()


class Leasing:
    """What a worker does behind limits; `TaskStore.leasing` is one."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        self._sql = load_all(
            ["store/claim_waiting.sql", "store/line.sql", "store/permits.sql"], settings.schema_name
        )
        self._listen = listen

    async def claim_waiting(  # noqa: PLR0913 (what a lease depends on)
        self,
        conn: Conn,
        turns: Turns,
        worker: str,
        limit: int,
        timeout: float = TIMEOUT_SECONDS,
        *,
        kinds: Sequence[str] | None = None,
        slots: Slots | None = None,
        epoch: int = 0,
    ) -> list[Claim]:
        """Take up to so many tasks, of these kinds, from behind buckets that have room, with their slots."""
        slots = Slots() if slots is None else slots
        freed, wanted, floors = slots.take_surplus(), slots.wanted(), slots.floors()
        values = turns.ranges(slots.sated()) | {
            "known": None if kinds is None else list(kinds),
            "limit": limit,
            "worker": worker,
            "epoch": epoch,
            "timeout": timeout,
            "places": list(floors),
            "ahead": [wanted.get(place, 0) for place in floors],
            "floor_priorities": [priority for priority, _ in floors.values()],
            "floor_positions": [position for _, position in floors.values()],
            "freed": list(freed),
            "counts": list(freed.values()),
        }
        asked_at = time.monotonic()
        cursor = await conn.execute(self._sql["claim_waiting"], values)
        head, *rows = await cursor.fetchall()
        told = json.loads(head[5])
        turns.learn(told["met"] or ())
        claims = [
            Claim._make((*row[:-2], worker, tuple(row[-2]), asked_at + START_SECONDS if row[-1] else None))
            for row in rows
        ]
        slots.leased(told["leased"], told["workers"], told["more"], list(floors), claims)
        if claims:
            self._listen(TasksClaimed(worker, claims))
        return claims

    async def free_slots(self, conn: Conn, worker: str, epoch: int, freed: Mapping[str, int]) -> None:
        """Give slots back without claiming."""
        await conn.execute(self._sql["free_slots"], _slots_of(worker, epoch, freed))

    async def set_slots(self, conn: Conn, worker: str, epoch: int, held: Mapping[str, int]) -> None:
        """After an answer was lost: the worker holds these slots and no others."""
        values = _slots_of(worker, epoch, held)
        rows = await (await conn.execute(self._sql["set_slots"], values)).fetchall()
        await self.offer(conn, [name for (name,) in rows])

    async def stir(self, conn: Conn, after: str = "", limit: int = STIR_LIMIT) -> tuple[int, str | None]:
        """Give a turn to buckets that lack one; how many did, and where to go on, if there is more."""
        row = await (await conn.execute(self._sql["stir"], {"after": after, "limit": limit})).fetchone()
        assert row is not None, "a count always answers"
        return row[0], row[1]

    async def offer(self, conn: Conn, names: Sequence[str]) -> None:
        """Give a turn to those of these buckets that have tasks: there may be room now."""
        if names:
            await conn.execute(self._sql["offer"], {"names": list(names)})


def _slots_of(worker: str, epoch: int, slots: Mapping[str, int]) -> dict[str, object]:
    names, counts = list(slots), list(slots.values())
    return {"worker": worker, "epoch": epoch, "names": names, "counts": counts}
