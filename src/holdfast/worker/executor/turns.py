"""Where a claimer starts to look for buckets whose turn it is: a floor for each queue and kind.

Turns are moments: a bucket that was served goes to the end of the line. Those below the oldest one that
a look met have been taken, and beside an old snapshot their dead rows would be read again by every look.
A turn may still appear a little below (its transaction took a while), so the floor stays behind, and now
and then a look begins at the beginning.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence

from holdfast.store.permits import LineRange

SLACK_MICROSECONDS = 500_000
WHOLE_SECONDS = 1.0
WHOLE_COST = 50.0


class Turns:
    """The floors of one claimer in the line, one for each queue and kind."""

    def __init__(
        self, queues: Sequence[str], kinds: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pairs = [(queue, kind) for queue in queues for kind in kinds]
        self._floors = dict.fromkeys(self._pairs, 0)
        self._clock = clock
        self._whole_at = 0.0
        self._began = 0.0
        self._whole = False

    def ranges(self, without: Collection[str] = ()) -> list[LineRange]:
        """Where to look now, in order, some kinds left out."""
        self._began = self._clock()
        self._whole = self._began >= self._whole_at
        pairs = [pair for pair in self._pairs if pair[1] not in without] if without else self._pairs
        return [
            LineRange(queue, kind, 0 if self._whole else self._floors[queue, kind]) for queue, kind in pairs
        ]

    def learn(self, met: Iterable[tuple[str, str, int]]) -> None:
        """The oldest turn that was met, by queue and kind."""
        for queue, kind, turn in met:
            self._floors[queue, kind] = max(0, turn - SLACK_MICROSECONDS)
        if self._whole:
            now = self._clock()
            self._whole_at = now + max(WHOLE_SECONDS, (now - self._began) * WHOLE_COST)
