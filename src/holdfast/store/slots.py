"""The slots of limits that one worker has leased: how many it holds, uses, wants and can give back.

A slot is leased with the first task that needs it, and kept while more tasks wait behind the same bucket:
the next one is claimed ahead and starts the moment the last one ends, with no question to the database in
between. A worker that finds nothing more there gives its slots back with its next claim.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

from holdfast.core.task import Claim

# As for tasks without a limit: no more is claimed ahead than what takes so long.
AHEAD_SECONDS = 0.05
AHEAD_MAX = 50
_WEIGHT = 0.1


class Slots:
    """What one worker holds of limits."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._used: Counter[str] = Counter()
        self._ahead: dict[str, deque[Claim]] = {}
        self._ready: deque[Claim] = deque()
        self._limits: dict[str, Sequence[str]] = {}
        self._more: set[str] = set()
        self._mean: dict[str, float] = {}

    def __len__(self) -> int:
        """How many claims have not started."""
        return len(self._ready) + sum(len(claims) for claims in self._ahead.values())

    def claims(self) -> list[Claim]:
        """What has not started."""
        return [*self._ready, *(claim for claims in self._ahead.values() for claim in claims)]

    def held(self) -> Mapping[str, int]:
        """The slots that this worker thinks it has."""
        return dict(self._held)

    def leased(self, held: Mapping[str, int], more: Sequence[str], asked: Sequence[str]) -> None:
        """What a claim answered: how many slots are held now, and where more tasks wait."""
        self._held.update({name: slots - self._held[name] for name, slots in held.items()})
        self._more.difference_update(asked)
        self._more.update(more)

    def add(self, claim: Claim) -> None:
        """A claim that needs slots: it starts when they are free."""
        place = claim.bucket or ""
        self._limits[place] = claim.limits
        self._ahead.setdefault(place, deque()).append(claim)
        self._move_up(place)

    def next(self) -> Claim | None:
        """A claim whose slots are free; they are its own from now on."""
        return self._ready.popleft() if self._ready else None

    def ended(self, claim: Claim, seconds: float) -> None:
        """A task that used slots has ended."""
        self._used.subtract(claim.limits)
        place = claim.bucket or ""
        mean = self._mean.get(place, seconds)
        self._mean[place] = mean + (seconds - mean) * _WEIGHT
        for waiting in list(self._ahead):
            self._move_up(waiting)

    def _move_up(self, place: str) -> None:
        claims = self._ahead[place]
        while claims and self._free(claims[0].limits) > 0:
            claim = claims.popleft()
            self._used.update(claim.limits)
            self._ready.append(claim)
        if not claims:
            del self._ahead[place]

    def _free(self, limits: Sequence[str]) -> int:
        return min(self._held[name] - self._used[name] for name in limits)

    def wanted(self) -> dict[str, int]:
        """How many tasks to claim ahead, by bucket: behind slots that are held here, where more wait."""
        wanted: dict[str, int] = {}
        for place in self._more:
            limits = self._limits.get(place, ())
            mine = min((self._held[name] for name in limits), default=0)
            if not mine:
                continue
            ahead = min(
                AHEAD_MAX, max(mine, round(mine * AHEAD_SECONDS / max(self._mean.get(place, 1.0), 1e-4)))
            )
            short = ahead + self._free(limits) - len(self._ahead.get(place, ()))
            if short > ahead // 2:
                wanted[place] = short
        return wanted

    def take_surplus(self) -> dict[str, int]:
        """Slots that nothing here needs any more; they are not held from now on."""
        needed = Counter(self._used)
        for place, limits in self._limits.items():
            if place in self._more:
                # All of them are kept for what waits there.
                needed.update({name: self._held[name] for name in limits})
            else:
                needed.update({name: len(self._ahead.get(place, ())) for name in limits})
        surplus = {name: slots - needed[name] for name, slots in self._held.items() if slots > needed[name]}
        self._held.subtract(surplus)
        for name in surplus:
            if not self._held[name]:
                del self._held[name]
        self._forget()
        return surplus

    def let_go(self) -> list[Claim]:
        """What has not started, out of here; no more of it is asked for."""
        claims = self.claims()
        for claim in self._ready:
            self._used.subtract(claim.limits)
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
                self._mean.pop(place, None)
                self._more.discard(place)
