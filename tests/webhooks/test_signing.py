"""Signatures, with the library of those who wrote the standard down as the oracle."""

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime

import pytest
import standardwebhooks
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import Misused
from holdfast.webhooks import NotOurs, verify
from holdfast.webhooks.signing import Key, bytes_of, new_secret, signed

BODY = b'{"type":"render.done","data":{"who":"\xc3\xa5"}}'


def headers_of(
    secret: str, body: bytes = BODY, at: int | None = None, event: str = "evt_1"
) -> dict[str, str]:
    return signed([Key("k", bytes_of(secret))], event, at or int(time.time()), body)


@given(st.binary(max_size=300), st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True))
@pytest.mark.catches("signature-without-time")
def test_what_we_sign_the_standards_own_library_takes(body: bytes, event: str) -> None:
    secret, at = new_secret(), datetime.now(UTC)
    headers = headers_of(secret, body, int(at.timestamp()), event)
    oracle = standardwebhooks.Webhook(secret)
    text = body.decode("latin-1")
    assert (
        oracle.sign(event, at, text)
        == headers_of(secret, text.encode(), int(at.timestamp()), event)["webhook-signature"]
    )
    assert verify(body, headers, secret) == event


def test_what_the_standards_own_library_signs_we_take() -> None:
    secret, at = new_secret(), datetime.now(UTC)
    signature = standardwebhooks.Webhook(secret).sign("msg_1", at, BODY.decode())
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": signature,
    }
    assert verify(BODY, headers, secret) == "msg_1"


@pytest.mark.catches("one-key-signs")
def test_while_keys_change_a_receiver_may_have_either() -> None:
    old, new, other = new_secret(), new_secret(), new_secret()
    headers = signed([Key("b", bytes_of(new)), Key("a", bytes_of(old))], "evt_1", int(time.time()), BODY)
    assert verify(BODY, headers, old) == verify(BODY, headers, new) == "evt_1"
    assert verify(BODY, headers, [other, old]) == "evt_1"
    with pytest.raises(NotOurs, match="none of its signatures"):
        verify(BODY, headers, other)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"webhook-timestamp": "soon"}, "is no number"),
        ({"webhook-id": "evt_2"}, "none of its signatures"),
        ({"webhook-id": ""}, "has no webhook-id"),
        ({"webhook-signature": "v1,"}, "none of its signatures"),
        ({"webhook-signature": "v1a,AAAA nonsense"}, "none of its signatures"),
    ],
)
def test_what_is_not_ours_is_refused(change: dict[str, str], says: str) -> None:
    secret = new_secret()
    with pytest.raises(NotOurs, match=says):
        verify(BODY, headers_of(secret) | change, secret)


@pytest.mark.catches("old-deliveries-are-good")
@pytest.mark.parametrize(("seconds", "says"), [(-1_000, "s ago"), (1_000, "s ahead")])
def test_what_is_not_of_now_is_refused(seconds: int, says: str) -> None:
    secret = new_secret()
    # From the moment of the test, not from that at which it was gathered.
    change = {"webhook-timestamp": str(int(time.time()) + seconds)}
    with pytest.raises(NotOurs, match=says):
        verify(BODY, headers_of(secret) | change, secret)


def test_another_body_is_refused() -> None:
    secret = new_secret()
    with pytest.raises(NotOurs):
        verify(BODY + b" ", headers_of(secret), secret)


def test_b7_the_plain_signature_is_that_of_the_body() -> None:
    secret = new_secret()
    key = base64.b64decode(secret.removeprefix("whsec_"))
    expected = hmac.new(key, BODY, hashlib.sha256).hexdigest()
    assert headers_of(secret)["x-signature-sha256"] == expected


@pytest.mark.parametrize("secret", ["whsec_", "whsec_!!", "whsec_AAAA", "whsec_" + "A" * 200])
def test_a_secret_that_is_none_is_refused(secret: str) -> None:
    with pytest.raises(Misused):
        bytes_of(secret)


def test_a_key_does_not_show_its_secret() -> None:
    assert "secret" not in repr(Key("key_1", b"very secret indeed"))
