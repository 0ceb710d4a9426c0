"""Request and response models, camelCase JSON derived from the classes of the other layers."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel

from holdfast.core.audit import Entry
from holdfast.core.errors import Misused
from holdfast.core.failure import DeadReason
from holdfast.core.redact import redact
from holdfast.core.stored_json import shown_json
from holdfast.core.task import TaskView, shown_state
from holdfast.ops.dead_letters import RETRYABLE, DeadFilter, DeadLetter, Retried, Sort, Statistics
from holdfast.ops.groups import Group, Trait
from holdfast.ops.masking import Mask
from holdfast.ops.plan_view import PlanView
from holdfast.store.limits import LimitView
from holdfast.store.schedules import ScheduleView
from holdfast.views.tasks import AttemptView, Listed, QueueView, WorkerView

T = TypeVar("T")
TEXT_MAX = 200
WHY_MAX = 2_000
IDS_MAX = 500
DEPTH_MAX = 32
# Members of a document that are named one by one where they are not known.
UNKNOWN_MAX = 20
PAGE_MAX = 200


def _redacted(reason: str) -> str:
    return redact(reason, characters_max=WHY_MAX)


Text = Annotated[str, Field(max_length=TEXT_MAX)]
Name = Annotated[str, Path(min_length=1, max_length=TEXT_MAX)]
ShortId = Annotated[str, Field(max_length=64)]
Why = Annotated[
    str, Field(max_length=WHY_MAX, description="Why; it stands in the audit."), AfterValidator(_redacted)
]


class Shape(BaseModel):
    """A document of the API."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, from_attributes=True, extra="forbid"
    )

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, given: object) -> object:
        """Refuse many unknown members at once: an error for each of them takes seconds."""
        if isinstance(given, Mapping) and len(given) > len(cls.model_fields) + UNKNOWN_MAX:
            raise ValueError(f"it has {len(given)} members, and {len(cls.model_fields)} are known")
        return given


def shape(view: type[Any], name: str | None = None) -> type[Shape]:
    """The document of a class that people see elsewhere; clients know it by its name."""
    hints = get_type_hints(view)
    known: dict[str, Any] = {field.name: (hints[field.name], ...) for field in fields(view)}
    return create_model(name or view.__name__, __base__=Shape, __doc__=view.__doc__, **known)


ListedShape = shape(Listed)
AttemptShape = shape(AttemptView)
DeadLetterShape = shape(DeadLetter)
SortShape = shape(Sort)
StatisticsShape = shape(Statistics)
RetriedShape = shape(Retried)
GroupShape = shape(Group)
TraitShape = shape(Trait)
EntryShape = shape(Entry)
QueueShape = shape(QueueView)
WorkerShape = shape(WorkerView)
LimitShape = shape(LimitView)
ScheduleShape = shape(ScheduleView)
PlanShape = create_model("Plan", __base__=shape(PlanView), shown_state=(str, ...))


QueuesPartial = Annotated[
    bool, Field(description="There are more than 500 queues: those that workers serve are among these.")
]


def leads_to(**operations: str) -> dict[str, Any]:
    """The links of an answer, to operations that take what it names: `operation="parameter=member"`."""
    links = {}
    for operation, passed in operations.items():
        parameter, member = passed.split("=")
        links[operation] = {"operationId": operation, "parameters": {parameter: f"$response.body#/{member}"}}
    return {"links": links}


class Page(Shape, Generic[T]):
    """A page of a list; `next` asks for the one below it."""

    items: list[T]
    next: str | None = None
    partial: Annotated[
        bool,
        Field(description="What is asked for is rare, and only some were looked at; `next` goes on."),
    ] = False


class ErrorShape(Shape):
    """The last failure of a task."""

    failure_class: str
    code: str
    message: str
    stack: str | None
    at: datetime


