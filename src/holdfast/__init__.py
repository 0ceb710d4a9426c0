"""Holdfast: background work that is kept, fenced and operable, in your own PostgreSQL."""

from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.api.handles import TaskHandle
    from holdfast.api.kinds import Kind
    from holdfast.app import Holdfast
    from holdfast.config import Settings
    from holdfast.core.backoff import Backoff
    from holdfast.core.errors import HoldfastError
    from holdfast.core.handler import Bulk, Candidate, Guarded, Task
    from holdfast.core.limit import Limit
    from holdfast.core.outcome import Cancel, Complete, Fail, Retry, Snooze
    from holdfast.core.polling import Polling
    from holdfast.core.schedule import Cron

__all__ = [
    "Backoff",
    "Bulk",
    "Cancel",
    "Candidate",
    "Complete",
    "Cron",
    "Fail",
    "Guarded",
    "Holdfast",
    "HoldfastError",
    "Kind",
    "Limit",
    "Polling",
    "Retry",
    "Settings",
    "Snooze",
    "Task",
    "TaskHandle",
    "hours",
    "minutes",
    "seconds",
]

# Each name is loaded when it is first used: whoever needs one of them does not pay for all.
_HOMES = {
    "Backoff": "holdfast.core.backoff",
    "Bulk": "holdfast.core.handler",
    "Cancel": "holdfast.core.outcome",
    "Complete": "holdfast.core.outcome",
    "Cron": "holdfast.core.schedule",
    "Fail": "holdfast.core.outcome",
    "Guarded": "holdfast.core.handler",
    "Holdfast": "holdfast.app",
    "HoldfastError": "holdfast.core.errors",
    "Kind": "holdfast.api.kinds",
    "Limit": "holdfast.core.limit",
    "Polling": "holdfast.core.polling",
    "Retry": "holdfast.core.outcome",
    "Settings": "holdfast.config",
    "Snooze": "holdfast.core.outcome",
    "Candidate": "holdfast.core.handler",
    "Task": "holdfast.core.handler",
    "TaskHandle": "holdfast.api.handles",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"holdfast has no {name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__


def seconds(count: float) -> timedelta:
    """So many seconds."""
    return timedelta(seconds=count)


def minutes(count: float) -> timedelta:
    """So many minutes."""
    return timedelta(minutes=count)


def hours(count: float) -> timedelta:
    """So many hours."""
    return timedelta(hours=count)
