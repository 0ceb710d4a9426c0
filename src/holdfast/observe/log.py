"""Events as JSON lines, one for each transition of a task, under the names of requirement T5.

    {"at": "…", "event": "task.completed", "task": "0190…", "kind": "mail.send", "queue": "default", …}

A group of events is one write. Lines are put together by hand: measured, a task's two lines cost about
two microseconds this way and ten with `json.dumps` of a dict each.

A file takes every write at once. A pipe or a terminal may not: whoever reads it could stop, and with it
the renewal of a lease. So there a thread writes, and what it cannot write in time is dropped and counted.
"""

import json
import os
import queue
import stat
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as quoted

from holdfast.core.decide import Verdict
from holdfast.core.events import (
    DatabaseFound,
    DatabaseLost,
    Event,
    ExecutorEnded,
    ExecutorStarted,
    FailedAfterFinish,
    FollowupsReleased,
    HandlersOverdue,
    KindGateChanged,
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
    StatementFailed,
    TasksClaimed,
    TasksEnqueued,
    TasksMoved,
    TasksParked,
    TasksSettled,
    TasksWoken,
    WorkerLeaving,
    WorkersLost,
)
from holdfast.core.state import Move
from holdfast.core.task import Claim

GROUPS_MAX = 2_000
CHARACTERS_MAX = 32_000_000
# What a pipe takes at once is 4,096 bytes: fewer characters, because some take more than one.
PIECE_CHARACTERS = 3_500

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
    ResultRejected: ("task.result_rejected",),
    FailedAfterFinish: ("task.failed_after_finish",),
    TasksMoved: ("task.moved", "task.failed"),
    TasksParked: ("task.stepped_aside",),
    TasksWoken: ("task.woken",),
    SchedulesDeclared: ("schedule.declared",),
    SchedulesFired: ("schedule.fired",),
    ScheduleFailed: ("schedule.failed",),
    FollowupsReleased: ("task.released",),
    KindGateChanged: ("kind.gate_changed",),
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
    StatementFailed: ("database.statement_failed",),
}


class LogLines:
    """A listener that writes to a descriptor, standard output unless told otherwise."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self._dropped = 0
        self._put_characters = self._written_characters = 0
        self._waiting: queue.Queue[str] | None = None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            self._waiting = queue.Queue(GROUPS_MAX)
            threading.Thread(target=self._write_on, daemon=True, name="holdfast log").start()

    def __call__(self, event: Event, /) -> None:
        """Write the lines of one event, or leave them to the thread."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        text = "".join(_lines(f'{{"at": "{at}", "event": ', event))
        if self._waiting is None:
            self._write(text)
            return
        if self._put_characters - self._written_characters > CHARACTERS_MAX:
            self._dropped += text.count("\n")
            return
        try:
            self._waiting.put_nowait(text)
            self._put_characters += len(text)
        except queue.Full:
            self._dropped += text.count("\n")

    def flush(self, seconds: float = 1.0) -> None:
        """Give the thread so long to write what is left."""
        until = time.monotonic() + seconds
        while self._waiting is not None and self._waiting.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)

    def _write_on(self) -> None:
        assert self._waiting is not None, "there is a queue where there is a thread"
        while True:
            text = self._waiting.get()
            for piece in _pieces(text):
                self._write(piece)
            self._written_characters += len(text)
            self._waiting.task_done()
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                at = datetime.now(UTC).isoformat(timespec="milliseconds")
                self._write(f'{{"at": "{at}", "event": "log.dropped", "lines": {dropped}}}\n')

    def _write(self, text: str) -> None:
        data = text.encode()
        # Whoever read this may have gone, or the disk be full: that is no reason to stop working.
        with suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


def _pieces(text: str) -> Iterator[str]:
    """Whole lines, in pieces that a pipe takes at once: other processes write to the same one."""
    begin = 0
    while begin < len(text):
        end = len(text)
        if end - begin > PIECE_CHARACTERS:
            end = text.rfind("\n", begin, begin + PIECE_CHARACTERS) + 1 or text.find("\n", begin) + 1 or end
        yield text[begin:end]
        begin = end


def _lines(head: str, event: Event) -> Iterable[str]:
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
        case TasksEnqueued():
            # Told inside the caller's transaction, which may still roll back: no transition yet.
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
        case TasksParked(tasks):
            return "task.stepped_aside", {"tasks": tasks}
        case FollowupsReleased(ids):
            return "task.released", {"tasks": list(ids)}
        case SchedulesDeclared(names):
            return "schedule.declared", {"schedules": list(names)}
        case SchedulesFired(names, tasks):
            return "schedule.fired", {"schedules": list(names), "tasks": tasks}
        case ScheduleFailed(name, reason):
            return "schedule.failed", {"schedule": name, "reason": reason}
        case TasksWoken(ids, by):
            return "task.woken", {"tasks": list(ids), "by": by}
        case KindGateChanged(kind, gate, by, reason):
            return "kind.gate_changed", {"kind": kind, "gate": gate, "by": by, "reason": reason}
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
        case DatabaseLost(message):
            return "database.lost", {"message": message}
        case DatabaseFound():
            return "database.found", {}
        case StatementFailed(doing, message):
            return "database.statement_failed", {"doing": doing, "message": message}
        case TasksEnqueued() | TasksClaimed() | TasksSettled() | LateResultsRefused():
            raise AssertionError("it has lines of its own")
