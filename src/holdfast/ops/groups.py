"""Groups failures with the same cause, and compares their tasks with successful ones."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from holdfast.config import Settings
from holdfast.core.audit import Action
from holdfast.core.bounds import check_moment
from holdfast.core.errors import GroupNotFound, JsonUnreadable
from holdfast.core.events import Listener, silent
from holdfast.core.redact import STRUCK
from holdfast.core.stored_json import read_json
from holdfast.db.connect import Conn
from holdfast.db.statements import load
from holdfast.ops.masking import Mask
from holdfast.store.audit import AuditWriter, Author
from holdfast.views.counts import EXACT_MAX

GROUP_SAMPLE = 500
SUCCESS_SAMPLE = 2_000
# Of their payloads, those of at most so many bytes, and so many together: reading them takes time.
SAMPLE_BYTES_EACH = 8_000
SAMPLE_BYTES_MAX = 500_000
# Shared by at least so many of the group, and by at most so many of the successes.
SHARED_MIN = 0.8
ELSEWHERE_MAX = 0.3
TRAITS_SHOWN = 8
VALUE_CHARACTERS = 80
DAYS_SHOWN = 7
RELEASES_SHOWN = 20
SPARK_HOURS = 24


class GroupState(StrEnum):
    """What people have said of a cause, and whether it came back."""

    OPEN = "open"
    IGNORED = "ignored"
    RESOLVED = "resolved"
    REGRESSED = "regressed"


@dataclass(frozen=True, slots=True)
class Group:
    """Failures of a kind with one cause."""

    fingerprint: str
    kind: str
    failure_class: str
    error_code: str
    message: str | None
    first_seen_at: datetime
    last_seen_at: datetime | None
    failures: int
    last_hour: int
    dead: int
    state: str
    ignored_until: datetime | None
    resolved_at: datetime | None
    owner: str | None
    note: str | None
    changed_by: str | None
    changed_at: datetime | None
    # Of the users' code, the oldest first.
    releases: Sequence[str]


@dataclass(frozen=True, slots=True)
class Trait:
    """What the payloads of a group share, and how many successes have it too."""

    field: str
    value: str
    of_group: float
    of_successes: float


class Groups:
    """The groups of one installation."""

    def __init__(self, settings: Settings, listen: Listener = silent, *, by: str) -> None:
        self._sql = load("store/failures.sql", settings.schema_name)
        self._audit = AuditWriter(settings, listen)
        self._by = by

    async def page(
        self, conn: Conn, *, state: GroupState | None = None, kind: str | None = None, limit: int = 50
    ) -> list[Group]:
        """Groups, those with the most dead letters first."""
        return await self._groups(conn, None, state, kind, limit)

    async def lately(self, conn: Conn, limit: int) -> list[Group]:
        """Groups, those that were met most often in the last hour first."""
        return await self._groups(conn, None, None, None, limit, lately=True)

    async def show(self, conn: Conn, fingerprint: str) -> Group:
        """One group."""
        found = await self._groups(conn, fingerprint, None, None, 1)
        if not found:
            raise GroupNotFound(fingerprint)
        return found[0]

    async def hours(self, conn: Conn, fingerprint: str) -> Sequence[tuple[datetime, int]]:
        """How often it was met in each hour of the last days."""
        values = {"fingerprint": fingerprint, "days": DAYS_SHOWN}
        return await (await conn.execute(self._sql["group_hours"], values)).fetchall()

    async def sparks(self, conn: Conn, groups: Sequence[Group]) -> dict[str, list[int]]:
        """How often each of them was met in each of the last hours, by fingerprint."""
        values = {"fingerprints": [group.fingerprint for group in groups], "hours": SPARK_HOURS}
        return dict(await (await conn.execute(self._sql["sparks"], values)).fetchall())

    async def versions(self, conn: Conn, fingerprint: str) -> list[int]:
        """The versions of the payloads of its dead letters."""
        cursor = await conn.execute(self._sql["versions_of_group"], {"fingerprint": fingerprint})
        return [version for (version,) in await cursor.fetchall()]

    async def traits(self, conn: Conn, group: Group, mask: Mask) -> list[Trait]:
        """What its tasks have in common that tasks of the kind which completed have not."""
        if not mask.knows(group.kind):
            return []
        bounds = {"bytes_each": SAMPLE_BYTES_EACH, "bytes_max": SAMPLE_BYTES_MAX}
        of_group = {"fingerprint": group.fingerprint, "limit": GROUP_SAMPLE, **bounds}
        failed = await (await conn.execute(self._sql["payloads_of_group"], of_group)).fetchall()
        of_kind = {"kind": group.kind, "limit": SUCCESS_SAMPLE, **bounds}
        done = await (await conn.execute(self._sql["payloads_of_successes"], of_kind)).fetchall()

        def compare() -> list[Trait]:
            return traits_of(
                [mask.shown(group.kind, payload) for (payload,) in failed],
                [mask.shown(group.kind, payload) for (payload,) in done],
            )

        # In a thread: whoever else asks this process is answered meanwhile.
        return await asyncio.to_thread(compare)

    async def ignore(self, conn: Conn, fingerprint: str, until: datetime, reason: str) -> None:
        """Have nobody told of it until then."""
        check_moment("the end of ignoring a group", until)
        details = {"until": until}
        await self._set(
            conn, fingerprint, "ignore", Action.GROUP_IGNORE, reason, until=until, details=details
        )

    async def resolve(self, conn: Conn, fingerprint: str, reason: str) -> None:
        """Say that the cause is gone; if it is met again, the group has regressed."""
        await self._set(conn, fingerprint, "resolve", Action.GROUP_RESOLVE, reason)

    async def reopen(self, conn: Conn, fingerprint: str, reason: str) -> None:
        """Take back what was said of it."""
        await self._set(conn, fingerprint, "reopen", Action.GROUP_REOPEN, reason)

    async def note(self, conn: Conn, fingerprint: str, note: str | None, owner: str | None = None) -> None:
        """Write down what is known, or who looks after it."""
        details = {"note": note, "owner": owner}
        await self._set(
            conn, fingerprint, "note", Action.GROUP_NOTE, "", note=note, owner=owner, details=details
        )

    async def _groups(
        self,
        conn: Conn,
        fingerprint: str | None,
        state: str | None,
        kind: str | None,
        limit: int,
        *,
        lately: bool = False,
    ) -> list[Group]:
        values = {
            "fingerprint": fingerprint,
            "state": state,
            "kind": kind,
            "limit": limit,
            "most": EXACT_MAX,
            "releases": RELEASES_SHOWN,
            "lately": lately,
        }
        return [Group(*row) for row in await (await conn.execute(self._sql["groups"], values)).fetchall()]

    async def _set(  # noqa: PLR0913 (what the verbs have in common)
        self,
        conn: Conn,
        fingerprint: str,
        act: str,
        action: Action,
        reason: str,
        *,
        until: datetime | None = None,
        note: str | None = None,
        owner: str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        values = {
            "fingerprint": fingerprint,
            "act": act,
            "until": until,
            "note": note,
            "owner": owner,
            "by": self._by,
        }
        async with conn.transaction():
            row = await (await conn.execute(self._sql["set_group"], values)).fetchone()
            if row is None:
                raise GroupNotFound(fingerprint)
            told = {"fingerprint": fingerprint, **(details or {})}
            await self._audit.note(conn, action, Author(self._by, reason), kind=row[0], details=told)


def traits_of(failed: Sequence[str], done: Sequence[str]) -> list[Trait]:
    """Values of fields that most of the failed share and few of the others have, the most telling first."""
    if not failed:
        return []
    ours, theirs = _counted(failed), _counted(done)
    found = [
        Trait(field, value, count / len(failed), theirs[field, value] / len(done) if done else 0.0)
        for (field, value), count in ours.items()
        if count / len(failed) >= SHARED_MIN
    ]
    telling = [trait for trait in found if trait.of_successes <= ELSEWHERE_MAX]
    return sorted(telling, key=lambda trait: trait.of_successes - trait.of_group)[:TRAITS_SHOWN]


def _counted(payloads: Sequence[str]) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for payload in payloads:
        with suppress(JsonUnreadable):
            counted.update(set(_fields("", read_json(payload))))
    return counted


def _fields(path: str, value: object) -> Iterator[tuple[str, str]]:
    """Every value that is no list or object, by where it stands; and that a field is there at all."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(f"{path}.{name}" if path else name, inner)
    elif not isinstance(value, list):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) <= VALUE_CHARACTERS and text != STRUCK:
            yield path, text
