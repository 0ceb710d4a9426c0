"""Groups failures by their origin or by their message without its variable parts.

An exception is known by its type, its status and the frames of the app's own code (module:function, no
line numbers), and so are those that caused it. A failure without frames of its own is known by its
message, with ids, numbers, addresses and quoted values struck out.
"""

import hashlib
import re
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType

FRAMES_MAX = 12
CHAIN_MAX = 5
_MESSAGE_CHARACTERS = 500
_HERE = str(Path(__file__).parent.parent)
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} | {_HERE, "<frozen"}
)
# Names under which libraries keep what tells one error from another of the same type.
_STATUS = ("status_code", "status", "code", "errno", "sqlstate", "pgcode")

_PARTICULARS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]*`|«[^»\n]*»|“[^”\n]*”"), "<text>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s<>\"']+", re.I), "<url>"),
    (re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"), "<email>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.I), "<address>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b"), "<time>"),
    (re.compile(r"\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\[?\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{0,4}\b\]?(?::\d+)?", re.I), "<address>"),
    (re.compile(r"(?<![\w/])(?:[A-Za-z]:)?(?:[/\\][\w.@~+-]+){2,}[/\\]?"), "<path>"),
    # A word with digits in it is a name that somebody was given: order-1234, i-0abc12de, ULIDs, hashes.
    (re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{6,}\b"), "<id>"),
    (re.compile(r"\b[0-9a-f]{12,}\b", re.I), "<id>"),
    # A status says what happened; any other number says to whom.
    (
        re.compile(
            r"(?P<status>\b(?:HTTP(?:/\d(?:\.\d)?)?|status(?: code)?|errno|exit code|SQLSTATE)"
            r"[ :=#]*\d{1,5}\b)"
            r"|(?<![A-Za-z])[-+]?\d[\d_,.]*(?:e[-+]?\d+)?(?=\b|[A-Za-z%])",
            re.I,
        ),
        lambda found: found["status"] or "<number>",
    ),
    (re.compile(r"\s+"), " "),
)


def fingerprint(kind: str, code: str, origin: str) -> str:
    """The name of a group: sixteen characters, the same for the same failure on every machine."""
    return hashlib.sha256("\x1f".join((kind, code, origin)).encode("utf-8", "replace")).hexdigest()[:16]


def origin_of_error(error: BaseException, message: str, package: str = "") -> str:
    """Where an exception with this message came from; `package` is the handler's own."""
    parts = []
    own = False
    for one in chain_of(error):
        frames = list(_frames(one.__traceback__, package))
        own = own or bool(frames)
        parts.append("|".join([_name(one), *frames]))
    if own:
        return "\n".join(parts)
    return "\n".join([*(_name(one) for one in chain_of(error)), origin_of_message(message)])


def origin_of_message(message: str) -> str:
    """What a message says, without the particulars."""
    text = message[:_MESSAGE_CHARACTERS]
    for pattern, instead in _PARTICULARS:
        text = pattern.sub(instead, text)
    return text.strip()


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it came of, the last one first."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen and len(seen) < CHAIN_MAX:
        seen.add(id(one))
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _name(error: BaseException) -> str:
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    status = _status(error)
    return name if status is None else f"{name}:{status}"


def _status(error: BaseException) -> str | None:
    """What an HTTP client, a driver or the system says of it in one word."""
    for holder in (error, getattr(error, "response", None)):
        for attribute in _STATUS:
            found = getattr(holder, attribute, None)
            if isinstance(found, int) and (isinstance(found, bool) or found.bit_length() > 128):
                continue
            if isinstance(found, (int, str)) and len(str(found)) <= 40:
                return str(found)
    return None


def _frames(trace: TracebackType | None, package: str) -> Iterator[str]:
    """The app's own frames, outermost first, a loop of calls told once."""
    found: list[str] = []
    while trace is not None:
        frame = trace.tb_frame
        if _is_own(frame, package):
            name = f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}"
            if name not in found[-3:]:
                found.append(name)
        trace = trace.tb_next
    yield from found[-FRAMES_MAX:]


def _is_own(frame: FrameType, package: str) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    if package and (module == package or module.startswith(f"{package}.")):
        return True
    return not frame.f_code.co_filename.startswith(_LIBRARIES)
