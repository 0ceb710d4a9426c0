"""Publishes an event as a task in the caller's transaction and fans it out to deliveries."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypedDict

from uuid_utils import uuid7

from holdfast.config import Settings
from holdfast.core.bounds import check_moment
from holdfast.core.errors import BadPayload, Misused, PayloadTooLarge
from holdfast.core.events import Listener, silent
from holdfast.core.handler import Bulk, Task
from holdfast.core.limit import bucket_of_key, bucket_of_lane
from holdfast.core.task import NewTask
from holdfast.db.bridges import bridge_async
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.store.enqueue import Enqueuer
from holdfast.webhooks.payloads import DELIVER, ENDPOINT, PUBLISH, Delivery, Event
from holdfast.webhooks.retry import KEEP_DISABLED_DAYS

TYPE_CHARACTERS_MAX = 200
# What a delivery has beside its event, quotation marks within quotation marks included.
DELIVERY_BYTES = 1_000
# So much is written in one statement.
SLICE_BYTES = 4_000_000
# An id is part of what is signed, with full stops between the parts: it has none of its own.
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,200}")
# Types of notices by Holdfast itself.
OWN_TYPES = "webhook."
# Told to endpoints that ask for it by name.
ENDPOINT_DISABLED = "webhook.endpoint_disabled"


class EventOptions(TypedDict, total=False):
    """What can be said of an event beside its data.

    An `id` of your own makes publishing twice the same as once. `version` is the entity's, so that receivers
    can tell old from new; `subject` is what the task that fans it out is found by.
    """

    id: str
    version: int
    occurred_at: datetime
    subject: str


def new_event(type_: str, data: object, options: EventOptions) -> Event:
    """An event that can be sent, or an error that says why it cannot."""
    if type_.startswith(OWN_TYPES):
        raise Misused(
            f"event type {type_!r} is reserved: "
            f"types that begin with {OWN_TYPES} are published by Holdfast only"
        )
    return _event(type_, data, options)


def _event(type_: str, data: object, options: EventOptions) -> Event:
    unknown = sorted(set(options) - set(EventOptions.__annotations__))
    if unknown:
        known = ", ".join(EventOptions.__annotations__)
        raise Misused(f"an event has no option {', '.join(unknown)}: there are {known}")
    if not _TYPE.fullmatch(type_):
        raise Misused(
            f"{type_!r} is no event type: it has 1 to {TYPE_CHARACTERS_MAX} letters, digits, and any of . _ -"
        )
    id_ = options.get("id")
    if id_ is not None and not _ID.fullmatch(id_):
        raise Misused(f"{id_!r} is no event id: it has 1 to 100 letters, digits, _ or -")
    at = options.get("occurred_at")
    if at is not None and at.tzinfo is None:
        raise Misused(f"occurred_at is {at}, without a time zone: write datetime.now(UTC)")
    if at is not None:
        check_moment("occurred_at", at)
    try:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except (TypeError, ValueError) as error:
        raise BadPayload(f"the data of a {type_} event cannot be written as JSON: {error}") from error
    return Event(
        id=id_ or f"evt_{uuid7().hex}",
        type=type_,
        data=text,
        version=options.get("version"),
        occurred_at=None if at is None else at.astimezone(UTC),
    )


def publish_task(settings: Settings, event: Event, *, subject: str | None = None) -> NewTask:
    """The task that fans an event out; the same event twice is one task, for a day."""
    # A delivery is larger than its event, and must fit as well.
    size, limit = len(event.model_dump_json().encode()) + DELIVERY_BYTES, settings.payload_bytes_max
    if size > limit:
        raise PayloadTooLarge.of(DELIVER, size, limit)
    return NewTask(
        PUBLISH,
        event.model_dump_json(),
        queue=settings.webhooks_queue,
        subject=subject,
        key=event.id,
    )


def delivery_task(
    settings: Settings, delivery: Delivery, *, in_order: bool, again: str | None = None
) -> NewTask:
    """The task that delivers an event to an endpoint, once; `again` names a delivery beside the first."""
    lane = bucket_of_lane(f"{DELIVER}/{delivery.endpoint}", blocks=False)
    parts = [delivery.event, delivery.endpoint, *([] if again is None else [again])]
    return NewTask(
        DELIVER,
        delivery.model_dump_json(),
        queue=settings.webhooks_queue,
        subject=delivery.endpoint,
        key="/".join(parts),
        bucket=lane if in_order else bucket_of_key(DELIVER, ENDPOINT, delivery.endpoint),
    )


class Publish:
    """The handler that fans events out, many in one commit."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._settings = settings
        self._sql = load("webhooks/webhooks.sql", settings.schema_name)
        self._enqueuer = Enqueuer(settings, listen)

    async def __call__(self, bulk: Bulk[Event]) -> None:
        """Have each event delivered to whoever wants it, and end its task in the same commit."""
        async with bulk.finish() as conn:
            wanted = await self._wanted(conn, sorted({task.payload.type for task in bulk}))
            deliveries = [
                delivery_task(self._settings, delivery, in_order=in_order)
                for task in bulk
                for delivery, in_order in _deliveries(task, wanted.get(task.payload.type, ()))
            ]
            for some in _slices(deliveries):
                await self._enqueuer.enqueue(bridge_async(conn), some)

    async def _wanted(self, conn: Conn, types: Sequence[str]) -> Mapping[str, Sequence[tuple[str, bool]]]:
        found: dict[str, list[tuple[str, bool]]] = {}
        rows = await (
            await conn.execute(self._sql["subscribed"], {"types": types, "days": KEEP_DISABLED_DAYS})
        ).fetchall()
        for type_, endpoint, in_order in rows:
            found.setdefault(type_, []).append((endpoint, in_order))
        return found


def _slices(tasks: Sequence[NewTask]) -> Iterator[Sequence[NewTask]]:
    """In their order, and not too much at once."""
    begin = size = 0
    for place, task in enumerate(tasks):
        size += len(task.payload)
        if size > SLICE_BYTES and place > begin:
            yield tasks[begin:place]
            begin, size = place, len(task.payload)
    if begin < len(tasks):
        yield tasks[begin:]


def _deliveries(task: Task[Event], wanted: Sequence[tuple[str, bool]]) -> Iterator[tuple[Delivery, bool]]:
    event = task.payload
    assert task.claim is not None, "a worker runs it"
    body = event.body(task.claim.enqueued_at.astimezone(UTC)) if wanted else ""
    for endpoint, in_order in wanted:
        yield Delivery(endpoint=endpoint, event=event.id, type=event.type, body=body), in_order


async def disabled_event(settings: Settings, conn: Conn, endpoint: str, url: str, why: str) -> None:
    """Tell whoever asked to be told that an endpoint gets no more."""
    event = _event(ENDPOINT_DISABLED, {"endpoint": endpoint, "url": url, "reason": why}, {})
    await Enqueuer(settings).enqueue(bridge_async(conn), [publish_task(settings, event)])
