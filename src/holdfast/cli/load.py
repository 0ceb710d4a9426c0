"""Imports the user's app by its dotted path; only executors and their child processes do this."""

import importlib
import sys
import traceback
from pathlib import Path
from typing import Protocol, runtime_checkable

from holdfast.config import Settings
from holdfast.core.errors import AppNotFound
from holdfast.core.events import Listener
from holdfast.core.handler import Handlers


@runtime_checkable
class App(Protocol):
    """What a worker needs of an app."""

    listener: Listener

    @property
    def settings(self) -> Settings:
        """Where its tasks live."""

    @property
    def handlers(self) -> Handlers:
        """What it can run."""


def load(path: str) -> App:
    """The object at MODULE:NAME, looked for from the current folder first."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise AppNotFound(path, "write MODULE:NAME, for example shop.tasks:app")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # Whatever the app raises: its traceback, and a line of ours.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module_name}.".startswith(f"{missing}."):
            raise AppNotFound(path, f"there is no module {missing} in {here} or on the path") from error
        traceback.print_exc()
        raise AppNotFound(path, "importing it failed: the traceback is above") from error
    try:
        app = getattr(module, name)
    except AttributeError as error:
        raise AppNotFound(path, f"{module_name} has no {name}") from error
    if not isinstance(app, App):
        raise AppNotFound(path, f"{name} is a {type(app).__name__}, not a Holdfast app")
    return app
