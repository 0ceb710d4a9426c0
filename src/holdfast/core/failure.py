"""The failure classes, the error codes, and the rule for each class."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.core.fingerprint import fingerprint, origin_of_message
from holdfast.core.redact import LOOKED_AT, STRUCK, redact


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


_CODES = frozenset(ErrorCode)


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
# A code of the user's own: a name and no text.
_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,99}|[0-9]{1,5}")


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
    # Message and stack as they came, for as long as the secrets of the payload are to be found in them.
    raw: tuple[str, str | None] | None = field(default=None, repr=False, compare=False)

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
            shown_code(code or RULES[failure_class].code),
            kept(message),
            None if stack is None else kept(stack, STACK_CHARACTERS_MAX),
            origin_of_message(message) if origin is None else origin,
            (_beginning(message, MESSAGE_CHARACTERS_MAX), stack and _beginning(stack, STACK_CHARACTERS_MAX)),
        )

    def without(self, secrets: Collection[str] | None) -> "Failure":
        """The same, with these words struck out; without a message and stack where they cannot be known.

        They are struck out of the text as it came: a pattern may have struck out a part of one.
        """
        message, stack = self.raw or (self.message, self.stack)
        return Failure(
            self.failure_class,
            self.code,
            kept(message, MESSAGE_CHARACTERS_MAX, secrets),
            None if stack is None else kept(stack, STACK_CHARACTERS_MAX, secrets),
            self.origin,
        )

    def fingerprint(self, kind: str) -> str:
        """The name of the group of failures of this kind with the same cause."""
        return fingerprint(kind, self.code, self.origin)


def shown_code(code: str) -> str:
    """An error code as it is kept; what is no plain name, or looks like a secret, is struck out whole."""
    if code in _CODES:
        return str(code)
    return code if _CODE.fullmatch(code) and redact(code) == code else STRUCK


def kept(text: str, characters_max: int = MESSAGE_CHARACTERS_MAX, secrets: Iterable[str] | None = ()) -> str:
    """A text from outside as it is kept: without these secrets and what looks like one, and storable."""
    return storable(redact(text, secrets, characters_max), characters_max)


def _beginning(text: str, characters_max: int) -> str:
    """As much of it as is looked at, and one more, by which it is known that there was more."""
    return text[: LOOKED_AT * characters_max + 1]


def storable(text: str, characters_max: int) -> str:
    """The text as PostgreSQL can keep it: no NUL, no lone surrogate, no longer than asked."""
    clean = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(clean) <= characters_max:
        return clean
    return clean[: characters_max - 1] + "…"
