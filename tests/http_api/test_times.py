"""Times and rates that callers choose: none of them makes a list fail for others."""

from typing import Any

import pytest

from holdfast.core.errors import Misused
from holdfast.core.limit import Limit
from holdfast.ops.tokens import Role
from tests.http_api.conftest import Api

LISTS = ("/api/tasks", "/api/queues", "/api/tasks/ops", "/api/now", "/metrics", "/api/limits")
FAR = ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2300-01-01T00:00:00Z")


@pytest.mark.requirement("B9")
@pytest.mark.catches("pauses-to-any-year")
@pytest.mark.parametrize("until", [*FAR, "2027-01-01T00:00:00"])
async def test_a_pause_ends_within_ten_years(api: Api, until: str) -> None:
    for path in ("/api/queues/money/pause", "/api/kinds/pay/pause"):
        await api.post(path, role=Role.OPERATOR, code=422, until=until)
    for path in LISTS:
        await api.get(path, role=Role.VIEWER)


@pytest.mark.parametrize("at", FAR)
async def test_an_event_occurred_at_a_time_that_can_be_read(api: Api, at: str) -> None:
    event: dict[str, Any] = {"type": "order.paid", "data": {}, "occurredAt": at}
    await api.post("/api/webhooks/events", role=Role.OPERATOR, code=422, **event)


@pytest.mark.requirement("B9")
@pytest.mark.catches("unreadable-times")
async def test_a_time_that_cannot_be_read_blinds_no_list(api: Api) -> None:
    """It was accepted by an earlier release."""
    conn = api.shift.world.conn
    await conn.execute("select holdfast.enqueue('pay', '{}', 'money')")
    await api.post("/api/queues/money/pause", role=Role.OPERATOR)
    await conn.execute("update holdfast.queues set paused_until = '10000-01-01 13:59:59+00'")
    for path in LISTS:
        await api.get(path, role=Role.VIEWER)
    await api.get("/api/live", role=Role.VIEWER, seconds=0)
    for task in (await api.get("/api/tasks", role=Role.VIEWER))["items"]:
        await api.get(f"/api/tasks/{task['id']}", role=Role.VIEWER)
        await api.get(f"/api/tasks/{task['id']}/why", role=Role.VIEWER)


@pytest.mark.requirement("B9")
@pytest.mark.catches("rates-of-any-length")
@pytest.mark.parametrize("rate", ["1/99999999999999999999h", "1/100000000h", "99999999999/s"])
async def test_the_window_of_a_rate_is_at_most_ten_years(api: Api, rate: str) -> None:
    with pytest.raises(Misused, match="ten years"):
        Limit(rate=rate)
    await api.post("/api/limits", role=Role.OPERATOR, code=422, scope="kind", name="pay", rate=rate)
    assert Limit(rate="1/87600h").rate_count == 1
