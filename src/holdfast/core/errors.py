"""Every exception that Holdfast raises.

    HoldfastError
    ├── KeyConflict       the same key with another payload
    ├── LeaseLost         the worker is no longer the holder
    ├── TaskNotFound      no such task, alive or in history
    ├── MoveRefused       the task's state does not allow the move
    ├── PayloadTooLarge   a payload past the limit
    └── SchemaError       the database is not at the version that this package needs

A message names the thing and its state, and says what to do.
"""

from collections.abc import Iterable

from holdfast.core.state import Move, State, sources


class HoldfastError(Exception):
    """The root of the tree."""


class KeyConflict(HoldfastError):
    """The key was used before, with another payload."""


class LeaseLost(HoldfastError):
    """The worker lost its lease: whatever it held may run elsewhere."""

    def __init__(self, worker: str) -> None:
        super().__init__(f"worker {worker} has lost its lease: stop its handlers, then register a new worker")


class TaskNotFound(HoldfastError):
    """No task has this id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id} does not exist, or its retention is over")


class MoveRefused(HoldfastError):
    """The move is not allowed from the state in which the task stands."""

    def __init__(self, task_id: str, state: State, move: Move) -> None:
        allowed = _either(sorted(sources(move)))
        super().__init__(f"task {task_id} is {state}: only a {allowed} task can {move}")
        self.state = state


class PayloadTooLarge(HoldfastError):
    """The payload is larger than the limit."""

    def __init__(self, kind: str, size: int, limit: int) -> None:
        super().__init__(
            f"the payload of a {kind} task has {size} bytes, the limit is {limit}: "
            "store the content elsewhere and enqueue a reference to it"
        )


class SchemaError(HoldfastError):
    """The database's schema is not the one that this package needs."""


def _either(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
