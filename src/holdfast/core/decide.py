"""Turns a claim and its outcome into a verdict; no other module decides what happens to a task."""

import random
from dataclasses import dataclass, field

from holdfast.core.backoff import Backoff
from holdfast.core.failure import RULES, DeadReason, Failure, FailureClass, Spends, kept
from holdfast.core.outcome import (
    Cancel,
    Complete,
    Expired,
    Fail,
    Failed,
    Outcome,
    Released,
    Retry,
    Snooze,
    WorkerLost,
    as_seconds,
)
from holdfast.core.polling import Overdue, Polled, Polling
from holdfast.core.state import Move
from holdfast.core.task import Claim, Counters

MAX_ATTEMPTS_DEFAULT = 3
CRASHES_MAX = 3
RATE_LIMITS_FREE = 20
EXPIRED = "expired"
# The reason on record where a process died between the end of a handler and the settle of its task.
ENDED = "ended"
WAIT_SECONDS_MAX = 10 * 365 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What the kind, the queue and the settings say where the task itself says nothing."""

    max_attempts: int = MAX_ATTEMPTS_DEFAULT
    backoff: Backoff = field(default_factory=Backoff)
    jitter: random.Random = field(default_factory=random.Random, compare=False)
    polling: Polling = field(default_factory=Polling)


_NOTHING = Counters()
_ATTEMPT = Counters(attempts=1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to write for one claim: what it adds to the counters, and when the task goes back."""

    move: Move
    spent: Counters = _NOTHING
    after_seconds: float | None = None
    result: str | None = None
    reason: str | None = None
    progress: float | None = None
    failure: Failure | None = None
    dead_reason: DeadReason | None = None
    # Whether the next run is to be in a process of its own; None leaves it as it was.
    isolate: bool | None = None


# Of all verdicts the most frequent: made once.
_COMPLETED = Verdict(Move.COMPLETE, _ATTEMPT)


def decide(claim: Claim, outcome: Outcome, policy: Policy) -> Verdict:
    """What an outcome does to the task that a worker holds."""
    match outcome:
        case Complete(result):
            return _COMPLETED if result is None else Verdict(Move.COMPLETE, _ATTEMPT, result=result)
        case Snooze(after, progress):
            return _snoozed(claim, _bounded(as_seconds(after)), _share(progress), policy)
        case Cancel(reason):
            return Verdict(Move.CANCEL, _ATTEMPT, reason=kept(reason))
        case Released(why):
            return Verdict(Move.RELEASE, after_seconds=0.0, reason=why)
        case Expired():
            return _expired(claim)
        case WorkerLost():
            return _lost(claim, outcome)
        case Retry(reason, after, code):
            wait = None if after is None else as_seconds(after)
            return _failed(claim, Failure.of(FailureClass.TRANSIENT, reason, code=code), wait, policy)
        case Fail(code, reason):
            failure = Failure.of(FailureClass.PERMANENT, reason, code=code)
            return _failed(claim, failure, None, policy)
        case Failed(failure, after):
            return _failed(claim, failure, after, policy)


def _snoozed(claim: Claim, wait: float, progress: float | None, policy: Policy) -> Verdict:
    polls = claim.polls + 1
    polled = None if claim.polled is None else Polled(*claim.polled)  # type: ignore[arg-type]
    after = policy.polling.after(wait, polls, polled, progress, claim.claimed_at)
    if isinstance(after, Overdue):
        return Verdict(
            Move.FAIL,
            Counters(attempts=1, polls=1),
            progress=progress,
            failure=Failure.of(FailureClass.PERMANENT, after.reason, code=after.code),
            dead_reason=DeadReason.NON_RETRYABLE,
        )
    return Verdict(Move.SNOOZE, Counters(polls=1), after_seconds=after, progress=progress, isolate=False)


def _expired(claim: Claim) -> Verdict:
    assert claim.expired, f"task {claim.id} has not expired"
    return Verdict(Move.CANCEL, reason=EXPIRED)


def _failed(claim: Claim, failure: Failure, after: float | None, policy: Policy) -> Verdict:
    rule = RULES[failure.failure_class]
    free = rule.spends is Spends.RATE_LIMITS and claim.rate_limits < RATE_LIMITS_FREE
    if free:
        wait = _wait(claim.rate_limits, after, policy)
        spent = Counters(attempts=1, rate_limits=1)
        return Verdict(Move.RETRY, spent, after_seconds=wait, failure=failure, isolate=False)
    spent = Counters(
        attempts=1,
        failures=int(rule.spends in (Spends.FAILURES, Spends.RATE_LIMITS)),
        crashes=int(rule.spends is Spends.CRASHES),
    )
    if not rule.retried or claim.failures + 1 >= (claim.max_attempts or policy.max_attempts):
        return Verdict(Move.FAIL, spent, failure=failure, dead_reason=rule.dead_reason)
    wait = _wait(claim.failures, after, policy)
    return Verdict(Move.RETRY, spent, after_seconds=wait, failure=failure, isolate=False)


def _wait(failures: int, after: float | None, policy: Policy) -> float:
    if after is not None:
        return _bounded(after)
    return policy.backoff.seconds(failures, policy.jitter)


def _bounded(seconds: float) -> float:
    """A wait that the database can add to a time: at most ten years, and not a number means at once."""
    return min(max(seconds, 0.0), WAIT_SECONDS_MAX) if seconds == seconds else 0.0


def _share(progress: float | None) -> float | None:
    """Progress in whatever unit up to a hundred; not a number means unknown."""
    if progress is None or progress != progress:
        return None
    return min(max(progress, 0.0), 100.0)


def _lost(claim: Claim, lost: WorkerLost) -> Verdict:
    crashes = claim.crashes + int(lost.sole)
    reason = ENDED if lost.ended else None
    if crashes >= CRASHES_MAX:
        message = f"its process died {crashes} times while it ran alone; the last time {lost.how}"
        return Verdict(
            Move.FAIL,
            Counters(attempts=1, crashes=1),
            reason=reason,
            failure=Failure.of(FailureClass.POISON, message),
            dead_reason=DeadReason.NON_RETRYABLE,
            isolate=True,
        )
    when = "after its handler had ended and before its outcome was written" if lost.ended else "under it"
    return Verdict(
        Move.RECLAIM,
        Counters(attempts=int(lost.sole), crashes=int(lost.sole)),
        after_seconds=0.0,
        reason=reason,
        failure=Failure.of(FailureClass.WORKER_LOST, f"its process was lost {when}: {lost.how}"),
        isolate=True if lost.suspect or lost.sole else None,
    )
