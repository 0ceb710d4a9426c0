"""The permits that one executor has leased: how many it holds, uses, wants and can give back.

A permit is leased with the first task that needs it, and kept while more tasks wait behind the same bucket:
the next one is claimed ahead and starts the moment the last one ends, with no question to the database in
between. A worker that finds nothing more there gives its permits back with its next claim.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from holdfast.core.task import Claim

# No more is claimed ahead than what takes so long; a question to a busy database takes a good part of it.
AHEAD_SECONDS = 0.1
AHEAD_MAX = 100
BEGINNING = (0, 0)
# Prefixes of the names of shared limits.
KIND = "kind:"
DOORS = (KIND, "queue:")
UNBOUNDED = 1_000_000
WHOLE_SECONDS = 1.0
SATED_SECONDS = 0.1
WHOLE_COST = 50.0
_WEIGHT = 0.1


class HeldPermits:
    """The permits of one executor."""

    def __init__(
        self, most: Callable[[str], int] = lambda _: UNBOUNDED, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`most` says how many tasks of a kind this worker can run at once: it needs no more permits."""
        self._most = most
        self._held: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._ahead: dict[str, deque[Claim]] = {}
        self._ready: deque[Claim] = deque()
        self._limits: dict[str, Sequence[str]] = {}
        self._caps: dict[str, int] = {}
        self._more: set[str] = set()
        self._mean: dict[str, float] = {}
        self._floors: dict[str, tuple[int, int]] = {}
        self._sated_until: dict[str, float] = {}
        self._clock = clock
        self._whole_at = 0.0
        self._began = 0.0
        self._whole = False

    def __len__(self) -> int:
        """How many claims have not started."""
        return len(self._ready) + sum(len(claims) for claims in self._ahead.values())

    @property
    def startable(self) -> int:
        """How many of them have their permits."""
        return len(self._ready)

    def claims(self) -> list[Claim]:
        """What has not started."""
        return [*self._ready, *(claim for claims in self._ahead.values() for claim in claims)]

    def held(self) -> Mapping[str, int]:
        """The permits that this worker thinks it has."""
        return dict(self._held)

    def leased(
        self,
        held: Mapping[str, tuple[int, int | None]],
        workers: int,
        more: Sequence[str],
        asked: Sequence[str],
        claims: Sequence[Claim],
    ) -> None:
        """What a claim answered: how many permits are held now, where more tasks wait, and what it took."""
        now = self._clock()
        for name, (permits, capacity) in held.items():
            self._held[name] = permits
            if capacity is not None and permits * workers >= capacity:
                self._sated_until[name.removeprefix(KIND)] = now + SATED_SECONDS
        self._more.difference_update(asked)
        self._more.update(more)
        for claim in claims:
            if claim.bucket in self._more:
                at = claim.priority, round(claim.run_at.timestamp() * 1_000_000)
                self._floors[claim.bucket] = max(self._floors.get(claim.bucket, BEGINNING), at)
        if self._whole:
            self._whole_at = now + max(WHOLE_SECONDS, (now - self._began) * WHOLE_COST)

    def leased_at_once(self, claims: Sequence[Claim]) -> None:
        """Add the permits that came with claims from ready, one for each limit."""
        self._held.update(name for claim in claims for name in claim.limits)

    def sated(self) -> frozenset[str]:
        """Kinds of which this worker has all it can use, or its share, so that others come first a moment."""
        now = self._clock()
        self._sated_until = {kind: at for kind, at in self._sated_until.items() if at > now}
        full = [
            kind
            for name, permits in self._held.items()
            if name.startswith(KIND) and permits >= self._most(kind := name.removeprefix(KIND))
        ]
        return frozenset(self._sated_until).union(full)

    def floors(self) -> dict[str, tuple[int, int]]:
        """Where to begin in buckets with many tasks: what lies before was taken, and leaves dead rows.

        Now and then it is the beginning, for what was overlooked or came in late.
        """
        self._began = self._clock()
        self._whole = self._began >= self._whole_at
        return {
            place: BEGINNING if self._whole else self._floors.get(place, BEGINNING) for place in self._more
        }

    def add(self, claim: Claim) -> None:
        """A claim that needs permits: it starts when they are free."""
        place = claim.bucket or ""
        self._limits[place] = claim.limits
        self._caps[place] = self._most(claim.kind)
        self._ahead.setdefault(place, deque()).append(claim)
        self._move_up(place)

    def next(self) -> Claim | None:
        """A claim whose permits are free; they are its own from now on."""
        return self._ready.popleft() if self._ready else None

    def ended(self, claim: Claim, seconds: float) -> None:
        """A task that used permits has ended."""
        self.returned(claim)
        place = claim.bucket or ""
        mean = self._mean.get(place, seconds)
        self._mean[place] = mean + (seconds - mean) * _WEIGHT
        for waiting in list(self._ahead):
            self._move_up(waiting)

    def returned(self, claim: Claim) -> None:
        """A task that was to use permits goes back without having started."""
        for name in claim.limits:
            self._used[name] -= 1
            if not self._used[name]:
                # There may be a hundred thousand keys in a day.
                del self._used[name]

    def _move_up(self, place: str) -> None:
        claims = self._ahead[place]
        while claims and self._free(claims[0].limits) > 0:
            claim = claims.popleft()
            for name in claim.limits:
                self._used[name] += 1
            self._ready.append(claim)
        if not claims:
            del self._ahead[place]

    def _free(self, limits: Sequence[str]) -> int:
        return min(self._held[name] - self._used[name] for name in limits)

    def wanted(self) -> dict[str, int]:
        """How many tasks to claim ahead, by bucket: behind permits that are held here, where more wait."""
        return {place: short for place in self._more if (short := self._short(place)) > 0}

    def _short(self, place: str) -> int:
        """How many are missing, once it is worth a question."""
        limits = self._limits.get(place, ())
        mine = min((self._held[name] for name in limits), default=0)
        if not mine:
            return 0
        groups = AHEAD_SECONDS / max(self._mean.get(place, 1.0), 1e-4)
        ahead = min(AHEAD_MAX, max(mine, round(mine * groups)))
        short = ahead + self._free(limits) - len(self._ahead.get(place, ()))
        return short if short > ahead // 4 else 0

    def hungry(self) -> bool:
        """Whether a claim has something to do: tasks for permits that are held, or a shared limit to free.

        Other workers most likely wait for a shared limit; nobody waits for a key that is idle again.
        """
        return any(self._short(place) > 0 for place in self._more) or any(
            name.startswith(DOORS) for name in self._surplus()
        )

    def restless(self, ended: Claim) -> bool:
        """Whether a claim would change something now: there is more to ask for, or to give back."""
        place = ended.bucket or ""
        return self._short(place) > 0 if place in self._more else place not in self._ahead

    def take_surplus(self) -> dict[str, int]:
        """Take out the permits that nothing here needs any more, to be freed."""
        surplus = self._surplus()
        self._held.subtract(surplus)
        for name in surplus:
            if not self._held[name]:
                del self._held[name]
        self._forget()
        return surplus

    def _surplus(self) -> dict[str, int]:
        needed = self._used.copy()
        for place in self._ahead.keys() - self._more:
            for name in self._limits.get(place, ()):
                needed[name] += len(self._ahead[place])
        for place in self._more:
            for name in self._limits.get(place, ()):
                # Where more tasks wait, as many are kept for those as can run here.
                needed[name] = max(needed[name], min(self._held[name], self._caps[place]))
        return {
            name: permits - needed.get(name, 0)
            for name, permits in self._held.items()
            if permits > needed.get(name, 0)
        }

    def let_go(self) -> list[Claim]:
        """What has not started, out of here; no more of it is asked for."""
        claims = self.claims()
        for claim in self._ready:
            self.returned(claim)
        self._ready.clear()
        self._ahead.clear()
        self._more.clear()
        return claims

    def _forget(self) -> None:
        for place in [
            p for p, limits in self._limits.items() if not any(name in self._held for name in limits)
        ]:
            if place not in self._ahead:
                del self._limits[place]
                self._caps.pop(place, None)
                self._mean.pop(place, None)
                self._floors.pop(place, None)
                self._more.discard(place)
