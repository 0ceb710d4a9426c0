"""Removes secrets from text before it is stored: known patterns and a payload's secret fields.

Text comes from outside, so its cost is bounded: no more is looked at than four times what is kept, and every
pattern takes time in proportion to that. A pattern must not scan the same stretch from many starting points:
each of its unbounded parts is possessive, and either begins after a literal that the part itself cannot
contain or consumes what it has scanned. `tests/core/test_redact.py` measures it.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from urllib.parse import urlsplit

from holdfast.core.errors import JsonUnreadable
from holdfast.core.stored_json import read_json, why_unreadable

STRUCK = "[redacted]"
# A shorter value stands in too much of a text by chance: the whole text is struck out instead.
SECRET_CHARACTERS_MIN = 4
# Of a longer value only the beginning is looked for; what follows it is struck out to the end of the text.
SECRET_CHARACTERS_MAX = 256
# A payload with more secret values than this has its messages struck out whole; each may have three forms.
SECRETS_MAX = 100
SHORT_SECRETS_MAX = 20
# Of a text with more places at which a secret may begin, nothing is kept: looking at each takes too long.
COMPARED_MAX = 10_000
# Up to so many, a search for each is quicker than a look at every place: for one, two hundred times.
SEARCHES_MAX = 64
CHARACTERS_MAX = 16_000
# How much more than is kept is looked at, so that a secret is found whole before the text is cut.
LOOKED_AT = 4
CUT = "…"
# A longer first segment of a URL's path is more likely a token than a word.
SEGMENT_CHARACTERS_MAX = 20


def _one_of(*words: str, part: bool = False) -> str:
    """A pattern for one of these words in any case, at the beginning of a word, or also as part of one.

    It begins with the set of their first letters, because the engine skips to one of a set five times as fast
    as it tries words. Each word begins with a letter and may go on as a pattern.
    """
    firsts = sorted({word[0] for word in words})
    either = "|".join(
        f"(?<={first})(?:{'|'.join(word[1:] for word in words if word[0] == first)})" for first in firsts
    )
    begins = f"[{''.join(firsts)}{''.join(firsts).upper()}]"
    return f"(?:{begins}{'' if part else '(?<![A-Za-z0-9_].)'}(?i:{either}))"


_NAME = _one_of(
    "pass(?:word|wd|phrase)?", "pwd", "secret", "token", "api[_-]?key", "access[_-]?key", "account[_-]?key",
    "private[_-]?key", "client[_-]?secret", "authorization", "credential", "session[_-]?id", "cookie", "dsn",
    part=True,
)  # fmt: skip
_ASSIGNED = r"""\b(?:\\{0,8}["'])?\s*+[=:]\s*+"""
# They also begin sentences: `auth: connection refused`.
_WORD = _one_of("auth", "signature", part=True)
_SENTENCE = r"[a-z]{2,20} [a-z]{2,20}\b"
_SCHEME = _one_of("bearer", "basic", "digest", "token")
# A quoted value whose end was cut off ends with the text. What is struck out already is a value too.
_VALUE = (
    r"""(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|'(?:[^'\\]|\\.)*+(?:'|\\?\Z)|(?:\[redacted\]|[^\s,;&)}\]"'])++)"""
)
# JSON within a string of JSON, at any depth: it ends at the quotation mark that is escaped as the first one.
_ESCAPED_VALUE = r"""(?P<mark>\\{1,8}["'])(?:[^\\"']|\\++(?!["'])|(?!(?P=mark))\\++["'])*+(?P=mark)?+"""


def _luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of a card number."""
    doubled = (int(one) * 2 for one in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(one - 9 if one > 9 else one for one in doubled)) % 10 == 0


def _card(found: re.Match[str]) -> str:
    digits = found[0].replace(" ", "").replace("-", "")
    return STRUCK if _luhn(digits) else found[0]


_PATTERNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # A key in its armour, whatever stands around it.
    (
        re.compile(
            r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.S,
        ),
        STRUCK,
    ),
    # scheme://user:password@host, with or without a user; a password may hold an @ itself. What is longer
    # than any name of a host is a password whose end was cut off.
    (re.compile(r"://(?:[^\s/'\"<>]*@|[^\s/'\"<>]{256,}+)"), f"://{STRUCK}@"),
    # The path of a webhook is its secret.
    (
        re.compile(r"(?P<host>hooks\.slack\.com/(?:services|workflows|triggers)/)[^\s\"'<>]++"),
        rf"\g<host>{STRUCK}",
    ),
    (
        re.compile(r"(?P<host>discord(?:app)?\.com/api/(?:v\d{1,3}/)?webhooks/)[^\s\"'<>]++"),
        rf"\g<host>{STRUCK}",
    ),
    # Authorization: SCHEME TOKEN, and Cookie: NAME=VALUE; NAME=VALUE
    (
        re.compile(
            rf"(?P<name>{_one_of('authorization', part=True)}\b[\"']?\s*+[=:]\s*+[\"']?"
            rf"(?:{_SCHEME}[ \t]++)?+)(?!\[redacted\])[^\s\"',;]++(?:[ \t]++[^\s\"',;]++)?"
        ),
        rf"\g<name>{STRUCK}",
    ),
    (
        re.compile(
            rf"(?P<name>{_one_of('cookie', part=True)}\b[\"']?\s*+[=:]\s*+[\"']?)"
            r"[^\s;\"']++(?:;[ \t]*+[^\s;\"']++)++"
        ),
        rf"\g<name>{STRUCK}",
    ),
    # A scheme is a word of every day: what follows it is a token if it is long or holds a digit.
    (
        re.compile(
            rf"(?P<how>{_SCHEME})\s++(?=[\w.~+/=:-]{{16}}|(?:[^\W\d]|[.~+/=:-]){{0,15}}+\d)[\w.~+/=:-]{{6,}}+"
        ),
        rf"\g<how> {STRUCK}",
    ),
    # password=…, "api_key": "…", X-Api-Token: …
    (
        re.compile(rf"(?P<name>{_NAME}{_ASSIGNED})(?!{_SCHEME}\s)(?:{_ESCAPED_VALUE}|{_VALUE})", re.S),
        rf"\g<name>{STRUCK}",
    ),
    (
        re.compile(
            rf"(?P<name>{_WORD}{_ASSIGNED})(?!{_SENTENCE}|{_SCHEME}\s)(?:{_ESCAPED_VALUE}|{_VALUE})", re.S
        ),
        rf"\g<name>{STRUCK}",
    ),
    # --password …, and the same as Python shows a list of arguments: '--password', '…'
    (
        re.compile(
            rf"(?P<name>--(?<![\w-]..)(?:[\w-]{{0,20}}-)?(?:{_NAME}|{_WORD})(?:[\"'],)?\s++)(?!-){_VALUE}",
            re.S,
        ),
        rf"\g<name>{STRUCK}",
    ),
    # Tokens that say themselves what they are.
    (re.compile(r"eyJ[\w-]{8,}+(?:\.[\w-]*+){0,2}"), STRUCK),
    (re.compile(r"(?:AKIA|ASIA)(?<!\w....)[A-Z0-9]{12,}+"), STRUCK),
    (
        re.compile(
            r"(?:[spr]k(?<!\w..)|whsec|gh[oprsu](?<!\w...)|glpat|xox[abeprs]|xapp|github_pat)[_-][\w-]{10,}+"
        ),
        STRUCK,
    ),
    (re.compile(r"(?:hf_(?<!\w...)\w{12,}+(?:\.[\w-]++)?|npm_(?<!\w....)[A-Za-z0-9]{20,}+)"), STRUCK),
    (re.compile(r"(?:AIza[\w-]{30,}+|SG\.(?<!\w...)[\w-]{12,}+\.[\w-]{12,}+)"), STRUCK),
    (
        re.compile(r"(?:GOCSPX-|ya29\.|hv[sb]\.|pypi-AgE|shp(?:at|ca|pa|ss)_|dop_v1_|glsa_)[\w.-]{10,}+"),
        STRUCK,
    ),
    # Card numbers: in one piece, in fours, or as American Express writes them.
    (
        re.compile(
            r"[2-6](?<![0-9A-Za-z.].)(?:\d{13,18}|\d{3}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{3}[ -]\d{6}[ -]\d{4,5})"
            r"(?![0-9A-Za-z])"
        ),
        _card,
    ),
)


def redact(text: str, secrets: Iterable[str] | None = (), characters_max: int = CHARACTERS_MAX) -> str:
    """The text without what looks like a secret and without the ones that are known, no longer than asked.

    `secrets` is None where they cannot be known: then nothing of the text is kept. The known ones are looked
    for in the text as it is given, so it must not have been redacted or cut before.
    """
    if secrets is None:
        return STRUCK if text else text
    looked_at = LOOKED_AT * characters_max
    whole = len(text) <= looked_at
    spans = _known(text[:looked_at], secrets)
    if spans is None:
        return STRUCK
    # It may end within a secret that would have been found, had its end been there.
    text = _without(text if whole else text[: looked_at - SECRET_CHARACTERS_MAX], spans)
    # What is put in may be longer than what was struck out.
    text, whole = text[:looked_at], whole and len(text) <= looked_at
    for pattern, instead in _PATTERNS:
        text = pattern.sub(instead, text)
        text, whole = text[:looked_at], whole and len(text) <= looked_at
    if not whole:
        text = text[:-SECRET_CHARACTERS_MAX] + CUT
    return text if len(text) <= characters_max else text[: characters_max - 1] + CUT


def _known(text: str, secrets: Iterable[str]) -> list[tuple[int, int]] | None:
    """Where these secrets stand, what overlaps as one; None if nothing of the text can be kept.

    All are looked for at once, by their first characters: their number adds little to what it costs.
    """
    # The longest first: one may begin with another.
    known = sorted(set(secrets), key=len, reverse=True)
    short = [secret for secret in known if len(secret) < SECRET_CHARACTERS_MIN]
    if text and (len(short) > SHORT_SECRETS_MAX or any(secret in text for secret in short)):
        return None
    by_beginning: dict[str, list[str]] = {}
    for secret in known[: len(known) - len(short)]:
        by_beginning.setdefault(secret[:SECRET_CHARACTERS_MIN], []).append(secret)
    if not by_beginning:
        return []
    # One more than may be compared: then their candidates are too many as well.
    places = sorted(islice(_places(text, by_beginning), COMPARED_MAX + 1))
    if sum(len(by_beginning[beginning]) for _, beginning in places) > COMPARED_MAX:
        return None
    spans: list[tuple[int, int]] = []
    for at, beginning in places:
        if end := _end(text, at, by_beginning[beginning]):
            if spans and at <= spans[-1][1]:
                began, ended = spans.pop()
                spans.append((began, max(end, ended)))
            else:
                spans.append((at, end))
    return spans


def _places(text: str, beginnings: Collection[str]) -> Iterator[tuple[int, str]]:
    """Where one of these begins: by a search for each, or, if they are many, by a look at every place."""
    if len(beginnings) > SEARCHES_MAX:
        size = SECRET_CHARACTERS_MIN
        places = [at for at in range(len(text) - size + 1) if text[at : at + size] in beginnings]
        yield from ((at, text[at : at + size]) for at in places)
        return
    for beginning in beginnings:
        at = text.find(beginning)
        while at >= 0:
            yield at, beginning
            at = text.find(beginning, at + 1)


def _end(text: str, at: int, candidates: Iterable[str]) -> int:
    """Where the longest of them ends that begins here; 0 if none does."""
    for secret in candidates:
        if text.startswith(secret[:SECRET_CHARACTERS_MAX], at):
            return at + len(secret) if len(secret) <= SECRET_CHARACTERS_MAX else len(text)
    return 0


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    pieces = []
    after = 0
    for begin, end in spans:
        if begin >= len(text):
            break
        pieces += [text[after:begin], STRUCK]
        after = end
    return "".join([*pieces, text[after:]])


def shown_url(url: str) -> str:
    """A URL without what may be a token: user, query, and the path after a first short segment."""
    parts = urlsplit(url)
    first, slash, rest = parts.path.removeprefix("/").partition("/")
    if len(first) > SEGMENT_CHARACTERS_MAX:
        first = STRUCK
    path = f"/{first}{slash}{STRUCK if rest else ''}"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}{f'?{STRUCK}' if parts.query else ''}"


def secrets_in(payload: str, fields: Iterable[str] | None) -> list[str] | None:
    """The values of the fields that a kind calls secret, at any depth of a payload, as text may show them.

    Where it is not known which are secret, that is every value. None if the payload cannot be read, or has
    too many of them: then no text about it can be trusted.
    """
    names = None if fields is None else frozenset(name.casefold() for name in fields)
    if names is not None and not names:
        return []
    try:
        found: dict[str, None] = {}
        for value in _values(read_json(payload), names):
            found.update(dict.fromkeys(value))
            if len(found) > 3 * SECRETS_MAX:
                return None
    except JsonUnreadable:
        return None
    return list(found)


def masked(payload: str, fields: Iterable[str]) -> str:
    """The payload as people may see it, as JSON: the fields that its kind calls secret struck out."""
    names = frozenset(name.casefold() for name in fields)
    if not names:
        return payload
    try:
        return json.dumps(_masked(read_json(payload), names), ensure_ascii=False)
    except JsonUnreadable as error:
        return json.dumps(why_unreadable(error))


def _values(found: object, names: frozenset[str] | None) -> Iterator[tuple[str, ...]]:
    left = [(found, names is None)]
    while left:
        value, within = left.pop()
        if isinstance(value, dict):
            if within and names is not None:
                # A short key is a name such as id or cvc, and no secret.
                left += [(name, True) for name in value if len(name) >= SECRET_CHARACTERS_MIN]
            left += [
                (one, names is None or within or name.casefold() in names) for name, one in value.items()
            ]
        elif isinstance(value, list):
            left += [(one, within) for one in value if within or isinstance(one, (dict, list))]
        elif within and not (value is None or isinstance(value, bool) or value == ""):
            text = str(value)
            # As it stands in a repr or in JSON, where that differs.
            yield text, repr(text)[1:-1], json.dumps(text)[1:-1]


def _masked(found: object, names: frozenset[str]) -> object:
    match found:
        case dict():
            return {
                name: STRUCK if name.casefold() in names and value is not None else _masked(value, names)
                for name, value in found.items()
            }
        case list():
            return [_masked(value, names) for value in found]
        case _:
            return found
