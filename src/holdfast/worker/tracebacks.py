"""Formats exceptions and their stacks in a bounded time.

The text of an exception is the user's code, and its chain and groups may be of any size. Of pydantic's errors
the values are left out: it shortens them, so that a secret among them could not be found.
"""

import traceback
from collections.abc import Callable
from typing import TypeVar

from pydantic import ValidationError

from holdfast.core.fingerprint import chain_of

T = TypeVar("T")

FRAMES_MAX = 50
GROUP_MAX = 5
GROUP_DEPTH_MAX = 2
NOTES_MAX = 10
# Of more errors of pydantic only the number is told: it makes all of them to show one.
ERRORS_READ_MAX = 1_000
ERRORS_SHOWN_MAX = 3
PART_CHARACTERS_MAX = 100
# More than is looked at of a message.
TEXT_CHARACTERS_MAX = 20_000
UNREADABLE = "(its text cannot be read)"
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def tried(read: Callable[[], T], otherwise: T) -> T:
    """What it answers, or something else where it raises anything at all."""
    try:
        return read()
    except BaseException:  # noqa: BLE001 (the user's code, which may even leave the process)
        return otherwise


def text_of(error: BaseException) -> str:
    """What an exception says of itself, if it can."""
    return tried(lambda: _text(error), UNREADABLE)


def name_of(error: BaseException) -> str:
    """The name of its type."""
    return tried(lambda: str(type(error).__name__), "Exception")


def why_invalid(error: ValidationError) -> str:
    """The first errors of pydantic, with their places and without values, and how many more there are."""
    count = error.error_count()
    if count > ERRORS_READ_MAX:
        return f"{count} of its values are wrong or missing"
    found = error.errors(include_url=False, include_input=False, include_context=False)
    first = []
    for one in found[:ERRORS_SHOWN_MAX]:
        place = ".".join(str(part)[:PART_CHARACTERS_MAX] for part in one["loc"])
        first.append(f"{place}: {one['msg']}" if place else one["msg"])
    more = f"; and {count - ERRORS_SHOWN_MAX} more" if count > ERRORS_SHOWN_MAX else ""
    return "; ".join(first) + more


def stack_of(error: BaseException) -> str:
    """The stack of an exception and of what it came of, as Python writes them, the last one last."""
    return tried(lambda: _stack(error, 0), f"{name_of(error)}: {text_of(error)}")


def _text(error: BaseException) -> str:
    text = why_invalid(error) if isinstance(error, ValidationError) else str(error)
    return text[:TEXT_CHARACTERS_MAX]


def _stack(error: BaseException, depth: int) -> str:
    pieces: list[str] = []
    later: BaseException | None = None
    for one in chain_of(error):
        if later is not None:
            pieces.append(_CAUSED if later.__cause__ is one else _DURING)
        pieces.append(_alone(one, depth))
        later = one
    return "".join(reversed(pieces))


def _alone(error: BaseException, depth: int) -> str:
    lines = []
    if error.__traceback__ is not None:
        lines = ["Traceback (most recent call last):\n"]
        lines += traceback.format_tb(error.__traceback__, -FRAMES_MAX)
    kind = type(error)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    text = text_of(error)
    lines.append(f"{module}{kind.__qualname__}: {text}\n" if text else f"{module}{kind.__qualname__}\n")
    for note in list(getattr(error, "__notes__", None) or ())[:NOTES_MAX]:
        lines.append(f"{note}"[:TEXT_CHARACTERS_MAX] + "\n")
    if isinstance(error, BaseExceptionGroup) and depth < GROUP_DEPTH_MAX:
        for number, one in enumerate(error.exceptions[:GROUP_MAX], 1):
            lines.append(f"--- {number} of {len(error.exceptions)} in this group ---\n")
            lines.append(_stack(one, depth + 1))
    return "".join(lines)
