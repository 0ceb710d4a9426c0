"""Defines the fields of each event's log line.

Lines are put together by hand: measured, a task's two lines cost about two microseconds this way and ten
with `json.dumps` of a dict each.
"""

import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii as quoted

from holdfast.core.decide import Verdict
from holdfast.core.events import (
    ClockStepped,
    CountsReported,
    DatabaseFound,
    DatabaseLocked,
    DatabaseLost,
    DatabaseUnlocked,
    Event,
    ExecutorEnded,
    ExecutorStarted,
    FailedAfterFinish,
    FollowupsReleased,
    HandlersOverdue,
    KindStatusChanged,
    KindsUnknown,
    LateResultsRefused,
    LeaseAtRisk,
    LimitChanged,
    OwnerNeeded,
    PartitionMissing,
    PartitionsChanged,
    ResultRejected,
    ScheduleFailed,
    SchedulesDeclared,
    SchedulesFired,
    StatementDelayed,
    StatementFailed,
    TasksBlocked,
    TasksClaimed,
    TasksEnqueued,
    TasksMissing,
    TasksMoved,
    TasksSettled,
    TasksWoken,
    WorkerLeaving,
    WorkersLost,
)
from holdfast.core.failure import kept
from holdfast.core.operator_events import (
    AuditPruned,
    AuditSealed,
    GroupRegressed,
    Operated,
    PlanChanged,
    TasksForgotten,
    TasksRepaired,
)
from holdfast.core.state import Move
from holdfast.core.task import Claim

# What a verdict is called; whatever goes back to the queue is requeued, and the line says why.
_ENDED = {
    Move.COMPLETE: "task.completed",
    Move.FAIL: "task.failed",
    Move.CANCEL: "task.cancelled",
    Move.RETRY: "task.requeued",
    Move.SNOOZE: "task.requeued",
    Move.RELEASE: "task.requeued",
    Move.RECLAIM: "task.requeued",
}


# Every event that makes lines, and what they are called; the reference is made from it.
EVENT_NAMES: dict[type, tuple[str, ...]] = {
    TasksClaimed: ("task.claimed",),
    TasksSettled: ("task.completed", "task.requeued", "task.failed", "task.cancelled"),
    LateResultsRefused: ("task.late_result_refused",),
    TasksMissing: ("task.missing",),
    ResultRejected: ("task.result_rejected",),
    FailedAfterFinish: ("task.failed_after_finish",),
    TasksMoved: ("task.moved", "task.failed"),
    TasksBlocked: ("task.stepped_aside",),
    TasksWoken: ("task.woken",),
    SchedulesDeclared: ("schedule.declared",),
    SchedulesFired: ("schedule.fired",),
    ScheduleFailed: ("schedule.failed",),
    ClockStepped: ("clock.stepped",),
    FollowupsReleased: ("task.released",),
    KindStatusChanged: ("kind.status_changed",),
    LimitChanged: ("limit.changed", "limit.cleared"),
    KindsUnknown: ("kind.unknown",),
    WorkersLost: ("worker.lost",),
    WorkerLeaving: ("worker.leaving",),
    LeaseAtRisk: ("worker.lease_lost", "worker.lease_at_risk"),
    HandlersOverdue: ("executor.overdue",),
    ExecutorStarted: ("executor.started",),
    ExecutorEnded: ("executor.ended",),
    PartitionsChanged: ("partitions.changed",),
    PartitionMissing: ("partitions.missing",),
    OwnerNeeded: ("upkeep.owner_needed",),
    DatabaseLost: ("database.lost",),
    DatabaseFound: ("database.found",),
    DatabaseLocked: ("database.locked",),
    DatabaseUnlocked: ("database.unlocked",),
    StatementFailed: ("database.statement_failed",),
    PlanChanged: ("plan.changed",),
    TasksForgotten: ("task.forgotten",),
    TasksRepaired: ("task.repaired",),
    GroupRegressed: ("group.regressed",),
    AuditSealed: ("audit.sealed",),
    AuditPruned: ("audit.pruned",),
}


