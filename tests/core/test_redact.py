"""Secrets are struck out by their looks and by their names, and what is no secret stays."""

import json
from collections.abc import Callable
from functools import partial
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.failure import (
    MESSAGE_CHARACTERS_MAX,
    STACK_CHARACTERS_MAX,
    ErrorCode,
    Failure,
    FailureClass,
)
from holdfast.core.fingerprint import origin_of_message
from holdfast.core.redact import (
    LOOKED_AT,
    SECRET_CHARACTERS_MAX,
    SECRETS_MAX,
    STRUCK,
    masked,
    redact,
    secrets_in,
)
from tests.cpu import least_seconds

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
    ("ours: hf_0123456789ab.abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456", "abcdefghijklmnopqrst"),
    ("clone with github_pat_11ABCDEFG0abcdefghijkl_xyz", "11ABCDEFG0abcdefghijkl"),
    ("maps: AIzaSyA-1234567890abcdefghijklmnopqrstu", "SyA-1234567890"),
    ("sendgrid SG.abcdefghijklmnop.qrstuvwxyz0123456789", "qrstuvwxyz0123456789"),
    ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "abcdefghijklmnopqrstuvwxyz"),
    ("POST https://hooks.slack.com/services/T000/B000/XXXXyyyy failed", "T000/B000/XXXXyyyy"),
    ("Command 'mysql --password hunter2 -u app' failed", "hunter2"),
    ("Command ['curl', '--auth-token', 'tok-77-abc'] failed", "tok-77-abc"),
    ("the card 4111111111111111 was declined", "4111111111111111"),
    ("the card 4111 1111 1111 1111 was declined", "1111 1111"),
    ("amex 3782-822463-10005", "822463"),
    ("google GOCSPX-abcdefghijklmnopqrstuvwx", "abcdefghijkl"),
    ("google ya29.a0AfH6SMBxxxxxxxxxxxxxx", "a0AfH6SMB"),
    ("vault hvs.CAESIJabcdefghijklmnop", "CAESIJabc"),
    ("pypi-AgEIcHlwaS5vcmcCJGabcdef", "IcHlwaS5"),
    ("shpat_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    ("dop_v1_0123456789abcdef", "0123456789abcdef"),
    ("glsa_0123456789abcdefABCDEF_01234567", "0123456789abcdef"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP PRIVATE KEY BLOCK-----", "lQOY"),
    ("https://discord.com/api/webhooks/123456/abc-DEF_ghi failed", "abc-DEF_ghi"),
    ("Authorization: ApiKey VnVhQ2ZHY0JDZGJrU", "VnVhQ2ZHY0JDZGJrU"),
    ("{'Authorization': 'Negotiate YIIJvwYGKwYBBQUC'}", "YIIJvwYGKwYBBQUC"),
    ("Cookie: theme=dark; PHPSESSID=el4ukv0kqbvoirg7", "el4ukv0kqbvoirg7"),
    (r'said {"error": "{\"password\": \"hunter2 x\", \"n\": 1}"}', "hunter2"),
    (r"said {\\\"password\\\": \\\"a\\\\\\\"hunter2\\\"}", "hunter2"),
    ("AccountKey=bm90LXJlYWxseS1hLWtleQ==;", "bm90LXJlYWxseS1hLWtleQ"),
]
KEPT = [
    "shot 3 of episode 7 timed out after 30 s",
    "https://api.example.com/v1/shots/17?page=2",
    "the token was refused",
    "secretary of state",
    "KeyError: 'password'",
    "compass north",
    "order 4111111111111112 is not a card",
    "at 1763525548000 ms, snowflake 1234567890123456789",
    "mkpass --force --passive mode",
    "cwd: /home, asn: 64500, class: first",
    "token expired at 12:00",
    "Invalid token provided",
    "basic authentication failed",
    "digest mismatch for layer",
    "signature: verification failed",
    "auth: connection refused",
    "pypi-mirror-of-the-company is away",
    "episode 0.4111111111111111",
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
    assert set(secrets_in(payload, ["card", "pin"]) or ()) == {"4111-1111", "123456", "zzzz"}
    shown = masked(payload, ["card", "pin"])
    assert "4111" not in shown
    assert "123456" not in shown
    assert "ada" in shown


@pytest.mark.catches("secret-names-by-case")
def test_the_case_of_a_secret_field_does_not_matter() -> None:
    payload = '{"Card": "4111-1111", "PIN": "9876"}'
    assert set(secrets_in(payload, ["card", "pin"]) or ()) == {"4111-1111", "9876"}
    assert masked(payload, ["CARD", "Pin"]) == '{"Card": "[redacted]", "PIN": "[redacted]"}'


def test_a_text_that_contains_a_very_short_secret_is_struck_out_whole() -> None:
    assert redact("cvc 123 is wrong", ["123"]) == STRUCK
    assert redact("the card was declined", ["123"]) == "the card was declined"


def failure_of(payload: object, message: str, **options: str) -> Failure:
    failure = Failure.of(FailureClass.TRANSIENT, message, **options)
    return failure.without(secrets_in(json.dumps(payload), ["card", "password"]))


@pytest.mark.parametrize(
    ("message", "secret"),
    [
        ("login failed password=correct horse battery staple", "correct horse battery staple"),
        ("login failed password=hunter2,Tr0ub4dor&3!xyz", "hunter2,Tr0ub4dor&3!xyz"),
        ("cannot connect postgres://u:s3cr3t/part2@host/db", "s3cr3t/part2"),
        ("Bearer abcdef9$rest-of-secret", "abcdef9$rest-of-secret"),
        (
            "password=" + "a" * 7_700 + " SECRET-" + "0123456789" * 5 + " z" * 1_000,
            "SECRET-" + "0123456789" * 5,
        ),
    ],
    ids=range(5),
)
@pytest.mark.catches("secrets-are-sought-after-patterns")
def test_no_part_of_a_secret_stays_where_a_pattern_finds_another_part(message: str, secret: str) -> None:
    kept = failure_of({"password": secret}, message, stack=message)
    assert not any(secret[at : at + 5] in kept.message for at in range(len(secret) - 5))
    assert not any(secret[at : at + 5] in (kept.stack or "") for at in range(len(secret) - 5))


def test_names_within_a_secret_field_are_struck_out() -> None:
    assert failure_of({"card": {"4111-2222-key": 1234}}, "no 4111-2222-key").message == f"no {STRUCK}"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_an_error_code_of_ours_is_never_redacted(code: ErrorCode) -> None:
    assert failure_of({"card": [code, "TASK_EXECUTION", "TASK"]}, "x", code=code).code == code


def test_a_code_that_is_no_plain_name_is_struck_out_whole() -> None:
    codes = [
        "PAYMENT_DECLINED",
        "upstream.503",
        "the card 4111",
        "token=abcdef99",
        "sk_live_51Habcdefghij",
        "A" * 101,
    ]
    kept = [Failure.of(FailureClass.PERMANENT, "x", code=code).code for code in codes]
    assert kept == ["PAYMENT_DECLINED", "upstream.503", STRUCK, STRUCK, STRUCK, STRUCK]


def test_secrets_that_overlap_are_struck_out_as_one() -> None:
    assert redact("<abcdefgh>", ["abcde", "defgh"]) == f"<{STRUCK}>"
    assert redact("abcdeabcdef", ["abcde", "abcdef", "bcd!"]) == STRUCK


# Each of these made the text longer when it was struck out of what had been put in for others.
BOMB = [STRUCK[at : at + size] for size in range(4, 10) for at in range(len(STRUCK) - size + 1)]
BOMB += [f"{STRUCK[at:]}{STRUCK[:to]}" for at in range(1, 9) for to in range(1, 9)]


@pytest.mark.catches("secrets-are-sought-in-what-was-put-in")
def test_secrets_like_what_is_put_in_for_them_do_not_make_a_text_grow() -> None:
    assert redact(f"the {STRUCK} of {STRUCK}{STRUCK}", BOMB, 10**6).count(STRUCK) <= 3
    assert redact("TASK_EXECUTION_FAILED", ["TASK_EXECUTION", *BOMB]) == f"{STRUCK}_FAILED"


@pytest.mark.alone
@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (STRUCK * 6_400, BOMB),
        ("a" * 64_000, ["aaaa"]),
        *(
            (
                "a" * 64_000,
                ["a" * side + chr(98 + one % 24) + chr(98 + one // 24) + "a" * side for one in range(300)],
            )
            for side in (3, 30, 128, 400)
        ),
        ("a" * 64_000, ["a" * (4 + one) for one in range(300)]),
        ("ab" * 32_000, [f"ab{one:04}" for one in range(300)]),
        ("aab" * 21_000, [f"{one:03}"[:3] for one in range(300)]),
        ("aab" * 21_000, ["bb", "aaa", "bab", *(f"{chr(200 + one)}aa" for one in range(17))]),
        (
            "".join(chr(0x4E00 + one % 20_000) for one in range(64_000)),
            [f"{chr(0x4E00 + one)}xyz" for one in range(300)],
        ),
    ],
    ids=range(11),
)
def test_the_cost_of_hostile_secrets_is_bounded(text: str, secrets: list[str]) -> None:
    work = partial(redact, text, secrets, STACK_CHARACTERS_MAX)
    assert least_seconds(work, SECONDS_MAX) < SECONDS_MAX


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from([text for text, _ in HIDDEN] + KEPT + [" ", "\n", '"', "a" * 300, STRUCK]), max_size=9
    )
)
def test_what_is_redacted_stays_as_it_is(texts: list[str]) -> None:
    once = redact(" ".join(texts))
    assert redact(once) == once


