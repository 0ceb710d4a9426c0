"""Groups: counted without a hot row, ignored, resolved, regressed; and what their tasks have in common."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import GroupNotFound
from holdfast.core.operated import GroupRegressed
from holdfast.ops.groups import Trait, traits_of
from tests.ops.conftest import Desk


@pytest.mark.catches("failures-not-counted")
async def test_failures_of_one_cause_are_one_group_and_counted(desk: Desk) -> None:
    await desk.fail(4, message="shot 17 is missing")
    await desk.fail(1, message="connection reset")
    conn = desk.world.conn
    before = await desk.groups.page(conn)
    assert [(group.dead, group.failures, group.state) for group in before] == [
        (4, 4, "open"),
        (1, 1, "open"),
    ]
    assert await desk.upkeep.roll_up_failures(conn) > 0
    assert await desk.upkeep.roll_up_failures(conn) == 0
    after = await desk.groups.page(conn)
    assert [(group.dead, group.failures, group.last_hour) for group in after] == [(4, 4, 4), (1, 1, 1)]
    assert sum(count for _, count in await desk.groups.hours(conn, after[0].fingerprint)) == 4


@pytest.mark.catches("regression-unseen")
async def test_a_resolved_cause_that_is_met_again_has_regressed_and_that_is_told_once(desk: Desk) -> None:
    await desk.fail()
    conn = desk.world.conn
    (group,) = await desk.groups.page(conn)
    await desk.upkeep.roll_up_failures(conn)
    await desk.groups.resolve(conn, group.fingerprint, "fixed in 1.2")
    assert (await desk.groups.show(conn, group.fingerprint)).state == "resolved"
    await desk.upkeep.roll_up_failures(conn)
    assert not told(desk)
    await desk.fail()
    assert (await desk.groups.show(conn, group.fingerprint)).state == "regressed"
    await desk.upkeep.roll_up_failures(conn)
    await desk.fail()
    await desk.upkeep.roll_up_failures(conn)
    assert told(desk) == [GroupRegressed(group.fingerprint)]
    await desk.groups.reopen(conn, group.fingerprint, "not fixed")
    assert (await desk.groups.show(conn, group.fingerprint)).state == "open"


def told(desk: Desk) -> list[GroupRegressed]:
    return [event for event in desk.world.events if isinstance(event, GroupRegressed)]


async def test_a_group_is_ignored_until_its_time_and_has_a_note_and_an_owner(desk: Desk) -> None:
    await desk.fail()
    conn = desk.world.conn
    (group,) = await desk.groups.page(conn)
    await desk.groups.ignore(conn, group.fingerprint, datetime.now(UTC) + timedelta(hours=1), "known")
    await desk.groups.note(conn, group.fingerprint, "see the runbook", "grace")
    seen = await desk.groups.show(conn, group.fingerprint)
    assert (seen.state, seen.note, seen.owner, seen.changed_by) == (
        "ignored",
        "see the runbook",
        "grace",
        "ada",
    )
    await desk.groups.ignore(conn, group.fingerprint, datetime.now(UTC) - timedelta(hours=1), "over")
    assert (await desk.groups.show(conn, group.fingerprint)).state == "open"
    assert await desk.actions() == ["GROUP_IGNORE", "GROUP_NOTE", "GROUP_IGNORE"]
    with pytest.raises(GroupNotFound):
        await desk.groups.show(conn, "nothing")
    with pytest.raises(GroupNotFound):
        await desk.groups.resolve(conn, "nothing", "why")


@pytest.mark.catches("traits-of-everybody")
async def test_a_group_says_what_its_tasks_share_that_successes_do_not(desk: Desk) -> None:
    for shot in range(10):
        await desk.world.enqueue("render", payload={"model": "v1", "size": {"codec": "h264"}, "shot": shot})
    assert await desk.succeed() == 10
    for shot in range(5):
        await desk.world.enqueue("render", payload={"model": "v2", "size": {"codec": "h264"}, "shot": shot})
    await desk.fail_again("CodecError")
    (group,) = await desk.groups.page(desk.world.conn)
    assert await desk.groups.traits(desk.world.conn, group) == [Trait("model", "v2", 1.0, 0.0)]
    assert await desk.groups.versions(desk.world.conn, group.fingerprint) == [1]


def test_without_failures_nothing_is_shared() -> None:
    assert traits_of([], ['{"a": 1}']) == []
