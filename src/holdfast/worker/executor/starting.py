"""Starts buffered tasks in free slots, unless they have expired."""

import asyncio
import time
from collections.abc import Callable, Sequence

from holdfast.core.decide import Verdict, expire
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Release, Released
from holdfast.core.task import Claim
from holdfast.worker.executor.buffer import Buffer
from holdfast.worker.executor.permits import HeldPermits
from holdfast.worker.executor.runs import Runs
from holdfast.worker.policies import Policies


class Starting:
    """The starts of one executor; `again` is called when a bulk call that was gathered is due."""

    def __init__(  # noqa: PLR0913 (it is between all of these)
        self,
        handlers: Handlers,
        hand: Buffer,
        runs: Runs,
        permits: HeldPermits,
        verdicts: Policies,
        settle: Callable[[tuple[Claim, Verdict]], None],
        again: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        self._buffer = hand
        self._runs = runs
        self._permits = permits
        self._policies = verdicts
        self._settle = settle
        self._again = again
        self._due: asyncio.TimerHandle | None = None
        self._filling = False

    def fill(self) -> None:
        """Start what is in hand while there are slots."""
        if self._filling:
            # A task that ended as it started: whoever is filling goes on.
            return
        self._filling = True
        while self._runs.free and (claims := self._buffer.next(self._runs.items)):
            self._start(claims)
        self._filling = False
        self._wait()

    def _wait(self) -> None:
        """A bulk call that is being gathered is due at its time, whatever else happens."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if (at := self._buffer.due_at) is not None and self._runs.free and self._runs.items:
            self._due = asyncio.get_running_loop().call_at(at, self._again)

    def _start(self, claims: Sequence[Claim]) -> None:
        able = [claim for claim in claims if self._able(claim)]
        if not able:
            return
        handler = self._handlers[able[0].kind]
        if handler.bulk is None or able[0].isolate:
            self._runs.start(able[0], handler)
        else:
            self._runs.start_bulk(able, handler)

    def _able(self, claim: Claim) -> bool:
        """Whether it can start now; if not, it goes back or ends."""
        if claim.start_by is None and claim.expires_at is None:
            return True
        late = claim.start_by is not None and time.monotonic() > claim.start_by
        if not claim.expired and not late:
            return True
        if claim.limits:
            self._permits.ended(claim, 0.0)
        if late:
            self._settle((claim, self._policies.judge(claim, Released(Release.NOT_STARTED))))
        else:
            self._settle((claim, expire(claim)))
        return False