UNREADABLE = [
    "[" * 3_000 + "]" * 3_000,
    "[" * 65 + "]" * 65,
    '{"card": ' + "1" * 5_000 + "}",
    '{"card": ' + "1" * 400 + ".5}",
    '{"card": "' + "a" * 600_000 + '"}',
    "not JSON",
]


@pytest.mark.parametrize("payload", UNREADABLE, ids=range(len(UNREADABLE)))
@pytest.mark.catches("unreadable-payload-raises", "unreadable-payload-has-no-secrets")
def test_nothing_is_said_about_a_payload_whose_secrets_cannot_be_read(payload: str) -> None:
    secrets = secrets_in(payload, ["card"])
    assert secrets is None
    failure = Failure.of(FailureClass.TRANSIENT, f"declined {payload[:50]}", stack="line").without(secrets)
    assert (failure.message, failure.stack) == (STRUCK, STRUCK)
    assert json.loads(masked(payload, ["card"])).startswith("[unreadable: ")


def test_a_payload_with_too_many_secrets_has_its_messages_struck_out() -> None:
    many = [f"secret-{number}" for number in range(SECRETS_MAX * 4)]
    assert secrets_in(json.dumps({"card": many}), ["card"]) is None
    assert len(secrets_in(json.dumps({"card": many[:SECRETS_MAX]}), ["card"]) or ()) == SECRETS_MAX


