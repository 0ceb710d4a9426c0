"""Every exception that Holdfast raises.

    HoldfastError
    ├── KeyConflict       the same key with another payload
    ├── TaskNotFound      no such task, alive or in history
    ├── ScheduleNotFound  no schedule of this name
    ├── PlanNotFound      no plan has this id
    ├── PlanRefused       the plan's state does not allow it
    ├── GroupNotFound     no group has this fingerprint
    ├── TokenNotFound     no token has this id, or it was revoked
    ├── OutOfScope        a token of workers does not reach that queue or kind
    ├── TokenNameTaken    a token that is not revoked has this name
    ├── PruneTooRecent    a prune of the audit asks for entries below the minimum age
    ├── WorkerNotFound    no outside worker of this token has a lease under this id
    ├── EndpointNotFound  no endpoint of webhooks has this id
    ├── NotOurs           a webhook that was received is not what it says: its signature or its time is wrong
    ├── MoveRefused       the task's state does not allow the move
    ├── TaskContended     others change the task at the same moments: nothing was done
    ├── TaskStranded      the task's row in ready, blocked or running does not match its row in tasks
    ├── PayloadTooLarge   a payload past the limit
    ├── JsonUnreadable    a stored payload or result that is too large, too deep or no JSON
    ├── AppNotFound       the path of the command line leads to no app
    ├── Misused           the call itself is wrong: the message says how it is meant
    │   ├── NotAConnection    what was passed as `conn` is no connection, or of the other sort
    │   ├── BadHandler        a function that cannot handle tasks, or a kind that has a handler already
    │   ├── BadPayload        not what the kind takes, or not to be written as JSON
    │   └── NotInAWorker      a task that no worker runs cannot be finished
    ├── VersionUnknown    a payload of a version that its handler cannot read
    ├── LeaseLost         the task was given to someone else: nothing of this one was written
    ├── TaskNotDone       a result was waited for
    │   ├── TaskFailed        and the task has failed
    │   ├── TaskCancelled     and the task was cancelled
    │   └── ResultTimeout     and did not come in time
    ├── DatabaseAway      the database could not be reached
    ├── NotAllowed        the database role lacks the required privilege
    └── SchemaError       the database's schema, encoding or isolation is not what this package needs

A message names the thing and its state, and says what to do.
"""

from collections.abc import Iterable, Mapping

from holdfast.core.state import Move, State, sources


class HoldfastError(Exception):
    """The root of the tree."""


class KeyConflict(HoldfastError):
    """The key was used before, with another payload."""


class TaskNotFound(HoldfastError):
    """No task has this id."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id} does not exist, or its retention is over")


class EndpointNotFound(HoldfastError):
    """No endpoint has this id."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"there is no endpoint {endpoint}: `holdfast webhook list` shows those that are")


class NotOurs(HoldfastError):
    """A request that is not what it says: its signature, its time or its headers are wrong."""


class ScheduleNotFound(HoldfastError):
    """No schedule has this name."""

    def __init__(self, name: str, known: str) -> None:
        there = f"there are {known}" if known else "there are none"
        super().__init__(f"there is no schedule {name}: {there}")


class TokenNotFound(HoldfastError):
    """No token has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(f"there is no token {token_id} that could be revoked")


class OutOfScope(HoldfastError):
    """A token of workers does not reach this queue or kind."""

    def __init__(self, what: str, name: str, allowed: Iterable[str]) -> None:
        super().__init__(f"this token is not for the {what} {name}: it is for {', '.join(allowed) or 'none'}")


class WorkerNotFound(HoldfastError):
    """No outside worker of this token has a lease under this id."""

    def __init__(self, worker: str) -> None:
        super().__init__(
            f"worker {worker} has no lease here: it ended, or another token entered it; "
            "drop what it held and enter again with POST /api/workers"
        )


class PlanNotFound(HoldfastError):
    """No plan has this id."""

    def __init__(self, plan_id: str) -> None:
        super().__init__(f"plan {plan_id} does not exist")


class PlanRefused(HoldfastError):
    """The plan is not in a state that allows it."""

    def __init__(self, plan_id: str, state: str, why: str) -> None:
        super().__init__(f"plan {plan_id} is {state}: {why}")
        self.state = state


class PruneTooRecent(HoldfastError):
    """A prune of the audit asks for entries below the minimum age."""


class TokenNameTaken(HoldfastError):
    """A token that is not revoked has this name."""

    def __init__(self, name: str, token_id: str) -> None:
        super().__init__(
            f"token {token_id} is named {name} and is not revoked: choose another name, "
            f"or revoke it with `holdfast token revoke {token_id}`"
        )


class GroupNotFound(HoldfastError):
    """No group of failures has this fingerprint."""

    def __init__(self, fingerprint: str) -> None:
        super().__init__(f"there is no group {fingerprint}: `holdfast group list` shows them")


_DONE = {
    Move.REQUEST_CANCEL: "cancelled",
    Move.PAUSE: "paused",
    Move.RESUME: "resumed",
    Move.REDRIVE: "retried",
}


class MoveRefused(HoldfastError):
    """The move is not allowed from the state in which the task stands."""

    def __init__(self, task_id: str, state: State, move: Move) -> None:
        allowed = _either(sorted(sources(move)))
        done = _DONE.get(move, str(move))
        super().__init__(f"task {task_id} is {state}: only a {allowed} task can be {done}")
        self.state = state


class TaskContended(HoldfastError):
    """Somebody else changes the task whenever it is looked at."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task {task_id} was changed by others each time: nothing was done, try again")


