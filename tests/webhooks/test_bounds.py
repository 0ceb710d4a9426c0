"""What deliveries leave behind and what bounds them: the log, secrets, sizes, new addresses."""

import pytest

from holdfast.core.errors import PayloadTooLarge
from holdfast.core.events import StatementFailed
from holdfast.core.state import State
from holdfast.webhooks.signing import bytes_of
from tests.webhooks.conftest import Hooks
from tests.webhooks.receivers import answered, receiver


@pytest.mark.catches("secrets-in-the-log")
async def test_a_secret_stands_nowhere_but_with_the_keys(hooks: Hooks) -> None:
    async with receiver(answered(500, body=b"no")) as server:
        made = await hooks.endpoint(server.url())
        await hooks.delivered()
    raw = bytes_of(made.secret)
    told = [made.secret, made.secret.removeprefix("whsec_"), raw.hex()]
    assert made.secret not in repr(made)
    for table in ("tasks", "task_attempts", "webhook_endpoints", "webhook_attempts", "audit_log"):
        found = await hooks.conn.execute(f"select t::text from holdfast.{table} t")
        for (row,) in await found.fetchall():
            assert not any(secret in row for secret in told), table


@pytest.mark.catches("log-decides-deliveries")
async def test_a_log_that_cannot_be_written_makes_no_delivery_fail(hooks: Hooks) -> None:
    told: list[object] = []
    hooks.app.listener = told.append
    async with receiver() as server:
        await hooks.endpoint(server.url())
        await hooks.conn.execute("alter table holdfast.webhook_attempts rename to gone")
        try:
            (ran,) = await hooks.delivered()
        finally:
            await hooks.conn.execute("alter table holdfast.gone rename to webhook_attempts")
        assert (ran.state, len(server.requests)) == (State.COMPLETED, 1)
    # And not in silence.
    assert [event.doing for event in told if isinstance(event, StatementFailed)] == ["webhook log"]


async def test_a_day_that_the_log_has_no_partition_for_is_made(hooks: Hooks) -> None:
    found = await hooks.conn.execute(
        "select inhrelid::regclass::text from pg_inherits"
        " where inhparent = 'holdfast.webhook_attempts'::regclass"
    )
    for (partition,) in await found.fetchall():
        await hooks.conn.execute(f"drop table {partition}")
    async with receiver() as server:
        endpoint = await hooks.endpoint(server.url())
        await hooks.delivered()
    assert len(await hooks.attempts(endpoint)) == 1


@pytest.mark.catches("old-failures-against-a-new-address")
async def test_a_new_address_begins_anew(hooks: Hooks) -> None:
    async with receiver(answered(500)) as server:
        endpoint = await hooks.endpoint(server.url())
        await hooks.delivered()
        assert (await hooks.show(endpoint)).state == "failing"
        changed = await hooks.endpoints.change(hooks.conn, endpoint.endpoint.id, url=server.url("/new"))
        assert (changed.state, changed.failures) == ("active", 0)


async def test_an_event_that_its_deliveries_would_be_too_large_for_is_refused(hooks: Hooks) -> None:
    with pytest.raises(PayloadTooLarge):
        await hooks.app.webhooks.publish("a.b", "x" * 255_500)
    async with receiver() as server:
        await hooks.endpoint(server.url())
        (ran,) = await hooks.delivered("a.b", "\u00e5" * 100_000)
        assert (ran.state, len(server.requests)) == (State.COMPLETED, 1)


@pytest.mark.catches("fan-out-in-one-statement")
async def test_events_are_fanned_out_in_slices_and_none_is_left_out(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.webhooks.publish.SLICE_BYTES", 1_000)
    async with receiver() as server:
        for _ in range(3):
            await hooks.endpoint(server.url())
        await hooks.delivered("a.b", {"x": "y" * 400})
        assert len(server.requests) == 3


async def test_a_query_stands_in_no_log_and_no_audit(hooks: Hooks) -> None:
    async with receiver() as server:
        endpoint = await hooks.endpoint(server.url("/hook?token=quizzical"))
        await hooks.delivered()
        assert server.requests[0].path == "/hook?token=quizzical"
    (attempt,) = await hooks.attempts(endpoint)
    assert attempt.url == server.url("/hook?[redacted]")
    found = await hooks.conn.execute("select details::text from holdfast.audit_log")
    assert not any("quizzical" in details for (details,) in await found.fetchall())
