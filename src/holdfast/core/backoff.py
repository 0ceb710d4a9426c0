"""Computes how long a failed task waits before its next attempt."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """uniform(½, 1) × min(cap, base · 2ⁿ): it spreads a herd and is never zero."""

    base_seconds: float = 2.0
    cap_seconds: float = 60.0

    def seconds(self, failures: int, jitter: random.Random) -> float:
        """The wait after the given number of failures so far, the first being 0."""
        # Past 2**32 the power only costs time: the cap was passed long before.
        full = min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures, 32))
        return full * jitter.uniform(0.5, 1.0)
