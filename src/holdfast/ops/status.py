"""Computes the status of the installation: fine, degraded or broken, since when and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from holdfast.ops.groups import Group, GroupState
from holdfast.views.dashboard import Compared, Ended, Trend
from holdfast.views.tasks import QueueView

# Where nothing has ended for so long, and nobody lives: workers restart.
UNSERVED_SECONDS = 15.0
OLDEST_SECONDS = 60.0
OLDEST_TIMES = 10.0
# Fewer failures than this say nothing, and so do shares below what is usual; that is known from so many.
FAILED_MIN = 5
FAILING_SHARE = 0.02
FAILING_TIMES = 3.0
USUAL_MIN = 100
BROKEN_SHARE = 0.5
BROKEN_MIN = 20
# What is judged: a stretch that is good within it does not end what was bad.
JUDGED = timedelta(minutes=15)
NEW = timedelta(days=1)


class Level(StrEnum):
    """How bad it is."""

    FINE = "fine"
    DEGRADED = "degraded"
    BROKEN = "broken"


class Cause(StrEnum):
    """Everything that a verdict can be for."""

    KEEPS_UP = "keeps_up"
    NO_WORKER = "no_worker"
    QUEUE_UNSERVED = "queue_unserved"
    FAILING = "failing"
    QUEUE_GROWING = "queue_growing"


@dataclass(frozen=True, slots=True)
class Status:
    """A verdict with what it is about."""

    level: Level
    cause: Cause
    since: datetime | None = None
    queue: str | None = None
    waiting: int | None = None
    oldest_seconds: float | None = None
    growth_per_minute: float | None = None
    failure_rate: float | None = None
    kind: str | None = None
    fingerprint: str | None = None
    title: str | None = None
    # The release under which the cause was met first, where it is new.
    release: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a verdict is made of."""

    now: datetime
    queues: Sequence[QueueView]
    trends: Mapping[str, Trend]
    compared: Compared
    series: Sequence[Ended]
    step: timedelta
    groups: Sequence[Group]
    workers_alive: int


_RANK = {Level.FINE: 0, Level.DEGRADED: 1, Level.BROKEN: 2}


def judge(seen: Seen) -> Status:
    """The worst that is to be said; of what is equally bad, the first."""
    fine = Status(Level.FINE, Cause.KEEPS_UP, _fine_since(seen), failure_rate=seen.compared.failure_rate)
    said = [verdict for verdict in (_unserved(seen), _failing(seen), _growing(seen)) if verdict is not None]
    return max([*said, fine], key=lambda verdict: _RANK[verdict.level])


def _age(seen: Seen, queue: QueueView) -> float:
    return 0.0 if queue.oldest_at is None else (seen.now - queue.oldest_at).total_seconds()


def _is_paused(seen: Seen, queue: QueueView) -> bool:
    """A pause that has run out is none, though nobody lives to take it back."""
    return queue.paused_at is not None and (queue.paused_until is None or queue.paused_until > seen.now)


def _unserved(seen: Seen) -> Status | None:
    """Work that nobody takes: of nobody at all, or of nobody who serves its queue."""
    waits = [
        queue
        for queue in seen.queues
        if queue.workers == 0 and queue.ready + queue.behind > 0 and not _is_paused(seen, queue)
    ]
    nobody = seen.workers_alive == 0
    last = seen.compared.last_ended_at
    if nobody and last is not None and (seen.now - last).total_seconds() <= UNSERVED_SECONDS:
        return None
    if not nobody:
        waits = [queue for queue in waits if _age(seen, queue) > OLDEST_SECONDS]
    elif all(queue.behind == 0 and _age(seen, queue) <= UNSERVED_SECONDS for queue in waits):
        return None
    if not waits:
        return None
    worst = max(waits, key=lambda queue: _age(seen, queue))
    since = [at for at in (worst.oldest_at, last if nobody else None) if at is not None]
    return Status(
        Level.BROKEN if nobody else Level.DEGRADED,
        Cause.NO_WORKER if nobody else Cause.QUEUE_UNSERVED,
        max(since, default=None),
        queue=worst.name,
        waiting=sum(queue.ready + queue.behind for queue in waits),
        oldest_seconds=_age(seen, worst),
    )


def _threshold(compared: Compared) -> float:
    """The share from which on it is more than usual; half is too much whatever yesterday was."""
    usual = compared.failure_rate_yesterday if compared.ended_yesterday >= USUAL_MIN else None
    return max(FAILING_SHARE, min(BROKEN_SHARE, FAILING_TIMES * (usual or 0.0)))


def _failing(seen: Seen) -> Status | None:
    compared = seen.compared
    rate = compared.failure_rate
    if rate is None or compared.failed < FAILED_MIN or rate <= _threshold(compared):
        return None
    broken = rate >= BROKEN_SHARE and compared.ended >= BROKEN_MIN
    level = Level.BROKEN if broken else Level.DEGRADED
    since = _bad_since(seen)
    worst = max(
        (group for group in seen.groups if group.state in {GroupState.OPEN, GroupState.REGRESSED}),
        key=lambda group: group.last_hour,
        default=None,
    )
    if worst is None or not worst.last_hour:
        return Status(level, Cause.FAILING, since, failure_rate=rate)
    # Where it began before what is shown, the cause knows, if it is not an old one.
    new = worst.first_seen_at >= (seen.now - NEW if since is None else since - seen.step)
    return Status(
        level,
        Cause.FAILING,
        worst.first_seen_at if new else since,
        failure_rate=rate,
        kind=worst.kind,
        fingerprint=worst.fingerprint,
        title=worst.message or worst.error_code,
        release=worst.releases[0] if new and worst.releases else None,
    )


def _growing(seen: Seen) -> Status | None:
    """What waits is old, and neither over minutes nor lately less than it was."""
    for queue in sorted(seen.queues, key=lambda queue: -_age(seen, queue)):
        trend = seen.trends.get(queue.name)
        if _is_paused(seen, queue) or trend is None or trend.growth_per_minute is None:
            continue
        falls = trend.growth_per_minute < 0 or (trend.lately_per_minute or 0.0) < 0
        usual = trend.usual_oldest_seconds or 0.0
        if not falls and _age(seen, queue) > max(OLDEST_SECONDS, OLDEST_TIMES * usual):
            return Status(
                Level.DEGRADED,
                Cause.QUEUE_GROWING,
                queue.oldest_at,
                queue=queue.name,
                waiting=queue.ready + queue.behind,
                oldest_seconds=_age(seen, queue),
                growth_per_minute=trend.growth_per_minute,
            )
    return None


def _is_bad(seen: Seen, one: Ended) -> bool:
    ended = one.completed + one.failed
    return one.failed > 0 and one.failed / ended > _threshold(seen.compared)


def _bad_since(seen: Seen) -> datetime | None:
    """Where the stretches that fail began; nothing where that was before the first of them."""
    since = None
    for one in reversed(seen.series):
        bad = _is_bad(seen, one)
        if not bad and one.completed + one.failed > 0 and (since or seen.now - one.at > JUDGED):
            return since
        if bad:
            since = one.at
    return None


def _fine_since(seen: Seen) -> datetime | None:
    """The end of the last stretch that was not; nothing where there was none."""
    bad = [one.at for one in seen.series if one.failed >= FAILED_MIN and _is_bad(seen, one)]
    return bad[-1] + seen.step if bad else None
