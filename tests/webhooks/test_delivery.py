"""Events on their way to receivers: who gets them, what an answer means, and what is never lost."""

import json

import pytest

from holdfast.core.errors import Misused
from holdfast.core.outcome import Fail, Retry, Snooze
from holdfast.core.state import State
from holdfast.testing import Ran
from holdfast.webhooks import verify
from holdfast.webhooks.retry import BREAK_AFTER, DELAYS
from tests.webhooks.conftest import Hooks
from tests.webhooks.receivers import answered, drips, hangs, receiver, resets


@pytest.mark.requirement("B7")
@pytest.mark.catches("delivery-unsigned")
async def test_b7_an_event_reaches_whoever_wants_it_signed_and_whole(hooks: Hooks) -> None:
    async with receiver() as wants, receiver() as wants_all, receiver() as wants_others:
        first = await hooks.endpoint(wants.url("/a"), "render.*")
        await hooks.endpoint(wants_all.url())
        await hooks.endpoint(wants_others.url(), "refund.done", "render")
        event = await hooks.app.webhooks.publish("render.done", {"name": "Åsa", "n": [1, 2.5, None]})
        await hooks.bench.drain()
        (request,) = wants.requests
        assert verify(request.body, request.headers, first.secret) == event
        body = json.loads(request.body)
        assert (body["id"], body["type"], body["data"]) == (
            event,
            "render.done",
            {"name": "Åsa", "n": [1, 2.5, None]},
        )
        assert (len(wants_all.requests), len(wants_others.requests)) == (1, 0)
    (attempt,) = await hooks.attempts(first)
    assert (attempt.status, attempt.event, attempt.keys, attempt.answer_head) == (
        200,
        event,
        first.endpoint.keys,
        "ok",
    )


async def test_an_event_is_published_with_its_transaction_or_not_at_all(hooks: Hooks) -> None:
    async with receiver() as server:
        await hooks.endpoint(server.url())
        async with hooks.conn.transaction(force_rollback=True):
            await hooks.app.webhooks.publish("a.b", {}, conn=hooks.conn)
        async with hooks.conn.transaction():
            for _ in range(2):
                await hooks.app.webhooks.publish("a.b", {}, conn=hooks.conn, id="order-7")
        await hooks.bench.drain()
        assert [request.headers["webhook-id"] for request in server.requests] == ["order-7"]


@pytest.mark.catches("fast-phase-skipped")
async def test_b7_a_receiver_that_fails_is_tried_soon_and_then_ever_later(hooks: Hooks) -> None:
    async with receiver(resets, answered(500), answered(503), answered(200)) as server:
        endpoint = await hooks.endpoint(server.url())
        ran = await hooks.delivered()
        waits = []
        while isinstance(ran[-1].outcome, Retry):
            waits.append(ran[-1].outcome.after)
            await hooks.bench.move_time(10)
            ran = await hooks.bench.drain()
        assert waits == [0.5, 1.5, 3.5]
        assert ran[-1].state is State.COMPLETED
        ids = {request.headers["webhook-id"] for request in server.requests}
        assert (len(server.requests), len(ids)) == (4, 1)
    attempts = await hooks.attempts(endpoint)
    assert [attempt.code for attempt in attempts] == ["WEBHOOK_RESET", "WEBHOOK_500", "WEBHOOK_503", None]
    assert [attempt.attempt for attempt in attempts] == [1, 2, 3, 4]
    # It is well again, and nothing is held against it.
    assert (await hooks.show(endpoint)).failures == 0


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (answered(302, "Location: http://127.0.0.1/"), "WEBHOOK_302"),
        (answered(404), "WEBHOOK_404"),
        (drips, "WEBHOOK_TIMEOUT"),
        (hangs, "WEBHOOK_TIMEOUT"),
    ],
)
async def test_whatever_is_not_yes_is_tried_again_under_its_name(
    hooks: Hooks, answer: object, code: str
) -> None:
    async with receiver(answer) as server:  # type: ignore[arg-type]
        await hooks.endpoint(server.url())
        (ran,) = await hooks.delivered()
    assert isinstance(ran.outcome, Retry)
    assert ran.outcome.code == code
    assert ran.task.error is not None
    assert ran.task.error.code == code