def lines(head: str, event: Event) -> Iterable[str]:
    """The lines of one event; `head` is what they have in common."""
    match event:
        case TasksClaimed(worker, claims):
            head = f'{head}"task.claimed", "worker": "{worker}"'
            return [
                f'{head}, "task": "{c.id}", "kind": {quoted(c.kind)}, "queue": {quoted(c.queue)}, '
                f'"fence": {c.fence}, "attempt": {c.attempts + 1}{_trace(c)}}}\n'
                for c in claims
            ]
        case TasksSettled(settled):
            return [_settled(head, claim, verdict) for claim, verdict in settled]
        case LateResultsRefused(refused):
            return [
                f'{head}"task.late_result_refused", "worker": "{c.worker}", "task": "{c.id}", '
                f'"kind": {quoted(c.kind)}, "fence": {c.fence}, "move": "{v.move}"{_trace(c)}}}\n'
                for c, v in refused
            ]
        case TasksMoved(Move.UNROUTE, ids, by, reason):
            rest = f', "by": {quoted(by)}, "reason": {quoted(reason)}, "failure_class": "unroutable"}}\n'
            return [f'{head}"task.failed", "task": "{id_}"{rest}' for id_ in ids]
        case TasksEnqueued() | CountsReported() | StatementDelayed():
            # An enqueue is told inside a transaction that may still roll back. Counts have no line, and a
            # delayed statement has one when it is known why it is delayed.
            return []
        case _:
            return [head + _rest(event) + "}\n"]


def _settled(head: str, claim: Claim, verdict: Verdict) -> str:
    line = (
        f'{head}"{_ENDED[verdict.move]}", "worker": "{claim.worker}", "task": "{claim.id}", '
        f'"kind": {quoted(claim.kind)}, "queue": {quoted(claim.queue)}, "fence": {claim.fence}{_trace(claim)}'
    )
    if verdict.move is Move.COMPLETE:
        return line + "}\n"
    more: dict[str, object] = {"move": verdict.move}
    if verdict.after_seconds is not None:
        more["after_seconds"] = round(verdict.after_seconds, 3)
    if verdict.reason:
        more["reason"] = verdict.reason
    if verdict.dead_reason:
        more["dead_reason"] = verdict.dead_reason
    if verdict.failure:
        more |= {
            "failure_class": verdict.failure.failure_class,
            "error_code": verdict.failure.code,
            "error": verdict.failure.message,
        }
    return f"{line}, {json.dumps(more)[1:]}\n"


def _trace(claim: Claim) -> str:
    return f', "trace_id": {quoted(claim.trace_id)}' if claim.trace_id is not None else ""


def _rest(event: Event) -> str:
    """The name and the values of an event that is not about claims."""
    name, values = _named(event)
    return f'"{name}"' + "".join(f', "{key}": {json.dumps(value)}' for key, value in values.items())


