"""`app.webhooks`: publishes events in the caller's transaction and registers the delivery handlers."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Unpack

from pydantic import TypeAdapter, ValidationError

from holdfast.config import Settings
from holdfast.core.errors import BadPayload, Misused
from holdfast.core.events import Listener
from holdfast.core.handler import Gather, Handler, Handlers, hash_of_schema
from holdfast.core.limit import Limit
from holdfast.core.task import NewTask
from holdfast.webhooks.payloads import DELIVER, ENDPOINT, PUBLISH, Delivery, Event
from holdfast.webhooks.publish import EventOptions, Publish, new_event, publish_task
from holdfast.webhooks.retry import ATTEMPTS
from holdfast.worker.tracebacks import why_invalid

# Of one endpoint so many deliveries are under way at once, unless it says otherwise.
RUNNING = 10
# Events that come together are fanned out together.
FAN_OUT = 200
LINGER_SECONDS = 0.005
Send = Callable[[Sequence[NewTask], object | None], Awaitable[Sequence[Any]]]
SendSync = Callable[[Sequence[NewTask], object | None], Sequence[Any]]


class Webhooks:
    """Publishes events."""

    def __init__(self, settings: Settings, send: Send, send_sync: SendSync) -> None:
        self._settings = settings
        self._send = send
        self._send_sync = send_sync

    async def publish(
        self, type_: str, data: object, *, conn: object | None = None, **options: Unpack[EventOptions]
    ) -> str:
        """Have an event delivered to every endpoint that wants its type; answers its id.

        With `conn` it is published if and only if that transaction commits.
        """
        event = new_event(type_, data, options)
        await self._send([publish_task(self._settings, event, subject=options.get("subject"))], conn)
        return event.id

    def publish_sync(
        self, type_: str, data: object, *, conn: object | None = None, **options: Unpack[EventOptions]
    ) -> str:
        """The same, where calls block."""
        event = new_event(type_, data, options)
        self._send_sync([publish_task(self._settings, event, subject=options.get("subject"))], conn)
        return event.id


class WebhookKinds:
    """The kinds that deliver events: their handlers, and what those hold open."""

    def __init__(self, settings: Settings, listen: Listener) -> None:
        try:
            from holdfast.webhooks.deliver import Deliver
        except ImportError as error:
            raise Misused(f"webhooks=True needs what holdfast[webhooks] installs: {error}") from error
        self._deliver = Deliver(settings, listen)
        self.handlers = _handlers(settings, Publish(settings, listen), self._deliver)

    async def close(self) -> None:
        """Let the connections of this event loop go."""
        await self._deliver.close()


def _handlers(settings: Settings, publish: Publish, deliver: Callable[..., Awaitable[object]]) -> Handlers:
    return {
        PUBLISH: Handler(
            PUBLISH,
            publish,
            awaits=True,
            queue=settings.webhooks_queue,
            bulk=Gather(FAN_OUT, LINGER_SECONDS),
            # What others put into their events is not ours to show.
            secrets=("data",),
            **_reads(Event),
        ),
        DELIVER: Handler(
            DELIVER,
            deliver,
            awaits=True,
            queue=settings.webhooks_queue,
            max_attempts=ATTEMPTS,
            per=(ENDPOINT, Limit(running=RUNNING)),
            secrets=("body",),
            **_reads(Delivery),
        ),
    }


def _reads(model: type[Event] | type[Delivery]) -> dict[str, Any]:
    """How payloads of a kind are read and checked."""
    reader: TypeAdapter[Any] = TypeAdapter(model)

    def check(payload: str) -> str:
        try:
            return str(reader.validate_json(payload).model_dump_json())
        except ValidationError as error:
            raise BadPayload(f"it is no payload of {model.__name__}: {why_invalid(error)}") from error

    return {
        "decode": lambda payload, _version: reader.validate_json(payload),
        "check": check,
        "payload_hash": lambda: hash_of_schema(model.model_json_schema()),
    }
