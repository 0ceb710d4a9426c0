"""Gathers claims of bulk kinds until a call is full or has waited long enough."""

import time
from collections.abc import Callable, Sequence

from holdfast.core.handler import Handlers
from holdfast.core.task import Claim

# While more of a kind comes in with every claim, a call waits to be full, up to so long.
COMING_SECONDS = 0.5
# A call that has to start by a certain moment is due so much earlier.
HASTE_SECONDS = 0.02


class Gathering:
    """What one executor gathers, by kind."""

    def __init__(self, handlers: Handlers, clock: Callable[[], float] = time.monotonic) -> None:
        self._bulks = {kind: handler.bulk for kind, handler in handlers.items() if handler.bulk}
        self._clock = clock
        self._claims: dict[str, list[Claim]] = {}
        self._since: dict[str, float] = {}
        # Kinds of which the last claim brought some, and there may be more.
        self._coming: set[str] = set()
        # Whether the last claim brought nothing else.
        self._hungry = True
        # By when the call has to start, because a rate counts its tasks from then on.
        self._start_by: dict[str, float] = {}

    def __len__(self) -> int:
        return sum(len(claims) for claims in self._claims.values())

    def gathers(self, claim: Claim) -> bool:
        """Whether it is one of many; a suspect runs alone."""
        return claim.kind in self._bulks and not claim.isolate

    def add(self, claim: Claim) -> None:
        """One more."""
        if claim.kind not in self._claims:
            self._claims[claim.kind] = []
            self._since[claim.kind] = self._clock()
        self._claims[claim.kind].append(claim)
        if claim.start_by is not None:
            by = claim.start_by - HASTE_SECONDS
            self._start_by[claim.kind] = min(by, self._start_by.get(claim.kind, by))

    def came(self, claims: Sequence[Claim], *, full: bool) -> None:
        """What the last claim brought, and whether it was as much as was asked for."""
        self._coming = {claim.kind for claim in claims if claim.kind in self._bulks} if full else set()
        self._hungry = all(claim.kind in self._bulks for claim in claims)

    def claims(self) -> list[Claim]:
        """All of them."""
        return [claim for claims in self._claims.values() for claim in claims]

    @property
    def calls(self) -> int:
        """How many calls are full."""
        if not self._claims:
            return 0
        return sum(len(claims) // self._bulks[kind].size for kind, claims in self._claims.items())

    @property
    def appetite(self) -> int:
        """How many more would make the calls full that are being gathered, where nothing else comes in."""
        if not self._claims or not self._hungry:
            return 0
        return sum(max(0, self._bulks[kind].size - len(claims)) for kind, claims in self._claims.items())

    def due_at(self) -> float | None:
        """When the next call is due, if nothing more comes."""
        if not self._claims:
            return None
        return min((self._due(kind) for kind in self._claims), default=None)

    def take(self, most: int) -> list[Claim]:
        """The claims of one call that is due, up to so many; none if none is."""
        now = self._clock()
        for kind, claims in self._claims.items():
            size = min(self._bulks[kind].size, most)
            if size and (len(claims) >= self._bulks[kind].size or self._due(kind) <= now):
                taken, rest = claims[:size], claims[size:]
                if rest:
                    self._claims[kind] = rest
                    self._since[kind] = now
                else:
                    del self._claims[kind], self._since[kind]
                    self._start_by.pop(kind, None)
                return taken
        return []

    def let_go(self) -> list[Claim]:
        """All of them, out of here."""
        claims = self.claims()
        self._claims.clear()
        self._since.clear()
        self._start_by.clear()
        return claims

    def _due(self, kind: str) -> float:
        wait = self._bulks[kind].linger_seconds
        due_at = self._since[kind] + (max(wait, COMING_SECONDS) if kind in self._coming else wait)
        return min(due_at, self._start_by.get(kind, due_at))
