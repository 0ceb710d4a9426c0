"""Chooses the retry policy of each kind: its handler's options, else the worker's."""

from collections.abc import Collection
from dataclasses import replace

from holdfast.core.decide import MAX_ATTEMPTS_DEFAULT, Policy, Verdict, decide
from holdfast.core.failure import kept
from holdfast.core.handler import Handlers
from holdfast.core.outcome import Cancel, Outcome
from holdfast.core.redact import secrets_in
from holdfast.core.task import Claim


class Policies:
    """The policies of one executor, each made when it is first needed."""

    def __init__(self, handlers: Handlers, max_attempts: int = MAX_ATTEMPTS_DEFAULT) -> None:
        self._handlers = handlers
        self._max_attempts = max_attempts
        self._made: dict[str, Policy] = {}

    def judge(self, claim: Claim, outcome: Outcome) -> Verdict:
        """The verdict on an outcome, without the values of the kind's secret fields."""
        verdict = decide(claim, outcome, self._policy(claim.kind))
        if verdict.failure is None and not isinstance(outcome, Cancel):
            return verdict
        handler = self._handlers.get(claim.kind)
        return _without(verdict, claim, outcome, handler.secrets if handler else ())

    def judge_without(self, claim: Claim, outcome: Outcome, fields: Collection[str] | None) -> Verdict:
        """The verdict without the values of these payload fields; None stands for all fields."""
        verdict = decide(claim, outcome, self._policy(claim.kind))
        return _without(verdict, claim, outcome, fields)

    def as_json(self) -> dict[str, object]:
        """The policies as JSON for the supervisor, which judges for executors that have died."""
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
        policy = self._made.get(kind)
        if policy is None:
            handler, attempts = self._handlers.get(kind), self._max_attempts
            policy = self._made[kind] = handler.policy(attempts) if handler else Policy(attempts)
        return policy


def _without(verdict: Verdict, claim: Claim, outcome: Outcome, fields: Collection[str] | None) -> Verdict:
    # Any other reason is a word of ours.
    said = outcome.reason if isinstance(outcome, Cancel) else None
    if (verdict.failure is None and said is None) or (fields is not None and not fields):
        return verdict
    secrets = secrets_in(claim.payload, fields)
    failure = verdict.failure and verdict.failure.without(secrets)
    reason = verdict.reason if said is None else kept(said, secrets=secrets)
    return replace(verdict, failure=failure, reason=reason)
