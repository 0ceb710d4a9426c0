"""Holds claimed tasks that have not started, those with permits first."""

import time
from collections import deque
from collections.abc import Sequence

from holdfast.core.task import Claim
from holdfast.worker.executor.gathering import Gathering
from holdfast.worker.executor.permits import HeldPermits

# Claimed ahead on a wrong guess: what has not started by then goes back to whoever is free.
WAIT_SECONDS_MAX = 1.0


class Buffer:
    """The claims in one executor's hand."""

    def __init__(self, permits: HeldPermits, gathering: Gathering) -> None:
        self._permits = permits
        self._gathering = gathering
        self._plain: deque[Claim] = deque()
        self._moved_at = 0.0
        self._singles_next = False

    def __len__(self) -> int:
        return len(self._plain) + len(self._permits) + len(self._gathering)

    @property
    def startable(self) -> int:
        """How many of them need nothing but room."""
        return len(self._plain) + self._permits.startable + self._gathering.calls

    @property
    def appetite(self) -> int:
        """How many more would make the bulk calls full that are being gathered."""
        return self._gathering.appetite

    @property
    def due_at(self) -> float | None:
        """When the next bulk call is due."""
        return self._gathering.due_at()

    def take_stale(self) -> list[Claim]:
        """Out of hand, what should have started and has not for too long."""
        limit = time.monotonic() - WAIT_SECONDS_MAX
        stale: list[Claim] = []
        if (self._plain or len(self._permits)) and self._moved_at < limit:
            stale += self._let_go_of_singles()
        if (due_at := self._gathering.due_at()) is not None and due_at < limit:
            stale += self._let_go_of_gathered()
        return stale

    def claims(self) -> list[Claim]:
        """All of them."""
        return [*self._plain, *self._permits.claims(), *self._gathering.claims()]

    def take(self, claims: Sequence[Claim], *, full: bool = False) -> None:
        """More of them; `full` says that as many came as were asked for."""
        self._gathering.came(claims, full=full)
        if not self._plain and not len(self._permits):
            self._moved_at = time.monotonic()
        for claim in claims:
            if claim.limits:
                self._permits.add(claim)
            elif self._gathering.gathers(claim):
                self._gathering.add(claim)
            else:
                self._plain.append(claim)

    def next(self, items: int) -> Sequence[Claim]:
        """What to start now: one, or those of a bulk call, up to so many."""
        while (claim := self._permits.next()) is not None:
            self._moved_at = time.monotonic()
            if not self._gathering.gathers(claim):
                return [claim]
            self._gathering.add(claim)
        # A bulk call that is due and single ones take turns, so that neither waits for the end of the others.
        self._singles_next = not self._singles_next
        if not self._singles_next and (call := self._gathering.take(items)):
            return call
        if self._plain:
            self._moved_at = time.monotonic()
            return [self._plain.popleft()]
        return self._gathering.take(items)

    def let_go(self) -> list[Claim]:
        """All of them, out of hand."""
        return [*self._let_go_of_singles(), *self._let_go_of_gathered()]

    def _let_go_of_singles(self) -> list[Claim]:
        claims = [*self._plain, *self._permits.let_go()]
        self._plain.clear()
        return claims

    def _let_go_of_gathered(self) -> list[Claim]:
        claims = self._gathering.let_go()
        for claim in claims:
            self._permits.returned(claim)
        return claims