# Secrets by their looks, each with what must not be seen of it.
STRADDLING = [
    "password=" + "Zq9" * 300,
    'api_key: "' + "Zq9 " * 300,
    "https://user:" + "Zq9" * 50 + "@host",
    "https://user:" + "Zq9" * 3_000 + "@host",
    "Bearer " + "Zq9" * 30,
    "ghp_" + "Zq9" * 10,
    "hf_0123456789ab." + "Zq9" * 14,
    "-----BEGIN PRIVATE KEY-----\n" + "Zq9\n" * 300,
]


@pytest.mark.parametrize("secret", STRADDLING, ids=range(len(STRADDLING)))
@pytest.mark.parametrize("limit", [400, MESSAGE_CHARACTERS_MAX])
@pytest.mark.catches("cut-shows-half-a-secret")
def test_no_secret_that_a_cut_goes_through_is_shown_in_part(secret: str, limit: int) -> None:
    # What stands before it shrinks as it is struck out, so that the place of the cut comes into sight.
    looked_at = LOOKED_AT * limit
    for cut_at in (limit, looked_at - SECRET_CHARACTERS_MAX, looked_at):
        for inside in range(1, min(len(secret), 60), 4):
            before = "password=" + "x" * (cut_at - inside - 10) + " "
            assert "Zq9" not in redact(before + secret + " and more" * 3_000, characters_max=limit)


