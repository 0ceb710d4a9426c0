"""How each kind is judged in one executor: by its handler's options, else by the worker's."""

from dataclasses import replace

from holdfast.core.decide import MAX_ATTEMPTS_DEFAULT, Policy, Verdict, decide
from holdfast.core.handler import Handler, Handlers
from holdfast.core.outcome import Outcome
from holdfast.core.redact import redact, secrets_in
from holdfast.core.task import Claim


class Verdicts:
    """The policies of one executor, each made when it is first needed."""

    def __init__(self, handlers: Handlers, max_attempts: int = MAX_ATTEMPTS_DEFAULT) -> None:
        self._handlers = handlers
        self._max_attempts = max_attempts
        self._policies: dict[str, Policy] = {}

    def of(self, claim: Claim, outcome: Outcome) -> Verdict:
        """What an outcome means for a task; what its kind calls secret goes no further than here."""
        verdict = decide(claim, outcome, self._policy(claim.kind))
        if verdict.failure is None and verdict.reason is None:
            return verdict
        handler = self._handlers.get(claim.kind)
        return verdict if handler is None or not handler.secrets else _without(verdict, claim, handler)

    def told(self) -> dict[str, object]:
        """The same for the supervisor, which must judge for executors that have died."""
        return {
            handler.kind: [
                handler.max_attempts or self._max_attempts,
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
            attempts = self._max_attempts
            policy = self._policies[kind] = handler.policy(attempts) if handler else Policy(attempts)
        return policy


def _without(verdict: Verdict, claim: Claim, handler: Handler) -> Verdict:
    """The verdict without the secrets of the payload."""
    secrets = secrets_in(claim.payload, handler.secrets)
    failure = verdict.failure and verdict.failure.without(secrets)
    reason = verdict.reason and redact(verdict.reason, secrets)
    return replace(verdict, failure=failure, reason=reason)
