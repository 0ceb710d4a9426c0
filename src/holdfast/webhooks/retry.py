"""Computes when a failed delivery is retried."""

import random
from datetime import datetime
from email.utils import parsedate_to_datetime

# After each attempt that failed, in seconds: a receiver that restarts, then one that somebody has to mend.
FAST = (0.5, 1.5, 3.5)
SLOW = (60.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
DELAYS = (*FAST, *SLOW)
ATTEMPTS = len(DELAYS) + 1
JITTER = 0.2
# What a receiver asks for counts, but does not hold a delivery for longer than this.
RETRY_AFTER_SECONDS_MAX = 3_600.0
# An endpoint that fails so often in a row is left alone for so long, and twice as long each time.
BREAK_AFTER = 5
BREAK_SECONDS = 10.0
BREAK_SECONDS_MAX = 600.0
# What waits for such an endpoint comes back within so long after it, and not all at once.
SPREAD_SECONDS_MAX = 300.0
# A delivery that tries whether it is well again has so long to say so.
PROBE_SECONDS = 30.0
DISABLE_AFTER_DAYS = 5
# What comes for one that is disabled is kept as dead letters for so long.
KEEP_DISABLED_DAYS = 7


def delay(attempt: int, now: datetime, retry_after: str | None = None) -> float:
    """Seconds to wait after this attempt, counted from 1; as long as a receiver asks for, within reason."""
    usual = DELAYS[min(attempt, len(DELAYS)) - 1]
    if attempt > len(FAST):
        usual *= random.uniform(1 - JITTER, 1 + JITTER)
    asked = _asked_for(retry_after, now)
    return usual if asked is None else max(usual, min(asked, RETRY_AFTER_SECONDS_MAX))


def until_asked_again(left: float, polls: int) -> float:
    """Seconds until a delivery asks again for an endpoint that is left alone for so long.

    A backlog must not wake as one, or healthy endpoints wait behind it: it comes back over as long as it had
    to wait, and the more often it has asked, the less often it asks.
    """
    return left + random.uniform(0, min(max(left, 2.0**polls), SPREAD_SECONDS_MAX))


def _asked_for(retry_after: str | None, now: datetime) -> float | None:
    """A number of seconds, or a date; anything else asks for nothing."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return (at - now).total_seconds() if at.tzinfo is not None else None