@pytest.mark.parametrize("length", [8, 100, 256, 257, 1_000, 9_000])
@pytest.mark.catches("cut-shows-half-a-secret")
def test_no_value_of_the_payload_that_a_cut_goes_through_is_shown_in_part(length: int) -> None:
    secret = "".join(f"{number:x}Zq9" for number in range(length))[:length]
    for inside in range(4, min(length, 300), 31):
        message = "x" * (MESSAGE_CHARACTERS_MAX - inside) + " " + secret + " tail" * 3_000
        assert "Zq9" not in Failure.of(FailureClass.TRANSIENT, message).without([secret]).message
        before = "password=" + "x" * (LOOKED_AT * MESSAGE_CHARACTERS_MAX - inside - 10)
        text = f"{before} {secret}" + " tail" * 3_000
        assert "Zq9" not in redact(text, [secret], MESSAGE_CHARACTERS_MAX)


def test_what_is_kept_is_no_longer_than_asked() -> None:
    assert len(redact("a " * 10_000, characters_max=2_000)) == 2_000
    assert redact("short", characters_max=2_000) == "short"
    assert redact("", characters_max=2_000) == ""


PIECES = [
    "a-", "a", "Ab3_", "a.", "://", "a://", "://a@", "@", "=", ":", " ", "\n", '"', "'", "\\", "Bearer ",
    "token ", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY", "PRIVATE KEY ",
    "-----END ", "eyJ", "eyJ-", "eyJaaaaaaaa.", "AKIA", "sk_", "hf_aaaaaaaaaaaa.", "SG.", "SG.aaaaaaaaaaaa.",
    "npm_", "4 ", "4", "4111 1111 1111 1112 ", "4444-", "3782 822463 10005 ", "pass", "password", "password ",
    "password=", 'password="', "password=\\", 'password"  ', "auth-", "--", "-- ", " --a-", " --password",
    "'--password', ", "hooks.slack.com/services/", "session_", "api_key_", "\u202e", "\ud800", "\0", "é",
]  # fmt: skip
SECONDS_MAX = 0.05


def seconds_of(text: str) -> float:
    """The CPU time of the dearest of the ways that a text may take."""
    failure = Failure.of(FailureClass.TRANSIENT, text, origin="")
    known = [f"secret {number} of many" for number in range(SECRETS_MAX)]
    ways: tuple[Callable[[], object], ...] = (
        partial(Failure.of, FailureClass.TRANSIENT, text, origin=""),
        partial(redact, text, (), STACK_CHARACTERS_MAX),
        partial(origin_of_message, text),
        partial(failure.without, known),
    )
    return max(least_seconds(way, SECONDS_MAX) for way in ways)


@pytest.mark.alone
@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
@pytest.mark.catches("redaction-scans-again", "redaction-of-all-of-a-text")
def test_the_cost_of_a_hostile_text_is_bounded(piece: str) -> None:
    assert seconds_of(piece * (1_000_000 // len(piece))) < SECONDS_MAX


@pytest.mark.alone
def test_the_cost_of_what_real_systems_write_is_bounded() -> None:
    assert seconds_of("-".join(str(UUID(int=number * 7_919**8)) for number in range(10_000))) < SECONDS_MAX
    assert seconds_of("Zm9vYmFyYmF6_-Q0" * 20_000) < SECONDS_MAX
    rows = [{"card": "4111 1111", "token": f"t-{number}"} for number in range(9_000)]
    assert seconds_of(json.dumps(rows)) < SECONDS_MAX


@pytest.mark.alone
@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6), min_size=1, max_size=5))
def test_the_cost_of_any_repeated_text_is_bounded(pieces: list[str]) -> None:
    piece = "".join(pieces) or "a"
    assert seconds_of(piece * (200_000 // len(piece))) < SECONDS_MAX
