"""Ticks in a time zone through both changes of the clocks, and what becomes of missed ones."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest

from holdfast.core.errors import Misused
from holdfast.core.schedule import Cron

# Both hemispheres, half an hour of change, and a change at midnight.
ZONES = ["Europe/Paris", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo"]
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def year(cron: Cron) -> list[datetime]:
    """Every tick of 2026 in the zone of a schedule."""
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(cron.zone)) - timedelta(minutes=1)
    end = datetime(2027, 1, 1, tzinfo=ZoneInfo(cron.zone))
    return list(takewhile(lambda tick: tick < end, cron.after(start)))


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
    ticks = year(Cron("*/30 * * * *", zone=zone))
    assert {later - tick for tick, later in pairwise(ticks)} == {timedelta(minutes=30)}


def _local(tick: datetime, zone: str) -> datetime:
    return tick.astimezone(ZoneInfo(zone))


def _exists(local: datetime) -> bool:
    return local.astimezone(UTC).astimezone(local.tzinfo).replace(fold=0) == local.replace(fold=0)


@pytest.mark.catches("hour-that-comes-twice")
@pytest.mark.parametrize("zone", ZONES)
def test_in_the_hour_that_comes_twice_no_tick_comes_twice_or_late(zone: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    crons = [Cron(one, zone=zone) for one in ("30 2 * * *", "*/20 * * * *", "30 1,23 * * *")]
    ticks = [(cron, year(cron)) for cron in crons]
    while (moment := moment + timedelta(minutes=10)) < datetime(2026, 12, 31, tzinfo=UTC):
        near = (moment + timedelta(hours=hours) for hours in (-3, 0, 3))
        if len({_local(one, zone).utcoffset() for one in near}) == 1:
            continue
        for cron, all_of_them in ticks:
            assert next(cron.after(moment)) == next(tick for tick in all_of_them if tick > moment)
            assert next(cron.until(moment)) == [tick for tick in all_of_them if tick <= moment][-1]


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
