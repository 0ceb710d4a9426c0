"""Routes of failure groups."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import Field, create_model

from holdfast.db.clock import read_clock
from holdfast.http.request import CurrentCaller, TransactionRoute
from holdfast.http.schemas import PAGE_MAX, GroupShape, Reasoned, Shape, Text, TraitShape
from holdfast.ops.groups import Group, GroupState
from holdfast.ops.masking import mask_for

router = APIRouter(route_class=TransactionRoute, tags=["groups"])

Fingerprint = Annotated[str, Path(max_length=64, description="The group's fingerprint.")]


class IgnoreShape(Reasoned):
    """For how long nobody is told."""

    hours: Annotated[float, Field(gt=0, le=24 * 365)] = 24.0


class NoteShape(Shape):
    """What is known of it, and who looks after it."""

    note: Annotated[str | None, Field(max_length=10_000)] = None
    owner: Text | None = None


class HourShape(Shape):
    """How often it was met in an hour."""

    hour: datetime
    failures: int


MetGroup = create_model(
    "MetGroup",
    __base__=GroupShape,
    __doc__="A group, and how often it was met in each of the last 24 hours, the oldest first.",
    spark=(list[int], ...),
)


class GroupDetail(Shape):
    """A group, what its tasks share that successes do not, and how often it was met."""

    group: GroupShape  # type: ignore[valid-type]
    traits: list[TraitShape]  # type: ignore[valid-type]
    versions: list[int]
    hours: list[HourShape]


@router.get("/api/groups", response_model=list[MetGroup])  # type: ignore[valid-type]
async def list_groups(
    caller: CurrentCaller,
    state: GroupState | None = None,
    job_kind: Annotated[Text | None, Query(alias="jobKind")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
) -> object:
    """Groups, those with the most dead letters first."""
    return await met_groups(
        caller, await caller.groups.page(caller.conn, state=state, kind=job_kind, limit=limit)
    )


@router.get("/api/groups/{fingerprint}", response_model=GroupDetail)
async def show(caller: CurrentCaller, fingerprint: Fingerprint) -> object:
    """One group, explained."""
    return await _detail(caller, fingerprint)


@router.post("/api/groups/{fingerprint}/ignore", response_model=GroupDetail)
async def ignore(caller: CurrentCaller, fingerprint: Fingerprint, act: IgnoreShape) -> object:
    """Have nobody told of it for a while."""
    until = await read_clock(caller.conn) + timedelta(hours=act.hours)
    await caller.groups.ignore(caller.conn, fingerprint, until, act.reason)
    return await _detail(caller, fingerprint)


@router.post("/api/groups/{fingerprint}/resolve", response_model=GroupDetail)
async def resolve(caller: CurrentCaller, fingerprint: Fingerprint, act: Reasoned) -> object:
    """Say that the cause is gone; if it is met again, the group has regressed."""
    await caller.groups.resolve(caller.conn, fingerprint, act.reason)
    return await _detail(caller, fingerprint)


@router.post("/api/groups/{fingerprint}/reopen", response_model=GroupDetail)
async def reopen(caller: CurrentCaller, fingerprint: Fingerprint, act: Reasoned) -> object:
    """Take back what was said of it."""
    await caller.groups.reopen(caller.conn, fingerprint, act.reason)
    return await _detail(caller, fingerprint)


@router.post("/api/groups/{fingerprint}/note", response_model=GroupDetail)
async def note(caller: CurrentCaller, fingerprint: Fingerprint, act: NoteShape) -> object:
    """Write down what is known, or who looks after it."""
    await caller.groups.note(caller.conn, fingerprint, act.note, act.owner)
    return await _detail(caller, fingerprint)


async def met_groups(caller: CurrentCaller, groups: Sequence[Group]) -> list[dict[str, object]]:
    """These groups, each with how often it was met lately."""
    sparks = await caller.groups.sparks(caller.conn, groups)
    return [asdict(group) | {"spark": sparks[group.fingerprint]} for group in groups]


async def _detail(caller: CurrentCaller, fingerprint: str) -> dict[str, object]:
    groups = caller.groups
    group = await groups.show(caller.conn, fingerprint)
    mask = await mask_for(caller.conn, caller.settings, [group.kind], caller.handlers)
    hours = await groups.hours(caller.conn, fingerprint)
    return {
        "group": group,
        "traits": await groups.traits(caller.conn, group, mask),
        "versions": await groups.versions(caller.conn, fingerprint),
        "hours": [{"hour": hour, "failures": count} for hour, count in hours],
    }
