"""Holds claimed tasks that have not started, those with permits first, and gathers bulk calls."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.core.handler import Handlers
from holdfast.core.outcome import Expired, Release, Released
from holdfast.core.task import Claim
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.executor.settling import Settling

# A claimed task that has not started after so long is released, so that a free worker can take it.
WAIT_SECONDS_MAX = 1.0
# How long a bulk call waits to fill up while each claim still brings tasks of its kind.
COMING_SECONDS = 0.5
# A bulk call with a start deadline is due so long before it.
HASTE_SECONDS = 0.02


class Gathering:
    """What one executor gathers, by kind."""

    def __init__(self, handlers: Handlers, clock: Callable[[], float] = time.monotonic) -> None:
        self.bulks = {kind: handler.bulk for kind, handler in handlers.items() if handler.bulk}
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
        """Whether a claim goes into a bulk call; a suspect never does."""
        return claim.kind in self.bulks and not claim.isolate

    def add(self, claim: Claim) -> None:
        """Add a claim."""
        if claim.kind not in self._claims:
            self._claims[claim.kind] = []
            self._since[claim.kind] = self._clock()
        self._claims[claim.kind].append(claim)
        if claim.start_by is not None:
            by = claim.start_by - HASTE_SECONDS
            self._start_by[claim.kind] = min(by, self._start_by.get(claim.kind, by))

    def came(self, claims: Sequence[Claim], *, full: bool) -> None:
        """What the last claim brought, and whether it was as much as was asked for."""
        self._coming = {claim.kind for claim in claims if claim.kind in self.bulks} if full else set()
        self._hungry = all(claim.kind in self.bulks for claim in claims)

    def claims(self) -> list[Claim]:
        """All gathered claims."""
        return [claim for claims in self._claims.values() for claim in claims]

    @property
    def calls(self) -> int:
        """How many calls are full."""
        if not self._claims:
            return 0
        return sum(len(claims) // self.bulks[kind].size for kind, claims in self._claims.items())

    @property
    def appetite(self) -> int:
        """How many more would make the calls full that are being gathered, where nothing else comes in."""
        if not self._claims or not self._hungry:
            return 0
        return sum(max(0, self.bulks[kind].size - len(claims)) for kind, claims in self._claims.items())

    def due_at(self) -> float | None:
        """When the next call is due, if nothing more comes."""
        if not self._claims:
            return None
        return min((self._due(kind) for kind in self._claims), default=None)

    def take(self, most: int) -> list[Claim]:
        """The claims of one call that is due, up to so many; none if none is."""
        now = self._clock()
        for kind, claims in self._claims.items():
            size = min(self.bulks[kind].size, most)
            if size and (len(claims) >= self.bulks[kind].size or self._due(kind) <= now):
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
        """Remove and return all gathered claims."""
        claims = self.claims()
        self._claims.clear()
        self._since.clear()
        self._start_by.clear()
        return claims

    def _due(self, kind: str) -> float:
        wait = self.bulks[kind].linger_seconds
        due_at = self._since[kind] + (max(wait, COMING_SECONDS) if kind in self._coming else wait)
        return min(due_at, self._start_by.get(kind, due_at))


class Buffer:
    """What one executor has claimed and not started; what may not start any more is settled here."""

    def __init__(self, permits: HeldPermits, gathering: Gathering, settling: Settling) -> None:
        self.permits = permits
        self._gathering = gathering
        self._settling = settling
        self._plain: deque[Claim] = deque()
        self._moved_at = 0.0
        self._singles_next = False

    def __len__(self) -> int:
        return len(self._plain) + len(self.permits) + len(self._gathering)

    @property
    def startable(self) -> int:
        """How many of them need nothing but room."""
        return len(self._plain) + self.permits.startable + self._gathering.calls

    @property
    def appetite(self) -> int:
        """How many more would make the bulk calls full that are being gathered."""
        return self._gathering.appetite

    @property
    def due_at(self) -> float | None:
        """When the next bulk call is due, whatever else happens."""
        return self._gathering.due_at()

    def claims(self) -> list[Claim]:
        """Everything in it."""
        return [*self._plain, *self.permits.claims(), *self._gathering.claims()]

    def put(self, claims: Sequence[Claim], *, full: bool = False) -> None:
        """Add claims; `full` says that as many came as were asked for."""
        has_bulk_kinds = bool(self._gathering.bulks)
        if has_bulk_kinds:
            self._gathering.came(claims, full=full)
        if not self._plain and not len(self.permits):
            self._moved_at = time.monotonic()
        for claim in claims:
            if claim.limits:
                self.permits.add(claim)
            elif has_bulk_kinds and self._gathering.gathers(claim):
                self._gathering.add(claim)
            else:
                self._plain.append(claim)

    def next(self, items: int) -> Sequence[Claim]:
        """What to start now: one, or those of a bulk call, up to so many items."""
        while claims := self._next(items):
            if startable := [claim for claim in claims if self._may_start(claim)]:
                return startable
        return ()

    def _next(self, items: int) -> Sequence[Claim]:
        while (claim := self.permits.next()) is not None:
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

    def _may_start(self, claim: Claim) -> bool:
        """Whether there is still time; a task without is given back, or has expired."""
        if claim.start_by is None and claim.expires_at is None:
            return True
        late = claim.start_by is not None and time.monotonic() > claim.start_by
        if not late and not claim.expired:
            return True
        if claim.limits:
            self.permits.ended(claim, 0.0)
        self._settling.end(claim, Released(Release.NOT_STARTED) if late else Expired())
        return False

    def take_stale(self) -> list[Claim]:
        """Take out what should have started and has not for too long."""
        limit = time.monotonic() - WAIT_SECONDS_MAX
        stale: list[Claim] = []
        if (self._plain or len(self.permits)) and self._moved_at < limit:
            stale += self._take_singles()
        if (due_at := self._gathering.due_at()) is not None and due_at < limit:
            stale += self._take_gathered()
        return stale

    def take_all(self) -> list[Claim]:
        """Take out everything."""
        return [*self._take_singles(), *self._take_gathered()]

    def _take_singles(self) -> list[Claim]:
        claims = [*self._plain, *self.permits.let_go()]
        self._plain.clear()
        return claims

    def _take_gathered(self) -> list[Claim]:
        claims = self._gathering.let_go()
        for claim in claims:
            self.permits.returned(claim)
        return claims
