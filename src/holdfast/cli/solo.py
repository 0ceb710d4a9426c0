"""The entry of the fork server: `python -m holdfast.cli.solo APP SOCKET PARENT`."""

import sys

from holdfast.cli.load import load
from holdfast.core.handler import Finisher, Handlers
from holdfast.runtime.finish import Finishing
from holdfast.runtime.solo import serve


def _loaded(path: str) -> tuple[Handlers, Finisher]:
    app = load(path)
    return app.handlers, Finishing(app.settings, app.handlers)


if __name__ == "__main__":
    path, descriptor, parent = sys.argv[1:]
    serve(int(descriptor), int(parent), lambda: _loaded(path))