def _named(event: Event) -> tuple[str, dict[str, object]]:  # noqa: C901 (a table, in words)
    match event:
        case ResultRejected(claim, message):
            return "task.result_rejected", {"task": claim.id, "kind": claim.kind, "error": message}
        case FailedAfterFinish(claim, message):
            return "task.failed_after_finish", {"task": claim.id, "kind": claim.kind, "error": message}
        case TasksMoved(move, ids, by, reason):
            return "task.moved", {"move": move, "tasks": list(ids), "by": by, "reason": reason}
        case TasksMissing(ids):
            return "task.missing", {"tasks": list(ids)}
        case TasksBlocked(tasks):
            return "task.stepped_aside", {"tasks": tasks}
        case FollowupsReleased(ids):
            return "task.released", {"tasks": list(ids)}
        case SchedulesDeclared(names):
            return "schedule.declared", {"schedules": list(names)}
        case SchedulesFired(names, tasks):
            return "schedule.fired", {"schedules": list(names), "tasks": tasks}
        case ScheduleFailed(name, reason):
            return "schedule.failed", {"schedule": name, "reason": kept(reason)}
        case ClockStepped(seconds):
            return "clock.stepped", {"seconds": seconds}
        case TasksWoken(ids, by):
            return "task.woken", {"tasks": list(ids), "by": by}
        case KindStatusChanged(kind, status, by, reason):
            return "kind.status_changed", {"kind": kind, "status": status, "by": by, "reason": reason}
        case LimitChanged(name, by, cleared):
            return "limit.cleared" if cleared else "limit.changed", {"limit": name, "by": by}
        case KindsUnknown(worker, kinds):
            return "kind.unknown", {"worker": worker, "kinds": list(kinds)}
        case WorkersLost(workers):
            return "worker.lost", {"workers": list(workers)}
        case WorkerLeaving(worker, at_once):
            return "worker.leaving", {"name": worker, "at_once": at_once}
        case LeaseAtRisk(worker, lost):
            return "worker.lease_lost" if lost else "worker.lease_at_risk", {"worker": worker}
        case HandlersOverdue(worker, tasks):
            return "executor.overdue", {"worker": worker, "tasks": list(tasks)}
        case ExecutorStarted(worker, pid, name):
            return "executor.started", {"worker": worker, "pid": pid, "name": name}
        case ExecutorEnded(worker, pid, status, leaving):
            return "executor.ended", {"worker": worker, "pid": pid, "status": status, "leaving": leaving}
        case PartitionsChanged(created, dropped):
            return "partitions.changed", {"created": list(created), "dropped": list(dropped)}
        case PartitionMissing(table):
            return "partitions.missing", {"table": table}
        case OwnerNeeded(message):
            return "upkeep.owner_needed", {"message": message}
        case DatabaseLost() | DatabaseFound() | DatabaseLocked() | DatabaseUnlocked() | StatementFailed():
            return _of_the_database(event)
        case (
            PlanChanged()
            | TasksForgotten()
            | TasksRepaired()
            | GroupRegressed()
            | AuditSealed()
            | AuditPruned()
        ):
            return _operated(event)
        case TasksEnqueued() | TasksClaimed() | TasksSettled() | LateResultsRefused():
            raise AssertionError("it has lines of its own")
        case CountsReported() | StatementDelayed():
            raise AssertionError("it has no line")


def _of_the_database(
    event: DatabaseLost | DatabaseFound | DatabaseLocked | DatabaseUnlocked | StatementFailed,
) -> tuple[str, dict[str, object]]:
    match event:
        case DatabaseLost(message):
            return "database.lost", {"message": kept(message)}
        case DatabaseFound():
            return "database.found", {}
        case DatabaseLocked(locked, pid, application, user, state, seconds, waits_for, waiting):
            return "database.locked", {
                "locked": list(locked),
                "pid": pid,
                "application": application,
                "user": user,
                "state": state,
                "transaction_seconds": seconds,
                "waits_for": list(waits_for),
                "waiting": list(waiting),
            }
        case DatabaseUnlocked(locked, pid, seconds):
            return "database.unlocked", {"locked": list(locked), "pid": pid, "seconds": seconds}
        case StatementFailed(doing, message):
            # It may quote the row that was refused.
            return "database.statement_failed", {"doing": doing, "message": kept(message)}


def _operated(event: Operated) -> tuple[str, dict[str, object]]:
    match event:
        case PlanChanged(plan, state, by, why):
            return "plan.changed", {"plan": plan, "state": state, "by": by, "why": why}
        case TasksForgotten(ids, by, reason):
            return "task.forgotten", {"tasks": list(ids), "by": by, "reason": reason}
        case TasksRepaired(ids, by, reason):
            return "task.repaired", {"tasks": list(ids), "by": by, "reason": reason}
        case GroupRegressed(fingerprint):
            return "group.regressed", {"fingerprint": fingerprint}
        case AuditSealed(chunks, number, head):
            return "audit.sealed", {"chunks": chunks, "number": number, "hash": head}
        case AuditPruned(entries, by):
            return "audit.pruned", {"entries": entries, "by": by}
