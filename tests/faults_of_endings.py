"""Faults in what becomes of a task whose process died after its handler had ended."""

from tests.fault import Fault

ENDINGS = {
    "ended-counts-as-not-started": Fault(
        "Runs._end",
        "            self._flight.end(run.claim.id, run.claim.fence)\n",
        "            self._flight.clear([run.key])\n",
    ),
    "ended-stays-on-record": Fault(
        "Executor._written",
        "        self._runs.settled({(claim.id, claim.fence) for claim, _ in group})\n",
        "",
    ),
    "all-that-ended-are-suspects": Fault(
        "Blame.outcome_of", "suspect=lost_before, ended=True", "suspect=True, ended=True"
    ),
    "ended-for-ever": Fault(
        "Blame.outcome_of",
        "return WorkerLost(sole=sole, how=self.how, suspect=lost_before, ended=True)",
        "return WorkerLost(sole=False, how=self.how, suspect=lost_before, ended=True)",
    ),
    "ended-accuses-who-runs": Fault(
        "Blame.outcome_of",
        "return WorkerLost(sole=len(self.flights) == 1, how=self.how)",
        "return WorkerLost(sole=sum(not f.ended for f in self.flights.values()) == 1, how=self.how)",
    ),
    "suspects-are-settled-together": Fault(
        "Runs._run_suspect", "            async with self._ending:\n", "            if self._ending:\n"
    ),
    "stopped-called-ended": Fault(
        "Runs._end", "        elif not isinstance(outcome, Released):\n", "        else:\n"
    ),
    "failed-claims-stay-large": Fault(
        "Claiming.claim", "self._claim_max = max(1, most // 2)", "self._claim_max = most", 1
    ),
    "ended-suspect-pays-for-another": Fault(
        "Blame.outcome_of", "sole = claim.isolate and not self._ran_here", "sole = claim.isolate"
    ),
    "own-process-pays-at-once": Fault(
        "Blame.outcome_of", "sole = lost_before and len(self.flights) == 1", "sole = len(self.flights) == 1"
    ),
    "apart-not-in-flight": Fault(
        "Runs._apart", '        self._flight.start(*run.key, float("inf"), RunMode.OWN_PROCESS)\n', ""
    ),
    "results-dropped-before-the-lease-ends": Fault(
        "Executor._stop",
        "        self._runs.abandon()\n        await self._settling.flushed()\n",
        "        self._runs.abandon()\n",
    ),
    "unsettled-goes-back-as-drained": Fault(
        "Blame.outcome_of", "Release.UNSETTLED if ended else unharmed", "unharmed"
    ),
    "claims-on-while-nothing-is-settled": Fault(
        "Settling.full", "return len(self._waiting) >= UNSETTLED_MAX", "return False"
    ),
}