class TaskShape(Shape):
    """A task with all that is known of it."""

    id: str
    kind: str
    queue: str
    state: str
    priority: int
    payload: Any
    result: Any
    declared: Annotated[
        bool,
        Field(description="Whether a worker has declared the kind; if not, only keys are shown."),
    ]
    subject: str | None
    trace_id: str | None
    idempotency_key: str | None
    attempt_count: int
    failures: int
    crashes: int
    polls: int
    max_attempts: int | None
    lease_token: int | None
    lease_expires_at: datetime | None
    worker: str | None
    enqueued_at: datetime
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    finished_at: datetime | None
    execution_seconds: float | None
    progress: float | None
    dead_reason: str | None
    reason: str | None
    error: ErrorShape | None
    fingerprint: Annotated[str | None, Field(description="The group that a failed task is in.")]
    attempts: list[AttemptShape]  # type: ignore[valid-type]
    attempts_recorded: Annotated[int, Field(description="How many there are; the latest 200 are shown.")]


def task_shape(
    view: TaskView, mask: Mask, attempts: Sequence[AttemptView], recorded: int
) -> dict[str, object]:
    """A task as the API shows it, without what the mask strikes out."""
    view = mask.task(view)
    same = ("id", "kind", "queue", "priority", "subject", "trace_id", "max_attempts", "worker", "enqueued_at",
            "next_attempt_at", "last_attempt_at", "finished_at", "execution_seconds", "progress",
            "dead_reason", "error", "lease_expires_at", "fingerprint")  # fmt: skip
    counters = view.counters
    return {name: getattr(view, name) for name in same} | {
        "state": shown_state(view.state, view.next_attempt_at),
        "payload": shown_json(view.payload),
        "result": shown_json(view.result),
        "declared": mask.knows(view.kind),
        "idempotency_key": view.key,
        "attempt_count": counters.attempts,
        "failures": counters.failures,
        "crashes": counters.crashes,
        "polls": counters.polls,
        "lease_token": view.fence,
        "reason": view.mark_reason,
        "attempts": attempts,
        "attempts_recorded": recorded,
    }


class Filter(Shape):
    """Which dead letters; what is not given is not asked for."""

    subject: Text | None = None
    episode_id: Annotated[Text | None, Field(description="The same as subject.")] = None
    job_kind: Text | None = None
    trace_id: Text | None = None
    queue: Text | None = None
    dead_reason: DeadReason | None = None
    error_code: Text | None = None
    group: Annotated[Text | None, Field(description="A group, by its fingerprint.")] = None
    since: datetime | None = None
    until: datetime | None = None
    # So short that the longest list of them still fits into an address.
    task_ids: Annotated[list[ShortId] | None, Field(max_length=IDS_MAX)] = None

    def as_filter(self, states: tuple[str, ...] = RETRYABLE) -> DeadFilter:
        """The filter that it stands for."""
        for moment in (self.since, self.until):
            if moment is not None and moment.tzinfo is None:
                raise Misused("a time needs its offset: 2026-11-16T03:00:00Z")
        return DeadFilter(
            self.subject or self.episode_id,
            self.job_kind,
            self.queue,
            self.trace_id,
            self.dead_reason,
            self.error_code,
            self.group,
            self.since,
            self.until,
            self.task_ids,
            states,
        )


class Paged(Shape):
    """Which page."""

    page: Annotated[int, Query(ge=1, le=10_000)] = 1
    page_size: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 20

    @property
    def offset(self) -> int:
        """How many come before it."""
        return (self.page - 1) * self.page_size


class Reasoned(Shape):
    """An act, and why."""

    reason: Why = ""


class PauseShape(Reasoned):
    """Why, and until when."""

    until: AwareDatetime | None = None


class DoneShape(Shape):
    """Whether there was something to do."""

    name: str
    done: bool


def check_depth(value: object, left: int = DEPTH_MAX) -> None:
    """Refuse what is nested too deep to be meant."""
    if left == 0:
        raise Misused(f"it is nested more than {DEPTH_MAX} deep")
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner:
        check_depth(one, left - 1)
