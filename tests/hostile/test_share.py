"""A small share of `make hostile`: nothing untrusted stops a worker or the API, or takes them long."""

import pytest

from tests.hostile.attack import attack, weigh
from tests.world import World

COUNT = 200
WEIGHED = range(100)


@pytest.mark.timeout(180)
@pytest.mark.catches("outside-worker-is-given-what-nobody-can-read", "payload-is-shown-unread")
async def test_nothing_hostile_ends_an_executor_or_is_answered_with_an_error_of_ours(world: World) -> None:
    report = await attack(world.url, COUNT)
    assert not report.wrong
    assert {"sql", "receiver", "handlers", "http", "claims", "reports", "shown", "commands"} <= {
        *report.counted.doors
    }


@pytest.mark.alone
@pytest.mark.catches("redaction-of-all-of-a-text", "stored-json-of-any-size")
def test_no_hostile_payload_or_text_takes_long() -> None:
    assert not weigh(WEIGHED).too_dear
