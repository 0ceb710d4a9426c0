"""The actions of the audit and an audit entry as it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

PRUNE_BATCH = 500


class Action(StrEnum):
    """What was done; the names outlive versions, because people filter and alert by them."""

    TASK_RETRY = "TASK_RETRY"
    TASK_EDIT = "TASK_EDIT"
    TASK_CANCEL = "TASK_CANCEL"
    TASK_PAUSE = "TASK_PAUSE"
    TASK_RESUME = "TASK_RESUME"
    TASK_WAKE = "TASK_WAKE"
    TASK_FORGET = "TASK_FORGET"
    TASK_REVEAL = "TASK_REVEAL"
    TASK_REPAIR = "TASK_REPAIR"
    RETRY_BATCH_ITEM = "TASK_RETRY_BATCH_ITEM"
    RETRY_BATCH_SKIPPED = "TASK_RETRY_BATCH_SKIPPED"
    RETRY_BATCH_SUMMARY = "TASK_RETRY_BATCH_SUMMARY"
    FORGET_BATCH_ITEM = "TASK_FORGET_BATCH_ITEM"
    FORGET_BATCH_SKIPPED = "TASK_FORGET_BATCH_SKIPPED"
    FORGET_BATCH_SUMMARY = "TASK_FORGET_BATCH_SUMMARY"
    PLAN_CREATE = "PLAN_CREATE"
    PLAN_APPROVE = "PLAN_APPROVE"
    PLAN_START = "PLAN_START"
    PLAN_PAUSE = "PLAN_PAUSE"
    PLAN_RESUME = "PLAN_RESUME"
    PLAN_ABORT = "PLAN_ABORT"
    PLAN_STOP = "PLAN_STOP"
    GROUP_IGNORE = "GROUP_IGNORE"
    GROUP_RESOLVE = "GROUP_RESOLVE"
    GROUP_REOPEN = "GROUP_REOPEN"
    GROUP_NOTE = "GROUP_NOTE"
    KIND_PAUSE = "KIND_PAUSE"
    KIND_RESUME = "KIND_RESUME"
    QUEUE_PAUSE = "QUEUE_PAUSE"
    QUEUE_RESUME = "QUEUE_RESUME"
    LIMIT_SET = "LIMIT_SET"
    LIMIT_CLEAR = "LIMIT_CLEAR"
    SCHEDULE_PAUSE = "SCHEDULE_PAUSE"
    SCHEDULE_RESUME = "SCHEDULE_RESUME"
    SCHEDULE_RUN = "SCHEDULE_RUN"
    SCHEDULE_REMOVE = "SCHEDULE_REMOVE"
    TOKEN_CREATE = "TOKEN_CREATE"  # noqa: S105 (the name of an act)
    TOKEN_REVOKE = "TOKEN_REVOKE"  # noqa: S105
    WEBHOOK_CREATE = "WEBHOOK_CREATE"
    WEBHOOK_CHANGE = "WEBHOOK_CHANGE"
    WEBHOOK_ROTATE = "WEBHOOK_ROTATE"
    WEBHOOK_DISABLE = "WEBHOOK_DISABLE"
    WEBHOOK_ENABLE = "WEBHOOK_ENABLE"
    WEBHOOK_REMOVE = "WEBHOOK_REMOVE"
    WEBHOOK_RESEND = "WEBHOOK_RESEND"
    WEBHOOK_REVEAL = "WEBHOOK_REVEAL"
    WEBHOOK_PUBLISH = "WEBHOOK_PUBLISH"
    TASK_ENQUEUE = "TASK_ENQUEUE"
    SESSION_BEGIN = "SESSION_BEGIN"
    SESSION_END = "SESSION_END"
    TOKEN_REFUSED = "TOKEN_REFUSED"  # noqa: S105
    AUDIT_PRUNE_SUMMARY = "TASK_AUDIT_PRUNE_SUMMARY"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is proven to ask: a database login, and the token where the HTTP API says so."""

    login: str
    token: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit; (chunk, place) is its number, for ever. Its end is the proven identity."""

    chunk: int
    place: int
    at: datetime
    action: str
    actor: str
    reason: str
    batch_id: str | None
    task_id: str | None
    kind: str | None
    subject: str | None
    trace_id: str | None
    details: Mapping[str, object] | None
    login: str | None
    token: str | None
    address: str | None

    @property
    def proven(self) -> str:
        """The proven identity in a few words."""
        by, _, name = (self.token or "").partition(":")
        match by, name:
            case "", _:
                known = None
            case "holdfast", _:
                known = f"code {self.token}"
            case "proxy", _:
                known = f"proxy {name}"
            case _:
                known = f"token {self.token}"
        login = self.login and f"login {self.login}"
        return " from ".join(filter(None, (", ".join(filter(None, (known, login))), self.address)))


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Which entries; what is None is not asked for."""

    action: str | None = None
    actor: str | None = None
    subject: str | None = None
    kind: str | None = None
    trace: str | None = None
    batch: str | None = None
    task: str | None = None
