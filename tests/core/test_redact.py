"""Secrets are struck out by their looks and by their names, and what is no secret stays."""

import json

import pytest

from holdfast.core.failure import Failure, FailureClass
from holdfast.core.redact import STRUCK, masked, redact, secrets_in

HIDDEN = [
    ("postgres://app:hunter2secret@db/prod failed", "hunter2secret"),
    ("https://user:p%40ss-word-9@api.example.com/x", "p%40ss-word-9"),
    ("redis://:only-a-password@cache:6379/0", "only-a-password"),
    ("https://token-abc123@host/x", "token-abc123"),
    ("password=correct-horse-battery", "correct-horse-battery"),
    ("passwd: 'staple 9 x'", "staple 9 x"),
    ('{"api_key": "k-991-zzz", "x": 1}', "k-991-zzz"),
    ("Authorization: Bearer abc.def-ghi_jkl", "abc.def-ghi_jkl"),
    ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ("X-Api-Token: tok_live_9911aa", "tok_live_9911aa"),
    ("client_secret=cs-77-value&grant=x", "cs-77-value"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcDEF123", "eyJhbGciOiJIUzI1NiJ9"),
    ("key AKIAIOSFODNN7EXAMPLE was refused", "AKIAIOSFODNN7EXAMPLE"),
    ("stripe said sk_live_51Habcdefghij no", "sk_live_51Habcdefghij"),
    ("whsec_MfKQ9r8GKYqrTwjU is wrong", "whsec_MfKQ9r8GKYqrTwjU"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow==\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("session_id=s-1234567890;", "s-1234567890"),
    ("cookie: sid=abc.def", "sid=abc.def"),
    ("github ghp_abcdefghij1234567890", "ghp_abcdefghij1234567890"),
    ("dsn=host=db-secret-place", "db-secret-place"),
]
KEPT = [
    "shot 3 of episode 7 timed out after 30 s",
    "https://api.example.com/v1/shots/17?page=2",
    "the token was refused",
    "secretary of state",
    "KeyError: 'password'",
    "compass north",
]


@pytest.mark.parametrize(("text", "secret"), HIDDEN)
@pytest.mark.catches("urls-keep-their-passwords")
def test_what_looks_like_a_secret_is_struck_out(text: str, secret: str) -> None:
    struck = redact(text)
    assert secret not in struck
    assert STRUCK in struck


@pytest.mark.parametrize("text", KEPT)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_a_failure_holds_no_secret_in_message_or_stack() -> None:
    failure = Failure.of(FailureClass.TRANSIENT, "token=abcdef123", stack="line\npassword=zzz-999\n")
    assert "abcdef123" not in failure.message
    assert "zzz-999" not in (failure.stack or "")


def test_fields_that_a_kind_calls_secret_are_found_at_any_depth() -> None:
    payload = json.dumps(
        {"card": "4111-1111", "user": {"pin": 123456, "name": "ada"}, "list": [{"pin": "zzzz"}]}
    )
    assert set(secrets_in(payload, ["card", "pin"])) == {"4111-1111", "123456", "zzzz"}
    shown = masked(payload, ["card", "pin"])
    assert "4111" not in shown
    assert "123456" not in shown
    assert "ada" in shown