@pytest.mark.catches("retry-after-ignored")
@pytest.mark.parametrize(
    ("asked", "at_least", "at_most"), [("120", 120, 120), ("99999999", 3_600, 3_600), ("soon", 0.5, 0.5)]
)
async def test_what_a_receiver_asks_for_counts_within_reason(
    hooks: Hooks, asked: str, at_least: float, at_most: float
) -> None:
    async with receiver(answered(429, f"Retry-After: {asked}")) as server:
        await hooks.endpoint(server.url())
        (ran,) = await hooks.delivered()
    assert isinstance(ran.outcome, Retry)
    assert ran.outcome.after is not None
    assert at_least <= float(ran.outcome.after) <= at_most  # type: ignore[arg-type]


@pytest.mark.catches("gone-goes-on")
async def test_410_disables_an_endpoint_and_says_so(hooks: Hooks) -> None:
    async with receiver(answered(410)) as gone, receiver() as told:
        endpoint = await hooks.endpoint(gone.url(), "a.b")
        await hooks.endpoint(told.url(), "webhook.endpoint_disabled")
        ran = await hooks.delivered("a.b")
        assert isinstance(ran[0].outcome, Fail)
        assert (await hooks.show(endpoint)).state == "disabled"
        (notice,) = told.requests
        assert json.loads(notice.body)["data"]["endpoint"] == endpoint.endpoint.id
        # What comes later waits as a dead letter, and is sent once it is enabled and redriven.
        (later,) = await hooks.delivered("a.b")
        assert (later.state, len(gone.requests)) == (State.FAILED, 1)


@pytest.mark.catches("breaker-spends-attempts")
async def test_an_endpoint_that_only_fails_is_left_alone_and_that_costs_no_attempt(hooks: Hooks) -> None:
    async with receiver(*[answered(500)] * BREAK_AFTER, answered(200)) as server:
        endpoint = await hooks.endpoint(server.url())
        for _ in range(BREAK_AFTER):
            await hooks.app.webhooks.publish("a.b", {})
        await hooks.bench.drain()
        assert len(server.requests) == BREAK_AFTER
        left_alone = await hooks.show(endpoint)
        assert left_alone.left_alone_until is not None
        waiting = await hooks.delivered("a.b")
        assert isinstance(waiting[-1].outcome, Snooze)
        assert (waiting[-1].task.counters.attempts, len(server.requests)) == (0, BREAK_AFTER)
        # Its time is over: one goes to see, finds it well, and the others follow.
        await hooks.conn.execute("update holdfast.webhook_endpoints set left_alone_until = now()")
        await hooks.look_anew()
        await hooks.bench.move_time(60)
        await hooks.bench.drain()
        assert len(server.requests) > BREAK_AFTER
        assert (await hooks.show(endpoint)).state == "active"


@pytest.mark.catches("all-probe-at-once")
async def test_only_one_delivery_sees_whether_an_endpoint_is_well_again(hooks: Hooks) -> None:
    async with receiver(answered(500)) as server:
        endpoint = await hooks.endpoint(server.url())
        for _ in range(BREAK_AFTER + 3):
            await hooks.app.webhooks.publish("a.b", {})
        await hooks.bench.drain()
        assert len(server.requests) == BREAK_AFTER
        before = (await hooks.show(endpoint)).left_alone_until
        await hooks.conn.execute("update holdfast.webhook_endpoints set left_alone_until = now()")
        await hooks.look_anew()
        await hooks.bench.move_time(60)
        await hooks.bench.drain()
        assert len(server.requests) == BREAK_AFTER + 1
        after = (await hooks.show(endpoint)).left_alone_until
        assert before is not None
        assert after is not None
        # And for longer than the first time.
        assert (after - before).total_seconds() > 5
        # Whatever two of them have heard, one goes.
        await hooks.conn.execute("update holdfast.webhook_endpoints set left_alone_until = now()")
        asked = [await hooks.endpoints.probe(hooks.conn, endpoint.endpoint.id) for _ in range(2)]
        assert asked == [True, False]


