"""Signs deliveries and verifies signatures for receivers.

Standard Webhooks 1.0: `id.timestamp.body` under HMAC-SHA256, one signature for each key that is in use while
keys change. Beside it stands a plain HMAC-SHA256 of the body alone, for receivers that know nothing else:
it does not say when it was sent, so whoever kept a delivery could send it again.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.errors import Misused, NotOurs

PREFIX = "whsec_"
SECRET_BYTES = 32
SECRET_BYTES_MIN = 16
SECRET_BYTES_MAX = 75
TOLERANCE_SECONDS = 300

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
PLAIN_SIGNATURE = "x-signature-sha256"
_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Key:
    """One secret that an endpoint's deliveries are signed with, and the name that the log knows it by."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key({self.id!r})"


def new_secret() -> str:
    """A secret as its owner is shown it, once."""
    return PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def bytes_of(secret: str) -> bytes:
    """The key that a secret stands for."""
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Misused(f"a secret is written {PREFIX} and base64: this one is not") from error
    if not SECRET_BYTES_MIN <= len(found) <= SECRET_BYTES_MAX:
        raise Misused(
            f"a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes: this one has {len(found)}"
        )
    return found


def signed(keys: Sequence[Key], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery; the first key is the one that a receiver of plain signatures has."""
    content = f"{message_id}.{timestamp}.".encode() + body
    return {
        ID: message_id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: " ".join(f"{_VERSION},{_base64(key.secret, content)}" for key in keys),
        PLAIN_SIGNATURE: hmac.new(keys[0].secret, body, hashlib.sha256).hexdigest(),
    }


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secret: str | Iterable[str],
    *,
    tolerance_seconds: float = TOLERANCE_SECONDS,
    now: float | None = None,
) -> str:
    """Answer the id of a delivery that is ours and fresh; raise `NotOurs` if it is not.

    `body` is the body as it came, before anything parsed it. The same id comes again when a delivery is tried
    again: keep those that were dealt with, and let a second one be.
    """
    found = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not found.get(name)]
    if missing:
        raise NotOurs(f"it has no {', '.join(missing)}")
    try:
        at = int(found[TIMESTAMP])
    except ValueError:
        raise NotOurs(f"{TIMESTAMP} is no number") from None
    off = (time.time() if now is None else now) - at
    if abs(off) > tolerance_seconds:
        raise NotOurs(f"it was signed {abs(off):.0f} s {'ago' if off > 0 else 'ahead'}")
    content = f"{found[ID]}.{at}.".encode() + body
    given = [part.partition(",") for part in found[SIGNATURE].split(" ")]
    theirs = [signature.encode() for version, _, signature in given if version == _VERSION]
    for one in [secret] if isinstance(secret, str) else secret:
        ours = _base64(bytes_of(one), content).encode()
        if any(hmac.compare_digest(ours, signature) for signature in theirs):
            return found[ID]
    raise NotOurs("none of its signatures is of this secret and this body")


def _base64(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
