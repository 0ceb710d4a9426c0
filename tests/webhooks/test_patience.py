from collections import Counter

import pytest

from holdfast.webhooks.retry import BREAK_SECONDS, BREAK_SECONDS_MAX, SPREAD_SECONDS_MAX, until_asked_again


@pytest.mark.catches("backlog-wakes-as-one")
def test_a_backlog_comes_back_over_as_long_as_it_had_to_wait() -> None:
    waits = [until_asked_again(BREAK_SECONDS, polls=0) for _ in range(1_000)]
    assert BREAK_SECONDS <= min(waits) < max(waits) <= 2 * BREAK_SECONDS
    # Healthy endpoints wait behind whatever wakes in one second.
    assert max(Counter(int(wait) for wait in waits).values()) < 200


@pytest.mark.parametrize(("left", "polls"), [(BREAK_SECONDS_MAX, 0), (BREAK_SECONDS, 20)])
def test_nothing_waits_without_end_for_an_endpoint_that_is_well_again(left: float, polls: int) -> None:
    waits = [until_asked_again(left, polls) for _ in range(1_000)]
    assert left + SPREAD_SECONDS_MAX / 2 < max(waits) <= left + SPREAD_SECONDS_MAX
