"""What an executor has claimed and not started: what needs slots of limits first, then the rest in order."""

import time
from collections import deque
from collections.abc import Sequence

from holdfast.core.task import Claim
from holdfast.runtime.gathering import Gathering
from holdfast.store.slots import Slots

# Claimed ahead on a wrong guess: what has not started by then goes back to whoever is free.
WAIT_SECONDS_MAX = 1.0


class Hand:
    """The claims in one executor's hand."""

    def __init__(self, slots: Slots, gathering: Gathering) -> None:
        self._slots = slots
        self._gathering = gathering
        self._plain: deque[Claim] = deque()
        self._moved_at = 0.0

    def __len__(self) -> int:
        return len(self._plain) + len(self._slots) + len(self._gathering)

    @property
    def startable(self) -> int:
        """How many of them need nothing but room."""
        return len(self._plain) + self._slots.startable + self._gathering.calls

    @property
    def appetite(self) -> int:
        """How many more would make the bulk calls full that are being gathered."""
        return self._gathering.appetite

    @property
    def due_at(self) -> float | None:
        """When the next bulk call is due."""
        return self._gathering.due_at()

    @property
    def stale(self) -> bool:
        """Whether nothing of it has started for too long."""
        return len(self) > len(self._gathering) and time.monotonic() - self._moved_at > WAIT_SECONDS_MAX

    def claims(self) -> list[Claim]:
        """All of them."""
        return [*self._plain, *self._slots.claims(), *self._gathering.claims()]

    def take(self, claims: Sequence[Claim], *, full: bool = False) -> None:
        """More of them; `full` says that as many came as were asked for."""
        self._gathering.came(claims, full=full)
        if not len(self):
            self._moved_at = time.monotonic()
        for claim in claims:
            if claim.limits:
                self._slots.add(claim)
            elif self._gathering.gathers(claim):
                self._gathering.add(claim)
            else:
                self._plain.append(claim)

    def next(self, items: int) -> Sequence[Claim]:
        """What to start now: one, or those of a bulk call, up to so many."""
        while (claim := self._slots.next()) is not None:
            self._moved_at = time.monotonic()
            if not self._gathering.gathers(claim):
                return [claim]
            self._gathering.add(claim)
        if self._plain:
            self._moved_at = time.monotonic()
            return [self._plain.popleft()]
        return self._gathering.take(items)

    def let_go(self) -> list[Claim]:
        """All of them, out of hand."""
        claims = [*self._plain, *self._slots.let_go(), *self._gathering.let_go()]
        self._plain.clear()
        return claims
