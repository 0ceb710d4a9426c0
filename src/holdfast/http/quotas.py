"""Rate and concurrency limits for each caller, with bounded memory."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from holdfast.http.problems import Refused

KEYS_MAX = 10_000


@dataclass(slots=True)
class _Bucket:
    rate: float
    capacity: float
    left: float = field(init=False)
    at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.left = self.capacity

    def take(self) -> bool:
        now = time.monotonic()
        self.left = min(self.capacity, self.left + (now - self.at) * self.rate)
        self.at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Rates:
    """A token bucket for each key; the keys that were used least recently are forgotten."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: str, rate: float, burst: float) -> bool:
        """Whether one more fits: `rate` a second, and `burst` of them at once after a pause."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(rate, burst)
            if len(self._buckets) > self._keys_max:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        return bucket.take()


class OpenLimit:
    """What may be open at once: so many for one token, so many in this process, each for so long."""

    def __init__(self, noun: str, each: int, overall: int, seconds: float) -> None:
        self.seconds = seconds
        self._noun, self._each, self._overall = noun, each, overall
        self._held: Counter[str] = Counter()

    def check(self, token: str) -> None:
        """Refuse unless one more fits."""
        wait = {"Retry-After": "10"}
        if self._held[token] >= self._each:
            raise Refused(429, f"one token may have {self._each} {self._noun} at once: end one first", wait)
        if self._held.total() >= self._overall:
            raise Refused(
                503, f"{self._overall} {self._noun} are open in this process: ask again later", wait
            )

    @contextmanager
    def hold(self, token: str) -> Iterator[None]:
        """Have one of them; refused where there is none left."""
        self.check(token)
        self._held[token] += 1
        try:
            yield
        finally:
            self._held[token] -= 1
            # A Counter keeps names that count nothing.
            self._held += Counter()


@dataclass(slots=True)
class _Share:
    free: asyncio.Semaphore
    users: int = 0


class Shares:
    """How many connections of the pool one token holds at once; its other requests wait for those."""

    def __init__(self, wait_seconds: float) -> None:
        self._wait_seconds = wait_seconds
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def hold(self, token: str, most: int) -> AsyncIterator[None]:
        """Have one of them; refused where none gets free in time."""
        share = self._shares.setdefault(token, _Share(asyncio.Semaphore(most)))
        share.users += 1
        try:
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await share.free.acquire()
            except TimeoutError:
                raise Refused(
                    429, f"more than {most} requests of one token are being answered", {"Retry-After": "1"}
                ) from None
            try:
                yield
            finally:
                share.free.release()
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[token]
