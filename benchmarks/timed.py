"""The app of a worker whose listener of counts is timed by its own thread's clock."""

import os
import time
from pathlib import Path

from tests.apps import app as app

from benchmarks.apps import TOOK
from holdfast.core.events import Event, TasksSettled
from holdfast.observe.counters import ProcessCounters

_took = 0.0
_add_up = ProcessCounters.__call__


def _timed(counted: ProcessCounters, event: Event, /) -> None:
    global _took
    began = time.thread_time()
    _add_up(counted, event)
    _took += time.thread_time() - began
    if isinstance(event, TasksSettled):
        (Path(os.environ[TOOK]) / str(os.getpid())).write_text(str(_took))


ProcessCounters.__call__ = _timed  # type: ignore[method-assign]
