"""Routes of tasks: list, show, enqueue, and operations on one task."""

import json
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, JsonValue

from holdfast.core.audit import Action
from holdfast.core.bounds import refuse_reserved
from holdfast.core.errors import TaskNotFound
from holdfast.core.state import State
from holdfast.core.stored_json import shown_json
from holdfast.core.task import PRIORITIES, PRIORITY_DEFAULT, NewTask, Unique, is_id
from holdfast.db.bridges import bridge_async
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import (
    PAGE_MAX,
    ListedShape,
    Page,
    Reasoned,
    RetriedShape,
    Shape,
    TaskShape,
    Text,
    Why,
    check_depth,
    leads_to,
    task_shape,
)
from holdfast.ops.masking import mask_for
from holdfast.store.enqueue import Enqueuer
from holdfast.views.tasks import ATTEMPTS_MAX, Browser
from holdfast.views.why import Why as WhyNot

router = APIRouter(route_class=TransactionRoute, tags=["tasks"])

TaskId = Annotated[str, Path(max_length=64, description="The task's id.")]
DAYS_AHEAD = 3_650


class EnqueueShape(Shape):
    """A task to enqueue."""

    kind: Annotated[str, Field(min_length=1, max_length=200)]
    payload: JsonValue = Field(default_factory=dict)
    queue: Annotated[str, Field(min_length=1, max_length=200)] = "default"
    priority: Annotated[int, Field(ge=PRIORITIES[0], le=PRIORITIES[-1])] = PRIORITY_DEFAULT
    subject: Text | None = None
    trace_id: Text | None = None
    key: Annotated[Text | None, Field(description="One task for this key of the kind.")] = None
    unique: Unique = Unique.KEY
    delay_seconds: Annotated[float, Field(ge=0, le=86_400 * DAYS_AHEAD)] = 0
    max_attempts: Annotated[int | None, Field(ge=1, le=1_000)] = None


class EnqueuedShape(Shape):
    """The task, and whether this call made it."""

    id: str
    created: bool


class EditShape(Reasoned):
    """The whole new payload of a dead letter."""

    payload: JsonValue


class StateShape(Shape):
    """A task and where it stands now."""

    id: str
    state: str


class BecauseShape(Shape):
    """What stands in the way of a task."""

    cause: str
    text: str


