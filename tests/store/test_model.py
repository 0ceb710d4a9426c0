"""Random acts on the store, held against a model of it."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from holdfast.core.outcome import Complete
from holdfast.core.state import Move, State
from tests.store.machine import StoreMachine

LIVENESS_SECONDS = 1.5

# A seeded fault only has to be found; making the example small takes minutes.
PHASES = [phase for phase in Phase if phase is not Phase.shrink or "HOLDFAST_MUTANT" not in os.environ]


class LivelyMachine(StoreMachine):
    """At the end of each run everything committed and eligible is claimed in time."""

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.everything_eligible_is_claimed_in_time()
        finally:
            for conn, _ in self.open:
                self.do(conn.close())
            if hasattr(self, "world"):
                self.do(self.world.conn.close())
            self.runner.close()

    def everything_eligible_is_claimed_in_time(self) -> None:
        while self.open:
            conn, ids = self.open.pop()
            self.do(conn.execute("commit"))
            self.do(conn.close())
            self.states |= dict.fromkeys(ids, State.QUEUED)
        for worker in self.claimers:
            held = [claim for claim in self.good.values() if claim.worker == worker]
            self.do(self.world.store.workers.reconcile(self.world.conn, worker, held))
            self.do(
                self.world.store.permits.set_permits(
                    self.world.conn, worker, 0, self.claimers[worker].permits.held()
                )
            )
        for task_id in self.unknown:
            self.back(task_id, State.QUEUED)
        self.unknown.clear()
        self.claim_for(LIVENESS_SECONDS)
        # Behind its bucket one task after another becomes eligible: those may take their turns.
        waiting = self.waiting() - self.laned
        assert not waiting, f"committed and eligible, but not claimed in time: {waiting}"
        turns = len(self.waiting())
        self.claim_for(turns * 0.3)
        assert not self.waiting(), "a bucket gives every task its turn"

    def waiting(self) -> set[str]:
        return {task_id for task_id, state in self.states.items() if state is State.QUEUED}

    def claim_for(self, seconds: float) -> None:
        """Claim with every slot free, and finish what was claimed from behind a bucket."""
        until = self.clock.now + seconds
        while self.clock.now <= until:
            for worker in sorted(self.claimers):
                while self.claim_as(worker, 100):
                    pass
            for claim in [claim for claim in self.good.values() if claim.bucket is not None]:
                self.do(
                    self.world.store.settler.settle(self.world.conn, [self.world.verdict(claim, Complete())])
                )
                self.end(claim, Move.COMPLETE)
            self.wait(0.1)


@pytest.mark.timeout(300)
@pytest.mark.requirement("T2", "O1", "B8")
@pytest.mark.catches(
    "no-fence", "fence-does-not-grow", "re-entry-below-the-floor",
    "floor-passes-an-open-transaction", "permit-not-returned", "stray-claims-kept", "answer-lost-means-late",
)  # fmt: skip
def test_the_store_does_what_the_model_says(url: str, direct_url: str) -> None:
    class Machine(LivelyMachine):
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
