"""Enqueues tasks in the caller's transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from uuid_utils import uuid7

from holdfast.config import Settings
from holdfast.core.bounds import check_task
from holdfast.core.errors import SQLSTATES, SchemaError
from holdfast.core.events import Listener, TasksEnqueued, silent
from holdfast.core.task import KEY_WINDOW_SECONDS, Enqueued, Moment, NewTask
from holdfast.db.bridges import AsyncBridge, Rows, SyncBridge
from holdfast.db.statements import load_all

# The schema is not there, or it is and the function is not.
NO_SUCH_FUNCTION = ("3F000", "42883")


class Enqueuer:
    """Writes new tasks through the one SQL function that makes them."""

    def __init__(self, settings: Settings, listen: Listener = silent) -> None:
        self._settings = settings
        self._listen = listen
        self._sql = load_all(["store/enqueue.sql", "store/followups.sql"], settings.schema_name)

    async def enqueue(
        self, bridge: AsyncBridge, tasks: Sequence[NewTask], key_seconds: float = KEY_WINDOW_SECONDS
    ) -> list[Enqueued]:
        """Add tasks in one statement; a key that stands for another task answers with that."""
        ids = self._check(tasks)
        rows: list[Any] = []
        with self._named_errors():
            for name, values in self._statements(ids, tasks, key_seconds):
                rows += await bridge.fetch(self._sql[name], values)
        return self._told(ids, tasks, rows)

    def enqueue_sync(
        self, bridge: SyncBridge, tasks: Sequence[NewTask], key_seconds: float = KEY_WINDOW_SECONDS
    ) -> list[Enqueued]:
        """The same, where calls block."""
        ids = self._check(tasks)
        rows: list[Any] = []
        with self._named_errors():
            for name, values in self._statements(ids, tasks, key_seconds):
                rows += bridge.fetch(self._sql[name], values)
        return self._told(ids, tasks, rows)

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Whatever the driver calls it: what the function refused, and a schema that is not there."""
        try:
            yield
        except Exception as error:
            for cause in (error, getattr(error, "orig", None), getattr(error, "__cause__", None)):
                code = str(getattr(cause, "sqlstate", None))
                if code in SQLSTATES:
                    diag = getattr(cause, "diag", None)
                    message = getattr(diag, "message_primary", None) or str(cause).splitlines()[0]
                    exception, _ = SQLSTATES[code]
                    raise exception(message) from error
                if code in NO_SUCH_FUNCTION:
                    schema = self._settings.schema_name
                    raise SchemaError(
                        f"the schema {schema} has no tables yet: run `holdfast migrate`, or set "
                        "HOLDFAST_SCHEMA to where they are"
                    ) from error
            raise

    def _check(self, tasks: Sequence[NewTask]) -> list[str]:
        for task in tasks:
            check_task(task, self._settings.payload_bytes_max)
        return [task.id or str(uuid7()) for task in tasks]

    def _statements(
        self, ids: Sequence[str], tasks: Sequence[NewTask], key_seconds: float
    ) -> Iterator[tuple[str, dict[str, object]]]:
        """One for all that can start, then one for each that comes after others."""
        plain = [(id_, task) for id_, task in zip(ids, tasks, strict=True) if not task.after]
        if plain:
            values = _columns([id_ for id_, _ in plain], [task for _, task in plain])
            yield "enqueue_many", values | {"key_seconds": key_seconds, "hints": self._settings.hints}
        for id_, task in zip(ids, tasks, strict=True):
            if task.after:
                yield "enqueue_after", _followup(id_, task) | {"key_seconds": key_seconds}

    def _told(self, ids: Sequence[str], tasks: Sequence[NewTask], rows: Rows) -> list[Enqueued]:
        known: dict[str, str] = dict(rows)
        enqueued = [Enqueued(known.get(id_, id_), id_ not in known) for id_ in ids]
        self._listen(TasksEnqueued(list(zip(tasks, enqueued, strict=True))))
        return enqueued


def _followup(id_: str, task: NewTask) -> dict[str, object]:
    return {
        "id": id_,
        "predecessors": list(task.after),
        "kind": task.kind,
        "payload": task.payload,
        "queue": task.queue,
        "priority": task.priority,
        "run_at": _at(task.run_at),
        "run_after": _after(task.run_at),
        "version": task.version,
        "subject": task.subject,
        "trace_id": task.trace_id,
        "key": task.key,
        "unique": str(task.unique),
        "expires_at": _at(task.expires_at),
        "expires_after": _after(task.expires_at),
        "bucket": task.bucket,
        "max_attempts": task.max_attempts,
        "timeout_seconds": task.timeout_seconds,
    }


def _columns(ids: Sequence[str], tasks: Sequence[NewTask]) -> dict[str, object]:
    """The tasks as arrays, a null for each column that nobody used."""
    columns: dict[str, list[object]] = {
        "kinds": [task.kind for task in tasks],
        "payloads": [task.payload for task in tasks],
        "queues": [task.queue for task in tasks],
        "priorities": [task.priority for task in tasks],
        "run_ats": [_at(task.run_at) for task in tasks],
        "run_after": [_after(task.run_at) for task in tasks],
        "versions": [task.version for task in tasks],
        "subjects": [task.subject for task in tasks],
        "trace_ids": [task.trace_id for task in tasks],
        "keys": [task.key for task in tasks],
        "uniques": [str(task.unique) for task in tasks],
        "expires_ats": [_at(task.expires_at) for task in tasks],
        "expires_after": [_after(task.expires_at) for task in tasks],
        "bucket_names": [task.bucket for task in tasks],
        "attempts_max": [task.max_attempts for task in tasks],
        "timeouts": [task.timeout_seconds for task in tasks],
    }
    values: dict[str, object] = {
        name: column if any(value is not None for value in column) else None
        for name, column in columns.items()
    }
    values["ids"] = list(ids)
    return values


def _at(moment: Moment | None) -> datetime | None:
    return moment if isinstance(moment, datetime) else None


def _after(moment: Moment | None) -> float | None:
    """A delay is added to the database's clock."""
    return moment.total_seconds() if isinstance(moment, timedelta) else None