@router.get("/api/tasks", response_model=Page[ListedShape])  # type: ignore[valid-type]
async def list_tasks(  # noqa: PLR0913 (one for each filter)
    caller: CurrentCaller,
    state: State | None = None,
    job_kind: Annotated[Text | None, Query(alias="jobKind")] = None,
    queue: Text | None = None,
    subject: Text | None = None,
    episode_id: Annotated[Text | None, Query(alias="episodeId")] = None,
    trace_id: Annotated[Text | None, Query(alias="traceId")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    before: Annotated[Text | None, Query(description="`next` of the page above.")] = None,
) -> object:
    """Tasks, the newest first; without a state, those that have not completed."""
    if before is not None and not is_id(before):
        raise TaskNotFound(before)
    return await Browser(caller.settings).tasks(
        caller.conn,
        state=state,
        kind=job_kind,
        queue=queue,
        subject=subject or episode_id,
        trace=trace_id,
        limit=limit,
        before=before,
    )


@router.post(
    "/api/tasks",
    response_model=EnqueuedShape,
    status_code=201,
    responses={
        201: leads_to(
            tasks_show="task_id=id",
            tasks_why="task_id=id",
            tasks_pause="task_id=id",
            tasks_resume="task_id=id",
            tasks_cancel="task_id=id",
        )
    },
)
async def enqueue(caller: CurrentCaller, task: EnqueueShape) -> object:
    """Enqueue a task; with a `key` that is taken, it is told which task has it."""
    check_depth(task.payload)
    refuse_reserved(task.kind)
    handler = caller.handlers.get(task.kind)
    payload = json.dumps(task.payload)
    new = NewTask(
        task.kind,
        payload if handler is None else handler.check(payload),
        queue=task.queue,
        priority=task.priority,
        version=1 if handler is None else handler.version,
        subject=task.subject,
        trace_id=task.trace_id,
        key=task.key,
        unique=task.unique,
        run_at=timedelta(seconds=task.delay_seconds) if task.delay_seconds else None,
        max_attempts=task.max_attempts,
    )
    (made,) = await Enqueuer(caller.settings, caller.listen).enqueue(bridge_async(caller.conn), [new])
    if made.created:
        await caller.audit.note_tasks(caller.conn, Action.TASK_ENQUEUE, caller.author(), [made.id])
    return made


@router.get("/api/tasks/{task_id}", response_model=TaskShape)
async def show(caller: CurrentCaller, task_id: TaskId) -> object:
    """One task with its attempts."""
    view = await caller.operator.show(caller.conn, task_id)
    browser = Browser(caller.settings)
    attempts = await browser.attempts(caller.conn, task_id)
    recorded = len(attempts)
    if recorded == ATTEMPTS_MAX:
        recorded = await browser.count_attempts(caller.conn, task_id)
    mask = await mask_for(caller.conn, caller.settings, [view.kind], caller.handlers)
    return task_shape(view, mask, attempts, recorded)


@router.get("/api/tasks/{task_id}/why", response_model=list[BecauseShape])
async def why(caller: CurrentCaller, task_id: TaskId) -> object:
    """Why it does not run now."""
    view = await caller.operator.show(caller.conn, task_id)
    reasons = await WhyNot(caller.settings).of(caller.conn, view)
    return [{"cause": reason.cause, "text": reason.text} for reason in reasons]


@router.post("/api/tasks/{task_id}/retry", response_model=RetriedShape)
async def retry(caller: CurrentCaller, task_id: TaskId, act: Reasoned) -> object:
    """Put a failed or cancelled task back to work, its counters cleared; says why where it cannot."""
    return await caller.dead_letters.retry(caller.conn, [task_id], act.reason)


@router.post("/api/tasks/{task_id}/edit", response_model=StateShape)
async def edit(caller: CurrentCaller, task_id: TaskId, act: EditShape) -> object:
    """Give a dead letter another payload and put it back to work; the old one is kept."""
    check_depth(act.payload)
    await caller.dead_letters.edit(caller.conn, task_id, json.dumps(act.payload), act.reason)
    return {"id": task_id, "state": State.QUEUED}


@router.post("/api/tasks/{task_id}/cancel", response_model=StateShape)
async def cancel(caller: CurrentCaller, task_id: TaskId, act: Reasoned) -> object:
    """Cancel a task that waits; ask one that runs to stop."""
    return {"id": task_id, "state": await caller.operator.cancel(caller.conn, task_id, act.reason)}


@router.post("/api/tasks/{task_id}/pause", response_model=StateShape)
async def pause(caller: CurrentCaller, task_id: TaskId, act: Reasoned) -> object:
    """Keep a task that waits from starting."""
    await caller.operator.pause(caller.conn, task_id, act.reason)
    return {"id": task_id, "state": State.PAUSED}


@router.post("/api/tasks/{task_id}/resume", response_model=StateShape)
async def resume(caller: CurrentCaller, task_id: TaskId, act: Reasoned) -> object:
    """Let a paused task start again."""
    await caller.operator.resume(caller.conn, task_id, act.reason)
    return {"id": task_id, "state": State.QUEUED}


class ForgottenShape(Shape):
    """Which tasks are gone."""

    forgotten: list[str]


class GraveShape(Shape):
    """It cannot be taken back: a reason is asked for."""

    reason: Annotated[Why, Field(min_length=1)]


class RevealedShape(Shape):
    """A payload and a result with nothing struck out; an answer that is repeated for its key has neither."""

    payload: JsonValue
    result: JsonValue


@router.post("/api/tasks/{task_id}/reveal", response_model=RevealedShape)
async def reveal(caller: CurrentCaller, task_id: TaskId, act: GraveShape) -> object:
    """Show payload and result with nothing struck out, this once; who looked, and why, is in the audit."""
    view = await caller.dead_letters.reveal(caller.conn, task_id, act.reason)
    shown = {"payload": view.payload, "result": view.result}
    caller.shown_once.update(shown)
    return {name: shown_json(text) for name, text in shown.items()}


@router.post("/api/tasks/{task_id}/forget", response_model=ForgottenShape)
async def forget(caller: CurrentCaller, task_id: TaskId, act: GraveShape) -> object:
    """Let a dead letter go for good."""
    return {"forgotten": await caller.dead_letters.forget(caller.conn, [task_id], act.reason)}
