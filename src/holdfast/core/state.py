"""The states of a task and the one table of moves between them; the `.sql` files of `store/` write them.

             claim                 complete
    queued ─────────▶ running ─────────────────▶ completed
      ▲ ▲               │ │  fail, reclaim (poison)
      │ └───────────────┘ └────────────────────▶ failed ──┐  (also from queued: unroute)
      │  retry, snooze, release, reclaim                  │ redrive
      │                                                   │
      ├── pause ──▶ paused ── resume ──┐   cancelled ◀─ cancel, expire
      ▲                                │         │ redrive
      └────────────────────────────────┴─────────┘

A queued task whose time is ahead is shown to people as `scheduled`; that is not a state of its own.
"""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a task stands in its life."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Move(StrEnum):
    """What can happen to a task."""

    CLAIM = "claim"
    COMPLETE = "complete"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    RECLAIM = "reclaim"
    FAIL = "fail"
    CANCEL = "cancel"
    REQUEST_CANCEL = "request_cancel"
    EXPIRE = "expire"
    PAUSE = "pause"
    RESUME = "resume"
    PARK = "park"
    UNROUTE = "unroute"
    REDRIVE = "redrive"


TRANSITIONS: Mapping[tuple[State, Move], State] = {
    (State.QUEUED, Move.CLAIM): State.RUNNING,
    (State.RUNNING, Move.COMPLETE): State.COMPLETED,
    (State.RUNNING, Move.RETRY): State.QUEUED,
    (State.RUNNING, Move.SNOOZE): State.QUEUED,
    (State.RUNNING, Move.RELEASE): State.QUEUED,
    (State.RUNNING, Move.RECLAIM): State.QUEUED,
    (State.RUNNING, Move.FAIL): State.FAILED,
    (State.RUNNING, Move.CANCEL): State.CANCELLED,
    (State.RUNNING, Move.REQUEST_CANCEL): State.RUNNING,
    (State.QUEUED, Move.REQUEST_CANCEL): State.CANCELLED,
    (State.PAUSED, Move.REQUEST_CANCEL): State.CANCELLED,
    (State.QUEUED, Move.EXPIRE): State.CANCELLED,
    (State.PAUSED, Move.EXPIRE): State.CANCELLED,
    (State.QUEUED, Move.PAUSE): State.PAUSED,
    (State.PAUSED, Move.RESUME): State.QUEUED,
    (State.QUEUED, Move.PARK): State.QUEUED,
    (State.QUEUED, Move.UNROUTE): State.FAILED,
    (State.FAILED, Move.REDRIVE): State.QUEUED,
    (State.CANCELLED, Move.REDRIVE): State.QUEUED,
}


def after(state: State, move: Move) -> State | None:
    """The state that a move leads to, or None where the move is refused."""
    return TRANSITIONS.get((state, move))


def sources(move: Move) -> frozenset[State]:
    """The states from which a move is allowed."""
    return frozenset(state for state, allowed in TRANSITIONS if allowed is move)
