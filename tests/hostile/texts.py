"""Hostile texts, payloads and answers, each made of a number: the same one anywhere, and told by it."""

import json
import random

PIECES = (
    "a-", "a", "Ab3_", "://", "a://b@", "@", "=", " ", '"', "'", "\\", "Bearer ", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "eyJ-", "sk_", "hf_aaaaaaaaaaaa.", "SG.", "4111 1111 1111 1112 ", "4",
    "password=", 'password="', "--password ", "token:", "0123abcd-0123-4567-89ab-0123456789ab-", "\n", "\t",
    "{", "[", "%s", "{0}", "<script>alert(1)</script>", "'; drop table tasks; --", "[bold]", "é", "中",
    "\U0001f4a5",
)  # fmt: skip
CONTROLS = (
    "\x1b]0;pwned\x07", "\x1b[2J", "\x1b[31m", "\x9b31m", "\r", "\x08", "\x7f", "\x00", "\u202e", "\u2066",
    "\u2028", "\ud800", "\udfff", "\ufeff", "\x85",
)  # fmt: skip
SIZES = (10, 100, 1_000, 2_001, 8_001, 20_000, 70_000)
NAMES = ("card", "Card", "password", "", "\x1b", "$ref", "__proto__", "payload", "a.b", "\u202e")


def text(number: int) -> str:
    """A message as a handler, a receiver or a client may write it."""
    rng = random.Random(f"text {number}")
    size = rng.choice(SIZES)
    pieces = rng.choices(PIECES + CONTROLS, k=rng.randint(1, 4))
    many = "".join(pieces)
    return (many * (size // len(many) + 1))[:size]


def payload(number: int) -> str:
    """A payload or a result as JSON text; some are no JSON, and some are none that PostgreSQL takes."""
    rng = random.Random(f"payload {number}")
    made = rng.choice(_PAYLOADS)(rng)
    return made if rng.random() < 0.3 else f'{{"card": "4111-{number:06}", "n": {number}, "deep": {made}}}'


def _nested(rng: random.Random) -> str:
    depth = rng.choice((10, 63, 64, 65, 200, 990, 1_500, 5_000))
    opening, closing = rng.choice((("[", "]"), ('{"a":', "}"), ('[{"card":', "}]")))
    return opening * depth + "1" + closing * depth


def _number(rng: random.Random) -> str:
    digits = "9" * rng.choice((20, 308, 309, 4_300, 4_301, 5_000, 50_000))
    return rng.choice((digits, f"-{digits}", f"{digits}.5", f"0.{digits}", "1e400", "1e-400", "-0.0", "NaN"))


def _wide(rng: random.Random) -> str:
    many = rng.choice((100, 9_000, 60_000))
    one = rng.choice(("[]", "{}", "0", '"a"', "0.1", "null", '{"card":1}'))
    return "[" + ",".join([one] * many) + "]"


def _fields(rng: random.Random) -> str:
    many = rng.choice((10, 1_000, 12_000))
    return json.dumps({f"{rng.choice(NAMES)}{number}": text(number)[:20] for number in range(many)})


def _string(rng: random.Random) -> str:
    return json.dumps(text(rng.randrange(10_000)))


def _secrets(rng: random.Random) -> str:
    many = rng.choice((1, 50, 500))
    values = [rng.choice((f"secret-{one}", "", "1", None, True, one)) for one in range(many)]
    return json.dumps({"card": values})


def _broken(rng: random.Random) -> str:
    return rng.choice(("{", "", "[1,]", "nul", '"\\ud800"', '"\\u0000"', '{"a": 1}}', "\x00", "[" * 100_000))


_PAYLOADS = (_nested, _number, _wide, _fields, _string, _secrets, _broken)


def answer(number: int) -> bytes:
    """What a receiver of webhooks sends back, HTTP or not."""
    rng = random.Random(f"answer {number}")
    body = text(number).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        body = rng.randbytes(rng.choice((1, 100, 5_000)))
    hint = text(number + 1)[:200].encode("ascii", "replace").replace(b"\n", b" ").replace(b"\r", b" ")
    ok = b"200 OK"
    head = rng.choice((ok, ok, ok, b"204 None", b"500 \x1b[2J", b"429 Slow", b"302 There"))
    length = rng.choice((len(body), len(body), len(body) + 7, 0))
    made = b"HTTP/1.1 %s\r\nRetry-After: %s\r\nX-Odd: \x9b31m\r\n" % (head, hint)
    made += b"Content-Length: %d\r\n\r\n" % length
    return rng.choice((made + body, made + body, made + body, body, b"HTTP/1.1 999999 \r\n\r\n", made[:40]))
