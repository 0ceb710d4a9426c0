"""Random acts on the store, held against a model of it."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.store.machine import StoreMachine

# A seeded fault only has to be found; making the example small takes minutes.
PHASES = [phase for phase in Phase if phase is not Phase.shrink or "HOLDFAST_MUTANT" not in os.environ]


@pytest.mark.timeout(300)
@pytest.mark.requirement("T2", "O1", "B8")
@pytest.mark.catches(
    "no-fence", "fence-does-not-grow", "re-entry-below-the-floor",
    "floor-passes-an-open-transaction", "slot-not-returned", "stray-claims-kept", "answer-lost-means-late",
)  # fmt: skip
def test_the_store_does_what_the_model_says(url: str, direct_url: str) -> None:
    class Machine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(url, direct_url)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=PHASES,
        ),
    )
