"""Events about plans, groups and the audit, as values for the listeners."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """A plan began, was paused, went on, stopped or ended."""

    plan: str
    state: str
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class TasksForgotten:
    """Dead letters were let go for good."""

    ids: Sequence[str]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class TasksRepaired:
    """Tasks whose row in ready, blocked or running was missing or wrong were put right."""

    ids: Sequence[str]
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class GroupRegressed:
    """A cause that somebody called resolved was met again."""

    fingerprint: str


@dataclass(frozen=True, slots=True)
class AuditSealed:
    """Entries were added to the chain; whoever keeps the head can tell later whether it was made anew."""

    chunks: int
    number: int
    hash: str


@dataclass(frozen=True, slots=True)
class AuditPruned:
    """The content of old entries was let go."""

    entries: int
    by: str


Operated: TypeAlias = (
    PlanChanged | TasksForgotten | TasksRepaired | GroupRegressed | AuditSealed | AuditPruned
)