async def test_days_of_nothing_but_failures_disable_an_endpoint(hooks: Hooks) -> None:
    async with receiver(answered(500)) as server:
        endpoint = await hooks.endpoint(server.url())
        await hooks.delivered()
        assert (await hooks.show(endpoint)).state == "failing"
        await hooks.conn.execute(
            "update holdfast.webhook_endpoints set failures = 9, failing_since = now() - interval '6 days'"
        )
        await hooks.delivered()
        shown = await hooks.show(endpoint)
    assert (shown.state, shown.disabled_because) == ("disabled", "it has done nothing but fail for days")


@pytest.mark.catches("order-not-kept")
async def test_in_order_means_that_nothing_overtakes_a_delivery_that_failed(hooks: Hooks) -> None:
    async with receiver(answered(500), answered(200)) as server:
        await hooks.endpoint(server.url(), in_order=True)
        for number in range(3):
            await hooks.app.webhooks.publish("a.b", {"n": number})
        await hooks.bench.drain()
        for _ in range(5):
            await hooks.bench.move_time(10)
            await hooks.bench.drain()
    assert [json.loads(request.body)["data"]["n"] for request in server.requests] == [0, 0, 1, 2]


@pytest.mark.catches("rotation-at-once")
async def test_in_the_middle_of_a_rotation_both_keys_sign(hooks: Hooks) -> None:
    async with receiver() as server:
        old = await hooks.endpoint(server.url())
        new = await hooks.endpoints.rotate(hooks.conn, old.endpoint.id, hours=1)
        await hooks.delivered()
        await hooks.endpoints.rotate(hooks.conn, old.endpoint.id, secret=new.secret, hours=0)
        await hooks.look_anew()
        await hooks.delivered()
    first, second = server.requests
    assert verify(first.body, first.headers, old.secret) == verify(first.body, first.headers, new.secret)
    assert verify(second.body, second.headers, new.secret)
    with pytest.raises(Exception, match="none of its signatures"):
        verify(second.body, second.headers, old.secret)


async def test_an_address_inside_is_refused_for_good_and_nobody_is_called(hooks: Hooks) -> None:
    endpoint = await hooks.endpoint("http://10.0.0.1:8080/")
    (ran,) = await hooks.delivered()
    assert isinstance(ran.outcome, Fail)
    (attempt,) = await hooks.attempts(endpoint)
    assert (attempt.code, attempt.status) == ("WEBHOOK_ADDRESS_REFUSED", None)


async def test_after_the_last_attempt_a_delivery_is_a_dead_letter(hooks: Hooks) -> None:
    async with receiver(answered(500)) as server:
        await hooks.endpoint(server.url())
        await hooks.delivered()
        ran: list[Ran] = []
        for _ in range(len(DELAYS)):
            await hooks.look_anew()
            await hooks.conn.execute("update holdfast.webhook_endpoints set left_alone_until = null")
            await hooks.bench.move_time(50_000)
            ran = await hooks.bench.drain()
        assert ran[-1].state is State.FAILED
        assert len(server.requests) == len(DELAYS) + 1


@pytest.mark.parametrize(
    ("type_", "data", "options", "says"),
    [
        ("a b", {}, {}, "no event type"),
        ("", {}, {}, "no event type"),
        ("a.b", {"x": object()}, {}, "cannot be written as JSON"),
        ("a.b", {"x": float("nan")}, {}, "cannot be written as JSON"),
        ("a.b", {}, {"id": "a.b"}, "no event id"),
        ("a.b", {}, {"when": 1}, "no option when"),
    ],
)
async def test_an_event_that_cannot_be_sent_is_refused_where_it_is_published(
    hooks: Hooks, type_: str, data: object, options: dict[str, object], says: str
) -> None:
    with pytest.raises(Misused, match=says):
        await hooks.app.webhooks.publish(type_, data, **options)  # type: ignore[arg-type]
