"""How each kind is judged in one executor: by its handler's options, else by the worker's."""

from holdfast.core.decide import Policy, Verdict, decide
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Outcome
from holdfast.core.task import Claim
from holdfast.runtime.options import WorkerOptions


class Verdicts:
    """The policies of one executor, each made when it is first needed."""

    def __init__(self, handlers: Handlers, options: WorkerOptions) -> None:
        self._handlers = handlers
        self._options = options
        self._policies: dict[str, Policy] = {}

    def of(self, claim: Claim, outcome: Outcome) -> Verdict:
        """What an outcome means for a task."""
        return decide(claim, outcome, self._policy(claim.kind))

    def told(self) -> dict[str, object]:
        """The same for the supervisor, which must judge for executors that have died."""
        return {
            handler.kind: [
                handler.max_attempts or self._options.max_attempts,
                handler.backoff.base_seconds,
                handler.backoff.cap_seconds,
                handler.timeout_seconds,
            ]
            for handler in self._handlers.values()
        }

    def _policy(self, kind: str) -> Policy:
        policy = self._policies.get(kind)
        if policy is None:
            handler = self._handlers.get(kind)
            attempts = self._options.max_attempts
            policy = self._policies[kind] = handler.policy(attempts) if handler else Policy(attempts)
        return policy
