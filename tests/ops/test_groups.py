"""Groups: counted without a hot row, ignored, resolved, regressed; and what their tasks have in common."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import GroupNotFound
from holdfast.core.operator_events import GroupRegressed
from holdfast.ops.groups import Trait, traits_of
from holdfast.ops.masking import Mask
from tests.ops.conftest import Shift


@pytest.mark.catches("failures-not-counted")
async def test_failures_of_one_cause_are_one_group_and_counted(shift: Shift) -> None:
    await shift.fail(4, message="shot 17 is missing")
    await shift.fail(1, message="connection reset")
    conn = shift.world.conn
    before = await shift.groups.page(conn)
    assert [(group.dead, group.failures, group.state) for group in before] == [
        (4, 4, "open"),
        (1, 1, "open"),
    ]
    assert await shift.upkeep.roll_up_failures(conn) > 0
    assert await shift.upkeep.roll_up_failures(conn) == 0
    after = await shift.groups.page(conn)
    assert [(group.dead, group.failures, group.last_hour) for group in after] == [(4, 4, 4), (1, 1, 1)]
    assert sum(count for _, count in await shift.groups.hours(conn, after[0].fingerprint)) == 4


@pytest.mark.catches("regression-unseen")
async def test_a_resolved_cause_that_is_met_again_has_regressed_and_that_is_told_once(shift: Shift) -> None:
    await shift.fail()
    conn = shift.world.conn
    (group,) = await shift.groups.page(conn)
    await shift.upkeep.roll_up_failures(conn)
    await shift.groups.resolve(conn, group.fingerprint, "fixed in 1.2")
    assert (await shift.groups.show(conn, group.fingerprint)).state == "resolved"
    await shift.upkeep.roll_up_failures(conn)
    assert not told(shift)
    await shift.fail()
    assert (await shift.groups.show(conn, group.fingerprint)).state == "regressed"
    await shift.upkeep.roll_up_failures(conn)
    await shift.fail()
    await shift.upkeep.roll_up_failures(conn)
    assert told(shift) == [GroupRegressed(group.fingerprint)]
    await shift.groups.reopen(conn, group.fingerprint, "not fixed")
    assert (await shift.groups.show(conn, group.fingerprint)).state == "open"


def told(shift: Shift) -> list[GroupRegressed]:
    return [event for event in shift.world.events if isinstance(event, GroupRegressed)]


async def test_a_group_is_ignored_until_its_time_and_has_a_note_and_an_owner(shift: Shift) -> None:
    await shift.fail()
    conn = shift.world.conn
    (group,) = await shift.groups.page(conn)
    await shift.groups.ignore(conn, group.fingerprint, datetime.now(UTC) + timedelta(hours=1), "known")
    await shift.groups.note(conn, group.fingerprint, "see the runbook", "grace")
    seen = await shift.groups.show(conn, group.fingerprint)
    assert (seen.state, seen.note, seen.owner, seen.changed_by) == (
        "ignored",
        "see the runbook",
        "grace",
        "ada",
    )
    await shift.groups.ignore(conn, group.fingerprint, datetime.now(UTC) - timedelta(hours=1), "over")
    assert (await shift.groups.show(conn, group.fingerprint)).state == "open"
    assert await shift.actions() == ["GROUP_IGNORE", "GROUP_NOTE", "GROUP_IGNORE"]
    with pytest.raises(GroupNotFound):
        await shift.groups.show(conn, "nothing")
    with pytest.raises(GroupNotFound):
        await shift.groups.resolve(conn, "nothing", "why")


@pytest.mark.catches("traits-of-everybody")
async def test_a_group_says_what_its_tasks_share_that_successes_do_not(shift: Shift) -> None:
    for shot in range(10):
        await shift.world.enqueue("render", payload={"model": "v1", "size": {"codec": "h264"}, "shot": shot})
    assert await shift.succeed() == 10
    for shot in range(5):
        await shift.world.enqueue("render", payload={"model": "v2", "size": {"codec": "h264"}, "shot": shot})
    await shift.fail_again("CodecError")
    (group,) = await shift.groups.page(shift.world.conn)
    mask = Mask({"render": ()})
    assert await shift.groups.traits(shift.world.conn, group, mask) == [Trait("model", "v2", 1.0, 0.0)]
    assert await shift.groups.versions(shift.world.conn, group.fingerprint) == [1]


@pytest.mark.requirement("B9")
@pytest.mark.catches("traits-of-any-size")
async def test_what_a_group_shares_is_looked_for_in_payloads_of_bounded_size(shift: Shift) -> None:
    """Hundreds of payloads of a quarter of a megabyte held up the API for a minute."""
    many = {f"field{number}": "v" * 11 for number in range(1_000)}
    for _ in range(5):
        await shift.world.enqueue("render", payload={"model": "large", **many})
    await shift.world.enqueue("render", payload={"model": "small"})
    await shift.fail_again("CodecError")
    (group,) = await shift.groups.page(shift.world.conn)
    mask = Mask({"render": ()})
    found = await shift.groups.traits(shift.world.conn, group, mask)
    assert found == [Trait("model", "small", 1.0, 0.0)]
    values = {"fingerprint": group.fingerprint, "limit": 500, "bytes_each": 100_000, "bytes_max": 50_000}
    cursor = await shift.world.conn.execute(shift.groups._sql["payloads_of_group"], values)
    assert 1 <= len(await cursor.fetchall()) <= 2


def test_without_failures_nothing_is_shared() -> None:
    assert traits_of([], ['{"a": 1}']) == []
