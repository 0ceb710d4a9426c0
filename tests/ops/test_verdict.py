"""The verdict of a night: what is said of which figures."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.ops.groups import Group
from holdfast.ops.status import Cause, Level, Seen, Status, judge
from holdfast.views.dashboard import Compared, Ended, Trend
from holdfast.views.tasks import QueueView

NOW = datetime(2026, 11, 16, 3, 7, tzinfo=UTC)
STEP = timedelta(minutes=5)
LATELY = NOW - timedelta(seconds=1)
QUIET = Compared(1_000, 2, 4_000, 8, 2, 0, 3.0, known_yesterday=True, last_ended_at=LATELY)


def queue(
    name: str = "video", *, oldest: float | None = 2, workers: int = 3, paused: bool = False
) -> QueueView:
    at = None if oldest is None else NOW - timedelta(seconds=oldest)
    return QueueView(name, 10, 0, 0, 0, at, workers, NOW if paused else None, None, None, None)


def group(minutes: float, last_hour: int = 500, state: str = "open", release: str = "1.8.2") -> Group:
    first = NOW - timedelta(minutes=minutes)
    return Group(
        "f1", "video.render", "transient", "X", "Timeout", first, NOW, last_hour, last_hour, last_hour,
        state, None, None, None, None, None, None, [release],
    )  # fmt: skip


def series(bad: int, good: int = 20) -> list[Ended]:
    """So many good stretches, then so many bad ones, up to now."""
    total = bad + good
    return [Ended(NOW - (total - place) * STEP, 600, 4, 0 if place < good else 60) for place in range(total)]


def judged(
    *,
    queues: list[QueueView] | None = None,
    trends: dict[str, Trend] | None = None,
    compared: Compared = QUIET,
    bad: int = 0,
    groups: list[Group] | None = None,
    alive: int = 3,
) -> Status:
    return judge(
        Seen(NOW, queues or [queue()], trends or {}, compared, series(bad), STEP, groups or [], alive)
    )


FAILING = Compared(1_000, 80, 4_000, 8, 300, 0, 3.0, known_yesterday=True, last_ended_at=LATELY)


@pytest.mark.catches("a-quiet-night-is-broken", "usual-failures-alarm")
def test_a_quiet_night_is_fine_and_so_is_a_usual_one() -> None:
    assert judged().level is Level.FINE
    assert judged().since is None
    # Three of ten failed, and it is the middle of the night: three say nothing.
    assert (
        judged(compared=Compared(10, 3, 0, 0, 3, 0, 0.0, known_yesterday=False, last_ended_at=LATELY)).level
        is Level.FINE
    )
    # What fails every day is no incident.
    usual = Compared(1_000, 80, 4_000, 300, 300, 0, 280.0, known_yesterday=True, last_ended_at=LATELY)
    assert judged(compared=usual, bad=3).level is Level.FINE


@pytest.mark.catches("incidents-begin-with-the-chart")
def test_what_fails_is_named_with_its_release_and_since_when() -> None:
    new = judged(compared=FAILING, bad=5, groups=[group(25)])
    assert (new.level, new.cause, new.kind) == (Level.DEGRADED, Cause.FAILING, "video.render")
    assert (new.since, new.release) == (NOW - timedelta(minutes=25), "1.8.2")
    # An old cause is not laid at the door of a release.
    old = judged(compared=FAILING, bad=5, groups=[group(60 * 24 * 9)])
    assert (old.since, old.release) == (NOW - 5 * STEP, None)
    # What somebody ignores is not what the sentence is about.
    many = judged(compared=FAILING, bad=5, groups=[group(25, state="ignored")])
    assert (many.cause, many.kind) == (Cause.FAILING, None)
    most = Compared(1_000, 700, 4_000, 8, 700, 0, 3.0, known_yesterday=True, last_ended_at=LATELY)
    assert judged(compared=most, bad=2).level is Level.BROKEN


@pytest.mark.catches("nobody-works-in-silence", "paused-queues-alarm", "restarts-alarm")
def test_work_that_nobody_serves_is_broken_or_degraded() -> None:
    lonely = queue(oldest=380, workers=0)
    silent = replace(QUIET, last_ended_at=NOW - timedelta(seconds=40))
    broken = judged(queues=[lonely], alive=0, compared=silent)
    assert (broken.level, broken.cause, broken.waiting) == (Level.BROKEN, Cause.NO_WORKER, 10)
    assert broken.since == silent.last_ended_at
    assert judged(queues=[lonely, queue("mail")]).cause is Cause.QUEUE_UNSERVED
    # A moment between two workers is no trouble, whatever waits; nor is what somebody has paused.
    assert judged(queues=[lonely], alive=0).level is Level.FINE
    assert judged(queues=[queue(oldest=3, workers=0)], alive=0, compared=silent).level is Level.FINE
    paused = queue(oldest=380, workers=0, paused=True)
    assert judged(queues=[paused], alive=0, compared=silent).level is Level.FINE
    # What stands behind a limit waits too, and a pause that has run out is none.
    behind = replace(queue(oldest=None, workers=0), ready=0, behind=50)
    assert judged(queues=[behind], alive=0, compared=silent).cause is Cause.NO_WORKER
    over = replace(paused, paused_until=NOW - timedelta(minutes=1))
    assert judged(queues=[over], alive=0, compared=silent).cause is Cause.NO_WORKER


@pytest.mark.catches("the-first-is-the-worst")
def test_the_worst_is_said_whatever_else_is_wrong() -> None:
    most = replace(FAILING, failed=900)
    forgotten = queue("old", oldest=9_000, workers=0)
    assert judged(queues=[forgotten, queue()], compared=most, bad=3).cause is Cause.FAILING
    assert judged(queues=[forgotten, queue()], compared=FAILING, bad=3).cause is Cause.QUEUE_UNSERVED


@pytest.mark.catches("an-incident-becomes-usual")
def test_what_failed_yesterday_excuses_only_so_much() -> None:
    # Yesterday one of one failed; and an incident that lasts a day is none of what is usual.
    one = Compared(1_000, 300, 1, 1, 300, 0, 0.0, known_yesterday=True, last_ended_at=LATELY)
    assert judged(compared=one, bad=2).level is Level.DEGRADED
    day = Compared(1_000, 600, 4_000, 2_400, 600, 0, 600.0, known_yesterday=True, last_ended_at=LATELY)
    assert judged(compared=day, bad=2).level is Level.BROKEN


def test_a_good_moment_does_not_make_an_old_cause_new() -> None:
    # The newest stretch has just begun, and all in it is well so far.
    lately = [*series(4)[:-1], Ended(NOW - timedelta(seconds=20), 9, 0, 0)]
    old = group(60 * 24 * 40)
    found = judge(Seen(NOW, [queue()], {}, FAILING, lately, STEP, [old], 3))
    assert (found.release, found.since) == (None, NOW - 4 * STEP)
    # Where it began before what is shown, an old cause says nothing of when.
    long = judge(Seen(NOW, [queue()], {}, FAILING, series(20, 0), STEP, [old], 3))
    assert (long.release, long.since) == (None, None)


@pytest.mark.catches("draining-queues-alarm", "bursts-alarm")
def test_a_queue_that_is_old_and_does_not_drain_is_named() -> None:
    old = queue(oldest=668)
    grows = judged(queues=[old], trends={"video": Trend(42.0, 40.0, 14.0)})
    assert (grows.cause, grows.queue, grows.growth_per_minute) == (Cause.QUEUE_GROWING, "video", 42.0)
    # As many as before, for minutes: it is stuck.
    assert judged(queues=[old], trends={"video": Trend(0.0, 0.0, 14.0)}).cause is Cause.QUEUE_GROWING
    # Draining, or draining since the burst of a moment ago, or as old as always, or not known.
    for trend in (
        Trend(-42.0, 0.0, 14.0),
        Trend(240.0, -400.0, 0.0),
        Trend(42.0, 1.0, 600.0),
        Trend(None, None, 14.0),
    ):
        assert judged(queues=[old], trends={"video": trend}).level is Level.FINE, trend


def test_it_is_fine_since_the_last_bad_stretch() -> None:
    then = [*series(3, 5)[:8], Ended(NOW - STEP, 600, 4, 0)]
    seen = Seen(NOW, [queue()], {}, QUIET, then, STEP, [], 3)
    bad = max(one.at for one in then if one.failed)
    assert judge(seen).since == bad + STEP
