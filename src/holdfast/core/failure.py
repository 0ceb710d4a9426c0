"""The closed set of failure classes, the error codes people know, and what each class leads to."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from holdfast.core.fingerprint import fingerprint, origin_of_message
from holdfast.core.redact import redact


class FailureClass(StrEnum):
    """Why an attempt did not succeed."""

    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    WORKER_LOST = "worker_lost"
    POISON = "poison"
    PERMANENT = "permanent"
    INVALID = "invalid"
    UNROUTABLE = "unroutable"


class ErrorCode(StrEnum):
    """The codes of requirement T6; only TASK_EXECUTION_FAILED is retried."""

    PAYLOAD_MISSING = "TASK_PAYLOAD_MISSING"
    PAYLOAD_INVALID = "TASK_PAYLOAD_INVALID"
    PAYLOAD_UNSUPPORTED = "TASK_PAYLOAD_UNSUPPORTED"
    PRECONDITION_FAILED = "TASK_PRECONDITION_FAILED"
    ENTITY_NOT_FOUND = "TASK_ENTITY_NOT_FOUND"
    EXECUTION_FAILED = "TASK_EXECUTION_FAILED"


class DeadReason(StrEnum):
    """Why a task became a dead letter."""

    NON_RETRYABLE = "non_retryable"
    MAX_ATTEMPTS_EXCEEDED = "max_attempts_exceeded"


class Spends(StrEnum):
    """Which counter a failed attempt is charged to."""

    FAILURES = "failures"
    CRASHES = "crashes"
    RATE_LIMITS = "rate_limits"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the class table."""

    retried: bool
    spends: Spends
    code: ErrorCode
    dead_reason: DeadReason | None


_EXECUTION = ErrorCode.EXECUTION_FAILED
_EXCEEDED = DeadReason.MAX_ATTEMPTS_EXCEEDED
_FINAL = DeadReason.NON_RETRYABLE

RULES: dict[FailureClass, Rule] = {
    FailureClass.TRANSIENT: Rule(True, Spends.FAILURES, _EXECUTION, _EXCEEDED),
    FailureClass.TIMEOUT: Rule(True, Spends.FAILURES, _EXECUTION, _EXCEEDED),
    FailureClass.RATE_LIMITED: Rule(True, Spends.RATE_LIMITS, _EXECUTION, _EXCEEDED),
    FailureClass.WORKER_LOST: Rule(True, Spends.CRASHES, _EXECUTION, None),
    FailureClass.POISON: Rule(False, Spends.CRASHES, _EXECUTION, _FINAL),
    FailureClass.PERMANENT: Rule(False, Spends.FAILURES, _EXECUTION, _FINAL),
    FailureClass.INVALID: Rule(False, Spends.FAILURES, ErrorCode.PAYLOAD_INVALID, _FINAL),
    FailureClass.UNROUTABLE: Rule(False, Spends.NOTHING, ErrorCode.PAYLOAD_UNSUPPORTED, _FINAL),
}

MESSAGE_CHARACTERS_MAX = 2_000
STACK_CHARACTERS_MAX = 16_000


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt, classified, bounded, without secrets and fit to be stored.

    `origin` is what failures of one cause have in common; `core.fingerprint` says how it is found.
    """

    failure_class: FailureClass
    code: str
    message: str
    stack: str | None = None
    origin: str = ""

    @classmethod
    def of(
        cls,
        failure_class: FailureClass,
        message: str,
        *,
        code: str | None = None,
        stack: str | None = None,
        origin: str | None = None,
    ) -> "Failure":
        """A failure of a class, under its usual code unless another is declared."""
        return cls(
            failure_class,
            storable(code or RULES[failure_class].code, MESSAGE_CHARACTERS_MAX),
            storable(redact(message), MESSAGE_CHARACTERS_MAX),
            None if stack is None else storable(redact(stack), STACK_CHARACTERS_MAX),
            origin_of_message(message) if origin is None else origin,
        )

    def without(self, secrets: Iterable[str]) -> "Failure":
        """The same, with these words struck out."""
        stack = None if self.stack is None else redact(self.stack, secrets)
        return replace(self, message=redact(self.message, secrets), stack=stack)

    def fingerprint(self, kind: str) -> str:
        """The name of the group of failures of this kind with the same cause."""
        return fingerprint(kind, self.code, self.origin)


def storable(text: str, characters_max: int) -> str:
    """The text as PostgreSQL can keep it: no NUL, no lone surrogate, no longer than asked."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(clean) <= characters_max:
        return clean
    return clean[: characters_max - 1] + "…"
