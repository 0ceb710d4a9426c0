"""Masks secret fields in payloads and results, and all values of undeclared kinds."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from holdfast.config import Settings
from holdfast.core.errors import JsonUnreadable
from holdfast.core.handler import Handlers
from holdfast.core.redact import STRUCK, masked
from holdfast.core.stored_json import read_json, why_unreadable
from holdfast.core.task import TaskView
from holdfast.db.connect import Conn
from holdfast.store.kinds import Declarations
from holdfast.store.schedules import ScheduleView


class Mask:
    """The secret fields of some kinds; a kind that is not among them was declared by nobody."""

    def __init__(self, fields: Mapping[str, Collection[str]]) -> None:
        self._fields = fields

    def knows(self, kind: str) -> bool:
        """Whether anybody has declared which fields of a kind are secret."""
        return kind in self._fields

    def shown(self, kind: str, document: str) -> str:
        """A payload or result as people see it."""
        fields = self._fields.get(kind)
        return keys_only(document) if fields is None else masked(document, fields)

    def task(self, view: TaskView) -> TaskView:
        """A task as people see it."""
        payload, result = (
            None if document is None else self.shown(view.kind, document)
            for document in (view.payload, view.result)
        )
        return replace(view, payload=payload, result=result)

    def schedule(self, view: ScheduleView) -> ScheduleView:
        """A schedule as people see it."""
        return replace(view, payload=self.shown(view.kind, view.payload))


async def mask_for(
    conn: Conn, settings: Settings, kinds: Iterable[str], handlers: Handlers | None = None
) -> Mask:
    """What is declared of these kinds, read in one query, with what the app of this process adds."""
    wanted = set(kinds)
    fields = await Declarations(settings).secrets_of(conn, wanted)
    for kind in wanted & (handlers or {}).keys():
        fields[kind] = fields.get(kind, frozenset()) | set((handlers or {})[kind].secrets)
    return Mask(fields)


def keys_only(document: str) -> str:
    """The keys of an object with every value struck out; anything else is struck out whole."""
    try:
        found = read_json(document)
    except JsonUnreadable as error:
        return json.dumps(why_unreadable(error))
    shown = dict.fromkeys(found, STRUCK) if isinstance(found, dict) else STRUCK
    return json.dumps(shown, ensure_ascii=False)
