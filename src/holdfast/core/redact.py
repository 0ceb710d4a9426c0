"""Strikes secrets out of text before it is kept: by their looks, and by what a payload calls secret."""

import json
import re
from collections.abc import Iterable, Iterator

STRUCK = "[redacted]"
# A shorter value would strike out half of the text that it happens to stand in.
SECRET_CHARACTERS_MIN = 4

_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|"
    r"client[_-]?secret|authorization|auth|credential|signature|session[_-]?id|cookie|dsn"
)
_PATTERNS = (
    # A key in its armour, whatever stands around it.
    (
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
        STRUCK,
    ),
    # scheme://user:password@host, with or without a user; a password may hold an @ itself.
    (re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/'\"<>]*@", re.I), rf"\g<scheme>{STRUCK}@"),
    (re.compile(r"\b(?P<how>Bearer|Basic|Digest|Token)\s+[\w.~+/=:-]{6,}", re.I), rf"\g<how> {STRUCK}"),
    # password=…, "api_key": "…", X-Api-Token: …
    (
        re.compile(
            rf"(?P<name>\b[\w-]*(?:{_NAMES})\b[\"']?\s*[=:]\s*)"
            r"(?!\s*(?:Bearer|Basic|Digest|Token)\s)"
            r"(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s,;&)}\]\"']+)",
            re.I,
        ),
        rf"\g<name>{STRUCK}",
    ),
    # Tokens that say themselves what they are.
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"), STRUCK),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b"), STRUCK),
    (re.compile(r"\b(?:sk|pk|rk|whsec|ghp|gho|ghs|glpat|xox[abprs])[_-][\w-]{10,}"), STRUCK),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """The text without what looks like a secret, and without the ones that are known."""
    # The longest first: one may stand within another.
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, STRUCK)
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
    return text


def secrets_in(payload: str, fields: Iterable[str]) -> list[str]:
    """The values of the fields that a kind calls secret, at any depth of a payload, as text may show them."""
    names = frozenset(fields)
    if not names:
        return []
    try:
        found = json.loads(payload)
    except ValueError:
        return []
    return list(dict.fromkeys(_values(found, names, within=False)))


def masked(payload: str, fields: Iterable[str]) -> str:
    """The payload as people may see it: the fields that its kind calls secret struck out."""
    names = frozenset(fields)
    if not names:
        return payload
    return json.dumps(_masked(json.loads(payload), names), ensure_ascii=False)


def _values(found: object, names: frozenset[str], *, within: bool) -> Iterator[str]:
    match found:
        case dict():
            for name, value in found.items():
                yield from _values(value, names, within=within or name in names)
        case list():
            for value in found:
                yield from _values(value, names, within=within)
        case bool() | None:
            return
        case _ if within and len(text := str(found)) >= SECRET_CHARACTERS_MIN:
            yield text
            # As it stands in a repr or in JSON, where that differs.
            yield from {repr(text)[1:-1], json.dumps(text)[1:-1]} - {text}


def _masked(found: object, names: frozenset[str]) -> object:
    match found:
        case dict():
            return {
                name: STRUCK if name in names and value is not None else _masked(value, names)
                for name, value in found.items()
            }
        case list():
            return [_masked(value, names) for value in found]
        case _:
            return found
