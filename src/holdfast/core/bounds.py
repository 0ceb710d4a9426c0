"""Checks the names, payload size and payload depth of a new task.

The same bounds hold for whoever enqueues from SQL, in the same words: `store/bounds.sql`.
"""

import json
import re
from datetime import UTC, datetime, timedelta

from holdfast.core.errors import BadPayload, Misused, PayloadTooLarge
from holdfast.core.stored_json import DEPTH_MAX
from holdfast.core.task import RESERVED_QUEUE, NewTask

# Arrays and objects inside one another.
PAYLOAD_DEPTH_MAX = DEPTH_MAX
NAME_CHARACTERS_MAX = 200
PREDECESSORS_MAX = 10_000
# Of a bucket, subject, trace id and key: PostgreSQL refuses an index entry of more than 2,704 bytes.
LABEL_BYTES_MAX = 1_000
# A kind of such a name would stand behind a bucket of another meaning.
BUCKET_PREFIXES = ("after:", "lane:", "lane!:")
# Of times that callers choose.
AHEAD_DAYS_MAX, PAST_DAYS_MAX = 3_653, 36_525
OWN_KINDS = "holdfast."
# Kinds that only Holdfast itself enqueues. Producers reach them through the checked function of a feature.
RESERVED_KINDS = (OWN_KINDS, "webhook.")
# Names of limits of kinds and queues, of follow-ups, of lanes without a name, and of the limit of every key.
_TAKEN_BUCKET = re.compile(r"(?:after|kind|queue):.*|lane!?:|(?!lane!?:)[^=]*=\*?|", re.DOTALL)


def check_moment(what: str, at: datetime) -> None:
    """Refuse a time that nobody means: the database keeps years that Python cannot read."""
    if at.tzinfo is None:
        raise Misused(f"{what} needs its offset: 2026-11-16T03:00:00Z")
    now = datetime.now(UTC)
    if not now - timedelta(days=PAST_DAYS_MAX) <= at <= now + timedelta(days=AHEAD_DAYS_MAX):
        raise Misused(f"{what} is {at.isoformat()}: it is at most 10 years ahead, and 100 years ago")


def check_task(task: NewTask, payload_bytes_max: int) -> None:
    """Refuse a task that could not be kept, found or run."""
    _check_kind(task.kind)
    _check_queue(task.kind, task.queue)
    if task.bucket is not None and _TAKEN_BUCKET.fullmatch(task.bucket):
        raise Misused(
            f"{task.bucket!r} cannot be the bucket of a task: it is lane:NAME, lane!:NAME or KIND/FIELD=VALUE"
        )
    if len(task.after) > PREDECESSORS_MAX:
        raise Misused(
            f"a task comes after at most {PREDECESSORS_MAX} others, and this one after {len(task.after)}"
        )
    _check_label(task.kind, "bucket", task.bucket)
    _check_label(task.kind, "subject", task.subject)
    _check_label(task.kind, "trace id", task.trace_id)
    _check_label(task.kind, "key", task.key)
    check_payload(task.kind, task.payload, payload_bytes_max)


def refuse_reserved(kind: str, done: str = "enqueued") -> None:
    """Refuse a kind that only Holdfast itself may enqueue, for tasks that people and other systems make."""
    if kind.startswith(RESERVED_KINDS):
        prefix = kind.partition(".")[0]
        raise Misused(f"{kind!r} cannot be {done}: kinds that begin with {prefix}. are Holdfast's own")


def check_payload(kind: str, payload: str, bytes_max: int) -> None:
    """Refuse a payload, given as JSON text, that is too large or too deep."""
    # A character takes at most four bytes, so most payloads need no encoding to be measured.
    if len(payload) * 4 > bytes_max and (size := len(payload.encode("utf-8", "replace"))) > bytes_max:
        raise PayloadTooLarge.of(kind, size, bytes_max)
    if payload.count("[") + payload.count("{") > PAYLOAD_DEPTH_MAX and _is_too_deep(payload):
        raise BadPayload(f"the payload of a {kind} task is nested more than {PAYLOAD_DEPTH_MAX} deep")


def _check_kind(kind: str) -> None:
    if not kind:
        raise Misused("a task needs a kind")
    if len(kind) > NAME_CHARACTERS_MAX:
        raise Misused(
            f"a kind of {len(kind)} characters is too long: it is a name of up to {NAME_CHARACTERS_MAX}"
        )
    if kind.startswith(BUCKET_PREFIXES):
        prefix = next(prefix for prefix in BUCKET_PREFIXES if kind.startswith(prefix))
        raise Misused(f"{kind!r} cannot be a kind: names that begin with {prefix} are taken")


def _check_queue(kind: str, queue: str) -> None:
    if not queue:
        raise Misused("queue is empty: leave it out, or give it a name")
    if len(queue) > NAME_CHARACTERS_MAX:
        raise Misused(
            f"a queue of {len(queue)} characters is too long: it is a name of up to {NAME_CHARACTERS_MAX}"
        )
    if queue == RESERVED_QUEUE and not kind.startswith(OWN_KINDS):
        raise Misused(f"the queue {RESERVED_QUEUE} is for Holdfast's own tasks")


def _check_label(kind: str, what: str, label: str | None) -> None:
    # A character takes at most four bytes, so most labels need no encoding to be measured.
    if label is None or len(label) * 4 <= LABEL_BYTES_MAX:
        return
    if (size := len(label.encode("utf-8", "replace"))) > LABEL_BYTES_MAX:
        raise Misused(f"the {what} of a {kind} task has {size} bytes, the limit is {LABEL_BYTES_MAX}")


def _is_too_deep(payload: str) -> bool:
    try:
        found = json.loads(payload, parse_int=float)
    except RecursionError:
        return True
    except ValueError:
        # It is no JSON: the database says what is wrong with it.
        return False
    return _is_deeper(found, PAYLOAD_DEPTH_MAX)


def _is_deeper(found: object, depth: int) -> bool:
    """Whether arrays and objects are nested deeper than this."""
    level = [found] if isinstance(found, (dict, list)) else []
    for _ in range(depth):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [one for values in inner for one in values if isinstance(one, (dict, list))]
        if not level:
            return False
    return True