class TaskStranded(HoldfastError):
    """The task's row in ready, blocked or running does not match tasks, because of a write from outside."""


class PayloadTooLarge(HoldfastError):
    """The payload is larger than the limit."""

    @classmethod
    def of(cls, kind: str, size: int, limit: int) -> "PayloadTooLarge":
        """The error that names the task's kind, and how large its payload is."""
        return cls(
            f"the payload of a {kind} task has {size} bytes, the limit is {limit}: "
            "store the content elsewhere and enqueue a reference to it"
        )


class JsonUnreadable(HoldfastError):
    """A stored payload or result that cannot be read: the message says why."""


class AppNotFound(HoldfastError):
    """There is no app at the path that was given."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"no app at {path}: {why}")
        self.why = why


class Misused(HoldfastError, TypeError):
    """The call is wrong, whatever the state of things."""


class NotAConnection(Misused):
    """What was passed as a connection cannot be used as one."""

    def __init__(self, given: object, advice: str) -> None:
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        super().__init__(f"a {kind} cannot be used as conn here: {advice}")


class BadHandler(Misused):
    """A function that cannot handle tasks, or a kind that has a handler already."""


class BadPayload(Misused, ValueError):
    """The payload is not what the kind takes, or cannot be written as JSON."""


class NotInAWorker(Misused):
    """Only a task that a worker runs can be finished."""


class VersionUnknown(HoldfastError):
    """The payload was written by a version of the kind that its handler cannot read."""

    def __init__(self, kind: str, version: int, known: int) -> None:
        super().__init__(
            f"the payload of a {kind} task has version {version}, and this worker reads {known}: "
            "deploy the newer worker, or give the kind an upgrade from that version"
        )


class LeaseLost(HoldfastError):
    """The task was given to someone else meanwhile."""

    def __init__(self, task_id: str, fence: int) -> None:
        super().__init__(
            f"task {task_id} is no longer held under fence {fence}: it was taken back, so this transaction "
            "was rolled back; let the handler end"
        )


class TaskNotDone(HoldfastError):
    """A result was waited for, and there is none."""

    def __init__(self, task_id: str, message: str) -> None:
        super().__init__(f"task {task_id} {message}")
        self.task_id = task_id


class TaskFailed(TaskNotDone):
    """The task has failed; an operator may redrive it."""


class TaskCancelled(TaskNotDone):
    """The task was cancelled."""


class ResultTimeout(TaskNotDone, TimeoutError):
    """The task has not ended in the time given; it goes on."""


class DatabaseAway(HoldfastError):
    """The database could not be reached."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"the database at {url} cannot be reached: {why}; "
            "is HOLDFAST_DATABASE_URL right, and is the server up?"
        )


class NotAllowed(HoldfastError):
    """The database role lacks the required privilege."""

    def __init__(self, login: str, database: str, why: str) -> None:
        super().__init__(
            f"the database login {login} may not do this in {database}: {why}. Commands need a member of "
            "holdfast_operator, the API of holdfast_api, workers of holdfast_worker, and `holdfast migrate` "
            "the owner of the schema"
        )


class SchemaError(HoldfastError):
    """The database's schema, encoding or isolation is not what this package needs."""


# What the functions in the database raise: the SQLSTATE, Python's exception for it, and when.
SQLSTATES: Mapping[str, tuple[type[HoldfastError], str]] = {
    "HF001": (KeyConflict, "The key was used before, with another payload."),
    "HF002": (Misused, "A task that another one is to come after does not exist."),
    "HF003": (PayloadTooLarge, "The payload is larger than the limit."),
    "HF004": (BadPayload, "The payload is nested too deep."),
    "HF005": (Misused, "The kind, queue, bucket, subject, trace id or key is empty, too long or taken."),
    "HF006": (SchemaError, "A worker's statement runs in a transaction that is not read committed."),
    "HF007": (TaskStranded, "The key stands for a task whose row is missing or wrong."),
    "HF008": (Misused, "An entry of the audit is too large, nested too deep, or of a reserved action."),
    "HF009": (PruneTooRecent, "A prune of the audit asks for entries below the minimum age."),
}


def _either(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
