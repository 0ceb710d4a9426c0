"""The entry of the fork server: `python -m holdfast.cli.processes.fork_server APP SOCKET PARENT`."""

import sys

from holdfast.cli.load import load
from holdfast.core.events import Event
from holdfast.core.handler import Finisher, Handlers
from holdfast.observe.log import LogLines
from holdfast.worker.executor.finish import Finishing
from holdfast.worker.executor.fork_server import serve


def _loaded(path: str) -> tuple[Handlers, Finisher]:
    app = load(path)
    app.listener = _tell
    return app.handlers, Finishing(app.settings, app.handlers)


def _tell(event: Event, /) -> None:
    """Write at once: the thread of a listener made before the fork would not be there."""
    lines = LogLines()
    lines(event)
    lines.flush()


if __name__ == "__main__":
    path, descriptor, parent = sys.argv[1:]
    serve(int(descriptor), int(parent), lambda: _loaded(path))
