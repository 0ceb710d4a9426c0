"""Random faults against real workers; `make chaos` is the longer run, this the one of every day."""

import asyncio

import pytest

from tests.chaos.__main__ import chaos

TASKS = 20_000
SECONDS = 30.0
SEED = 20_261_115


@pytest.mark.alone
@pytest.mark.timeout(240)
@pytest.mark.requirement("T2", "O1", "B8")
@pytest.mark.catches("reconciliation-off", "child-not-released")
async def test_nothing_is_lost_and_nothing_late_lands_under_random_faults() -> None:
    report, about = await asyncio.to_thread(chaos, TASKS, SEED, SECONDS)
    assert report.broken == [], f"replay with --seed {SEED}: {about} {report.counts}"
