"""Reads stored payloads and results within a bounded time and depth.

A new payload is bounded when it is enqueued (`core/bounds.py`). Older rows, results and rows written past the
functions are not. What cannot be read is shown to people as `[unreadable: …]`, and fails its own task where a
worker needs it.
"""

import json
import re

from holdfast.core.errors import JsonUnreadable

# Arrays and objects inside one another, and how many of them.
DEPTH_MAX = 64
CONTAINERS_MAX = 20_000
CHARACTERS_MAX = 500_000
# Arrays, objects and what stands in them: people are shown no more, because it takes long to write.
VALUES_MAX = 10_000
# More than a double can hold. Python reads no integer of more than 4,300 digits.
DIGITS_MAX = 308
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*+"')
_BETWEEN_BRACKETS = re.compile(r"[^]\[{}]++")
_LONG_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{{DIGITS_MAX + 1}}}")


def check_json(text: str, *, characters_max: int = CHARACTERS_MAX, values_max: int = CHARACTERS_MAX) -> None:
    """Raise `JsonUnreadable` if a stored text is too much for a reader; nothing is parsed for it."""
    if len(text) > characters_max:
        raise JsonUnreadable(f"it has {len(text)} characters, and no more than {characters_max} are read")
    # More than there are, if some stand in strings.
    containers = text.count("[") + text.count("{")
    values = text.count(",") + containers
    if containers <= DEPTH_MAX and values <= values_max and _LONG_NUMBER.search(text) is None:
        return
    bare = _STRINGS.sub("", text)
    brackets = _BETWEEN_BRACKETS.sub("", bare)
    if len(brackets) > 2 * CONTAINERS_MAX:
        raise JsonUnreadable(f"it has more than {CONTAINERS_MAX} arrays and objects")
    if bare.count(",") + len(brackets) // 2 > values_max:
        raise JsonUnreadable(f"it has more than {values_max} values")
    if _LONG_NUMBER.search(bare) is not None:
        raise JsonUnreadable(f"it holds a number of more than {DIGITS_MAX} digits")
    for _ in range(DEPTH_MAX):
        # Whatever has nothing in it goes, and what it stood in is the next to have nothing in it.
        brackets = brackets.replace("[]", "").replace("{}", "")
    if brackets:
        raise JsonUnreadable(f"it is nested more than {DEPTH_MAX} deep")


def read_json(text: str) -> object:
    """The value of a stored JSON text; raises `JsonUnreadable`."""
    check_json(text, values_max=VALUES_MAX)
    try:
        return json.loads(text)
    except ValueError:
        raise JsonUnreadable("it is not JSON") from None


def shown_json(text: str | None) -> object:
    """The value of a stored JSON text as people see it; one that cannot be read says so in its place."""
    try:
        return None if text is None else read_json(text)
    except JsonUnreadable as error:
        return why_unreadable(error)


def why_unreadable(error: JsonUnreadable) -> str:
    """What stands in the place of a value that cannot be read."""
    return f"[unreadable: {error}]"
