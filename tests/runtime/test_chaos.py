"""Random faults against real workers; `make chaos` is the longer run, this the one of every day."""

import asyncio

import pytest

from tests.chaos.__main__ import chaos

TASKS = 20_000
SECONDS = 30.0
SEED = 20_261_115


@pytest.mark.timeout(240)
@pytest.mark.requirement("T2", "O1", "B8")
@pytest.mark.catches("reconciliation-off", "child-not-released")
async def test_nothing_is_lost_and_nothing_late_lands_under_random_faults() -> None:
    # Other tests take half of the machine: how soon work resumes is judged by `make chaos`.
    report, about = await asyncio.to_thread(chaos, TASKS, SEED, SECONDS, 15.0)
    assert report.broken == [], f"replay with --seed {SEED}: {about} {report.counts}"
