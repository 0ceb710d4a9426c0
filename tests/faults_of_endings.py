"""Faults in what becomes of a task whose process died after its handler had ended."""

from tests.fault import Fault

RUNS = "runtime/runs.py"
CHILD = "runtime/child.py"

ENDINGS = {
    "ended-counts-as-not-started": Fault(
        RUNS,
        "            self._flight.end(run.claim.id, run.claim.fence)\n",
        "            self._flight.clear([run.key])\n",
    ),
    "ended-stays-on-record": Fault(
        "runtime/executor.py",
        "        self._runs.settled({(claim.id, claim.fence) for claim, _ in group})\n",
        "",
    ),
    "all-that-ended-are-suspects": Fault(
        CHILD, "suspect=lost_before, ended=True", "suspect=True, ended=True"
    ),
    "ended-for-ever": Fault(
        CHILD,
        "return WorkerLost(alone=alone, how=self.how, suspect=lost_before, ended=True)",
        "return WorkerLost(alone=False, how=self.how, suspect=lost_before, ended=True)",
    ),
    "ended-accuses-who-runs": Fault(
        CHILD,
        "return WorkerLost(alone=len(self.flights) == 1, how=self.how)",
        "return WorkerLost(alone=sum(not f.ended for f in self.flights.values()) == 1, how=self.how)",
    ),
    "suspects-are-settled-together": Fault(
        RUNS, "            async with self._ending:\n", "            if self._ending:\n"
    ),
    "stopped-called-ended": Fault(
        "runtime/runs.py", "        elif not isinstance(outcome, Released):\n", "        else:\n"
    ),
    "failed-claims-stay-large": Fault(
        "runtime/intake.py", "self._claim_max = max(1, most // 2)", "self._claim_max = most", 1
    ),
    "ended-suspect-pays-for-another": Fault(
        "runtime/child.py", "alone = claim.alone and not self._ran_here", "alone = claim.alone"
    ),
    "own-process-pays-at-once": Fault(
        "runtime/child.py", "alone = lost_before and len(self.flights) == 1", "alone = len(self.flights) == 1"
    ),
    "apart-not-in-flight": Fault(
        RUNS, '        self._flight.start(*run.key, float("inf"), RunMode.OWN_PROCESS)\n', ""
    ),
    "results-dropped-before-the-lease-ends": Fault(
        "runtime/executor.py",
        "        self._runs.abandon()\n        await self._settling.flushed()\n",
        "        self._runs.abandon()\n",
    ),
    "unsettled-goes-back-as-drained": Fault(CHILD, "Release.UNSETTLED if ended else unharmed", "unharmed"),
    "claims-on-while-nothing-is-settled": Fault(
        "runtime/settling.py", "return len(self._waiting) >= UNSETTLED_MAX", "return False"
    ),
}
