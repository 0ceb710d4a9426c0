"""Ticks in a time zone through both changes of the clocks, and what becomes of missed ones."""

from bisect import bisect_right
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, product, takewhile
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.errors import Misused
from holdfast.core.schedule import Cron

# Both hemispheres, half an hour of change, and a change at midnight.
ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo"]
DAY = timedelta(days=1)
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def year(cron: Cron) -> list[datetime]:
    """Every tick of 2026 in the zone of a schedule."""
    zone = ZoneInfo(cron.zone)
    return between(cron, datetime(2026, 1, 1, tzinfo=zone), datetime(2027, 1, 1, tzinfo=zone))


def between(cron: Cron, start: datetime, end: datetime) -> list[datetime]:
    return list(takewhile(lambda tick: tick < end, cron.after(start - timedelta(minutes=1))))


def changes(zone: str) -> list[datetime]:
    """The first whole hour after each change of the clocks in 2026."""
    hours = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n) for n in range(365 * 24)]
    offsets = [_local(hour, zone).utcoffset() for hour in hours]
    found = [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]
    assert len(found) == 2
    return found


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("clock", ["0 0", "30 1", "30 2", "0 3", "15 23"])
def test_a_daily_schedule_fires_once_on_every_day_of_the_zone(zone: str, clock: str) -> None:
    ticks = year(Cron(f"{clock} * * *", zone=zone))
    days = Counter(tick.astimezone(ZoneInfo(zone)).date() for tick in ticks)
    assert len(days) == 365
    assert set(days.values()) == {1}
    minute, hour = map(int, clock.split())
    off = [tick for tick in ticks if (_local(tick, zone).hour, _local(tick, zone).minute) != (hour, minute)]
    assert len(off) <= 1, "only on the day on which that time does not exist"
    for tick in off:
        assert not _exists(_local(tick, zone).replace(hour=hour, minute=minute))


@pytest.mark.parametrize("zone", ZONES)
def test_a_schedule_by_the_hour_fires_after_every_real_hour(zone: str) -> None:
    cron = Cron("*/30 * * * *", zone=zone)
    for change in changes(zone):
        ticks = between(cron, change - DAY, change + DAY)
        assert {later - tick for tick, later in pairwise(ticks)} == {timedelta(minutes=30)}


def _local(tick: datetime, zone: str) -> datetime:
    return tick.astimezone(ZoneInfo(zone))


def _exists(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(fold=0) == local.replace(fold=0)


@pytest.mark.catches("hour-that-comes-twice")
@pytest.mark.parametrize("zone", ZONES)
def test_in_the_hour_that_comes_twice_no_tick_comes_twice_or_late(zone: str) -> None:
    crons = [Cron(one, zone=zone) for one in ("30 2 * * *", "*/20 * * * *", "30 1,23 * * *")]
    for change, cron in product(changes(zone), crons):
        ticks = between(cron, change - 2 * DAY, change + 2 * DAY)
        for moment in (change + timedelta(minutes=minutes) for minutes in range(-240, 250, 10)):
            later = bisect_right(ticks, moment)
            assert next(cron.after(moment)) == ticks[later]
            assert next(cron.until(moment)) == ticks[later - 1]


@pytest.mark.catches("missed-ticks-forgotten", "missed-ticks-all-made-up")
@pytest.mark.parametrize(
    ("missed", "hours"), [("skip", []), ("one", [12]), ("all", [10, 11, 12])], ids=["skip", "one", "all"]
)
def test_after_an_outage_of_three_hours(missed: str, hours: list[int]) -> None:
    cron = Cron("0 * * * *", missed=missed)
    now = NOON + timedelta(minutes=30)
    due = cron.due(NOON - timedelta(hours=2), now)
    assert [tick.hour for tick in due.fires] == hours
    assert due.next_at == NOON + timedelta(hours=1)


def test_what_fires_a_little_late_was_not_missed_and_all_has_a_bound() -> None:
    due = Cron("0 * * * *", missed="skip").due(NOON, NOON + timedelta(seconds=50))
    assert due.fires == [NOON]
    due = Cron("* * * * *", missed="all", most=5).due(NOON - timedelta(days=365), NOON)
    assert due.fires == [NOON - timedelta(minutes=n) for n in (4, 3, 2, 1, 0)]


def test_jitter_is_within_its_bound_and_the_same_for_a_tick() -> None:
    cron = Cron("* * * * *", jitter=60)
    delays = [cron.delay("a", tick) for tick in islice(cron.after(NOON), 200)]
    assert delays == [cron.delay("a", tick) for tick in islice(cron.after(NOON), 200)]
    assert timedelta(0) <= min(delays) < timedelta(seconds=10)
    assert timedelta(seconds=50) < max(delays) <= timedelta(seconds=60)
    assert cron.delay("a", NOON) != cron.delay("b", NOON)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"expression": "61 * * * *"}, "cannot be read"),
        ({"expression": "*/10 * * * * *"}, "it has five fields"),
        ({"expression": "0 0 30 2 *"}, "cannot be read|never comes true"),
        ({"expression": "0 3 * * *", "zone": "Europe/Atlantis"}, "no time zone"),
        ({"expression": "0 3 * * *", "missed": "some"}, "'skip', 'one' or 'all'"),
        ({"expression": "0 3 * * *", "most": 0}, "most is 0"),
        ({"expression": "0 3 * * *", "jitter": -1}, "jitter is -1 s"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(Misused, match=said):
        Cron(**values)  # type: ignore[arg-type]
