"""Routes of webhooks: endpoints, the delivery log, and resending."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, Field, create_model

from holdfast.core.audit import Action
from holdfast.db.bridges import bridge_async
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import PAGE_MAX, PlanShape, Reasoned, Shape, Text, leads_to, shape
from holdfast.ops.tokens import Role
from holdfast.store.enqueue import Enqueuer
from holdfast.webhooks.address import URL_CHARACTERS_MAX
from holdfast.webhooks.delivery_log import Attempt, DeliveryLog
from holdfast.webhooks.endpoints import (
    DESCRIPTION_CHARACTERS_MAX,
    EVENTS_MAX,
    ROTATION_HOURS,
    ROTATION_HOURS_MAX,
    RUNNING_MAX,
    Created,
    Endpoint,
    Endpoints,
    NewEndpoint,
)
from holdfast.webhooks.publish import EventOptions, new_event, publish_task
from holdfast.webhooks.resend import Resend

router = APIRouter(route_class=TransactionRoute, tags=["webhooks"])

EndpointId = Annotated[str, Path(max_length=64, description="The endpoint's id.")]
DeliveryId = Annotated[str, Path(max_length=64, description="The delivery's id: it is a task.")]
Url = Annotated[str, Field(max_length=URL_CHARACTERS_MAX, examples=["https://hooks.example.com/renders"])]
Events = Annotated[
    list[Text], Field(max_length=EVENTS_MAX, description="Event types; `render.*` is a family, none is all.")
]
Described = Annotated[str, Field(max_length=DESCRIPTION_CHARACTERS_MAX)]
Secret = Annotated[str | None, Field(max_length=200, description="`whsec_…`; one is made if none is given.")]

EndpointShape = create_model("Endpoint", __base__=shape(Endpoint), state=(str, ...))
AttemptShape = create_model("Attempt", __base__=shape(Attempt), delivered=(bool, ...))


class NewEndpointShape(Shape):
    """An endpoint to add."""

    url: Url
    events: Events = Field(default_factory=list)
    description: Described = ""
    secret: Secret = None
    in_order: Annotated[bool, Field(description="One at a time, and none before the last is done.")] = False
    running_max: Annotated[int | None, Field(ge=1, le=RUNNING_MAX)] = None
    reason: Text = ""


class ChangeShape(Shape):
    """What is to be changed; what is not given stays."""

    url: Url | None = None
    events: Events | None = None
    description: Described | None = None
    reason: Text = ""


class RotationShape(Shape):
    """A new key, and for how long the older ones sign beside it."""

    secret: Secret = None
    hours: Annotated[float, Field(ge=0, le=ROTATION_HOURS_MAX)] = ROTATION_HOURS
    reason: Text = ""


class CreatedShape(Shape):
    """An endpoint and its new secret, which is not shown again: a repeated answer has none."""

    endpoint: EndpointShape  # type: ignore[valid-type]
    secret: str | None


class SinceShape(Reasoned):
    """From when on, and whether what was delivered is to be sent again too."""

    since: AwareDatetime
    delivered: bool = False


class ResentShape(Shape):
    """The plan that sends what had failed, and how many new deliveries there are of what had not."""

    plan: PlanShape | None  # type: ignore[valid-type]
    delivered: int
    not_kept: int


class TurnedShape(Shape):
    """Whether anything changed."""

    changed: bool


class DeliveryShape(Shape):
    """The task that sends it."""

    task_id: str


class NewEventShape(Shape):
    """An event to publish."""

    type: Text
    data: dict[str, Any]
    id: Annotated[str | None, Field(max_length=100)] = None
    version: Annotated[int | None, Field(ge=0, le=2**53)] = None
    occurred_at: AwareDatetime | None = None
    subject: Text | None = None


class PublishedShape(Shape):
    """The id that receivers see."""

    id: str


@router.post("/api/webhooks/events", response_model=PublishedShape, status_code=201)
async def publish(caller: CurrentCaller, new: NewEventShape) -> object:
    """Have an event delivered to whoever wants its type."""
    given: dict[str, Any] = {
        "id": new.id, "version": new.version, "occurred_at": new.occurred_at, "subject": new.subject
    }  # fmt: skip
    options = EventOptions(**{name: value for name, value in given.items() if value is not None})  # type: ignore[typeddict-item]
    event = new_event(new.type, new.data, options)
    task = publish_task(caller.settings, event, subject=new.subject)
    enqueuer = Enqueuer(caller.settings, caller.listen)
    (made,) = await enqueuer.enqueue(bridge_async(caller.conn), [task])
    if made.created:
        details = {"event": event.id, "type": event.type}
        await caller.audit.note_tasks(
            caller.conn, Action.WEBHOOK_PUBLISH, caller.author(), [made.id], details=details
        )
    return {"id": event.id}


@router.get("/api/webhooks/endpoints", response_model=list[EndpointShape])  # type: ignore[valid-type]
async def list_endpoints(caller: CurrentCaller) -> object:
    """All endpoints and how they fare; their URLs whole for admins, and their secrets for nobody."""
    return [_shown(caller, one) for one in await _endpoints(caller).page(caller.conn)]


@router.post(
    "/api/webhooks/endpoints",
    response_model=CreatedShape,
    status_code=201,
    responses={
        201: leads_to(webhooks_show="endpoint_id=endpoint/id", webhooks_rotate="endpoint_id=endpoint/id")
    },
)
async def create(caller: CurrentCaller, new: NewEndpointShape) -> object:
    """Add an endpoint; its secret is in the answer, and nowhere after that."""
    given = NewEndpoint(new.url, new.events, new.description, new.secret, new.in_order, new.running_max)
    return _created(caller, await _endpoints(caller).create(caller.conn, given, new.reason))


@router.get("/api/webhooks/endpoints/{endpoint_id}", response_model=EndpointShape)
async def show(caller: CurrentCaller, endpoint_id: EndpointId) -> object:
    """One endpoint; its URL whole for admins."""
    return _shown(caller, await _endpoints(caller).show(caller.conn, endpoint_id))


@router.post("/api/webhooks/endpoints/{endpoint_id}/change", response_model=EndpointShape)
async def change(caller: CurrentCaller, endpoint_id: EndpointId, act: ChangeShape) -> object:
    """Change its URL, what it wants, or its description."""
    changed = await _endpoints(caller).change(
        caller.conn,
        endpoint_id,
        url=act.url,
        events=act.events,
        description=act.description,
        reason=act.reason,
    )
    return changed.masked()


@router.post("/api/webhooks/endpoints/{endpoint_id}/rotate", response_model=CreatedShape)
async def rotate(caller: CurrentCaller, endpoint_id: EndpointId, act: RotationShape) -> object:
    """Sign with a new key; the ones before sign beside it for a while."""
    made = await _endpoints(caller).rotate(
        caller.conn, endpoint_id, secret=act.secret, hours=act.hours, reason=act.reason
    )
    return _created(caller, made)


@router.post("/api/webhooks/endpoints/{endpoint_id}/disable", response_model=TurnedShape)
async def disable(caller: CurrentCaller, endpoint_id: EndpointId, act: Reasoned) -> object:
    """Deliver nothing more to it."""
    return {"changed": await _endpoints(caller).disable(caller.conn, endpoint_id, act.reason)}


@router.post("/api/webhooks/endpoints/{endpoint_id}/enable", response_model=TurnedShape)
async def enable(caller: CurrentCaller, endpoint_id: EndpointId, act: Reasoned) -> object:
    """Deliver to it again."""
    return {"changed": await _endpoints(caller).enable(caller.conn, endpoint_id, act.reason)}


@router.post("/api/webhooks/endpoints/{endpoint_id}/remove", response_model=TurnedShape)
async def remove(caller: CurrentCaller, endpoint_id: EndpointId, act: Reasoned) -> object:
    """Forget it and its keys."""
    return {"changed": await _endpoints(caller).remove(caller.conn, endpoint_id, act.reason)}


@router.get(
    "/api/webhooks/endpoints/{endpoint_id}/attempts",
    response_model=list[AttemptShape],  # type: ignore[valid-type]
)
async def attempts(
    caller: CurrentCaller,
    endpoint_id: EndpointId,
    *,
    before: Annotated[
        AwareDatetime | None, Query(description="Only those before: the `at` of the last.")
    ] = None,
    failed: Annotated[bool, Query(description="Only those that were not taken.")] = False,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
) -> object:
    """The requests that an endpoint was sent, the latest first."""
    await _endpoints(caller).show(caller.conn, endpoint_id)
    return await DeliveryLog(caller.settings).page(
        caller.conn, endpoint=endpoint_id, before=before, failed=failed, limit=limit
    )


@router.post("/api/webhooks/endpoints/{endpoint_id}/resend", response_model=ResentShape)
async def resend_since(caller: CurrentCaller, endpoint_id: EndpointId, act: SinceShape) -> object:
    """Send again what failed to reach it, and if asked for also what did reach it."""
    sent = await _resend(caller).since(
        caller.conn, endpoint_id, act.since, act.reason, delivered=act.delivered
    )
    return {"plan": sent.plan, "delivered": sent.delivered, "not_kept": sent.not_kept}


@router.get(
    "/api/webhooks/deliveries/{delivery_id}/attempts",
    response_model=list[AttemptShape],  # type: ignore[valid-type]
)
async def attempts_of_delivery(caller: CurrentCaller, delivery_id: DeliveryId) -> object:
    """The requests of one delivery, the latest first."""
    return await DeliveryLog(caller.settings).page(caller.conn, task=delivery_id, limit=PAGE_MAX)


@router.post("/api/webhooks/deliveries/{delivery_id}/resend", response_model=DeliveryShape)
async def resend(caller: CurrentCaller, delivery_id: DeliveryId, act: Reasoned) -> object:
    """Send one delivery again."""
    return {"task_id": await _resend(caller).one(caller.conn, delivery_id, act.reason)}


def _created(caller: CurrentCaller, made: Created) -> dict[str, object]:
    caller.shown_once.add("secret")
    # This answer may be kept, so it has no whole URL.
    return {"endpoint": made.endpoint.masked(), "secret": made.secret}


def _shown(caller: CurrentCaller, endpoint: Endpoint) -> Endpoint:
    return endpoint if caller.bearer.role is Role.ADMIN else endpoint.masked()


def _endpoints(caller: CurrentCaller) -> Endpoints:
    return Endpoints(caller.settings, caller.listen, by=caller.by)


def _resend(caller: CurrentCaller) -> Resend:
    return Resend(caller.settings, caller.handlers, caller.listen, by=caller.by)
