"""Failures of one cause fall into one group whatever the particulars; another cause makes another."""

import random
import uuid

import pytest

from holdfast.core.failure import Failure, FailureClass
from holdfast.core.fingerprint import origin_of_error, origin_of_message

# The same cause, met by two tasks.
SAME = [
    ("user 42 not found", "user 97 not found"),
    ("0190d1c2-7b7a-7c3e-8a57-5b3a0c1d2e3f is gone", "7f8e9d0c-1111-7222-8333-444455556666 is gone"),
    ("connection to 10.0.0.7:5432 refused", "connection to 192.168.4.21:6432 refused"),
    ("<Session object at 0x7f3a2c001d90> is closed", "<Session object at 0x55d0aa> is closed"),
    ("timed out after 30.5 s", "timed out after 12 s"),
    ("no such file: /tmp/render-8812/shot.mp4", "no such file: /tmp/render-17/shot.mp4"),
    ("invalid literal for int() with base 10: 'abc'", "invalid literal for int() with base 10: 'x y'"),
    ('unknown field "colour"', 'unknown field "size"'),
    ("GET https://a.example.com/v1/shots/17?page=2 failed", "GET https://a.example.com/v1/shots/9 failed"),
    ("mail to ada@example.com bounced", "mail to grace.hopper@navy.example.org bounced"),
    ("expired at 2026-11-15T10:00:00Z", "expired at 2025-01-02T23:59:59.123+01:00"),
    ("batch job-8812af failed", "batch job-11bc09 failed"),
    ("hash d41d8cd98f00b204e9800998ecf8427e differs", "hash 9e107d9d372bb6826bd81d3542a419d6 differs"),
    ("3 of 10 shots failed", "7 of 12 shots failed"),
    ("balance is -12.50, needs 100", "balance is -0.01, needs 250"),
    ("2001:db8:0:1:2:3:4:5 did not answer", "2001:db8:0:9:8:7:6:5 did not answer"),
    ("took 1,234,567 bytes", "took 99 bytes"),
    ("worker 12 lost shard 3 at 10:15", "worker 4 lost shard 11 at 23:59:01"),
    ("retry\nlater   please", "retry later please"),
    ("key `a` is taken", "key `b` is taken"),
    ("row 5 of table items is locked", "row 81234 of table items is locked"),
    ("cannot read “scene one”", "cannot read “scene two”"),
    ("C:\\renders\\a\\out.png is missing", "C:\\renders\\b\\frame.png is missing"),
    ("quota of 50% reached", "quota of 90% reached"),
    ("amount 1e9 is too large", "amount 2.5e+12 is too large"),
    ("version 3 is older than 7", "version 10 is older than 11"),
    ("job 01HZX3V7Q2K9 was lost", "job 01J0ABCDEF12 was lost"),
    ("HTTP 503 from 10.1.1.1", "HTTP 503 from 10.2.2.2"),
    ("status code 429 for user 5", "status code 429 for user 6"),
    ("exit code 137 of process 4411", "exit code 137 of process 9"),
]  # fmt: skip
OTHER = [
    ("user 42 not found", "user 42 is locked"),
    ("HTTP 404 from provider", "HTTP 503 from provider"),
    ("status code 400", "status code 401"),
    ("exit code 1", "exit code 137"),
    ("errno 28: no space left", "errno 13: permission denied"),
    ("connection refused", "connection reset"),
    ("no such file: /tmp/a/b", "not a directory: /tmp/a/b"),
    ('unknown field "colour"', 'missing field "colour"'),
    ("timed out after 30 s", "cancelled after 30 s"),
    ("mail to ada@example.com bounced", "mail to ada@example.com was refused"),
    ("balance is too low", "balance is too high"),
    ("SQLSTATE 23505", "SQLSTATE 40001"),
    ("3 of 10 shots failed", "3 of 10 scenes failed"),
    ("cannot read 'a'", "cannot write 'a'"),
    ("GET https://a.example/x failed", "POST https://a.example/x failed"),
]


@pytest.mark.parametrize(("one", "two"), SAME)
@pytest.mark.catches("numbers-make-groups")
def test_the_same_message_with_other_particulars_is_the_same_cause(one: str, two: str) -> None:
    assert origin_of_message(one) == origin_of_message(two)


@pytest.mark.parametrize(("one", "two"), OTHER)
@pytest.mark.catches("statuses-are-numbers")
def test_another_message_is_another_cause(one: str, two: str) -> None:
    assert origin_of_message(one) != origin_of_message(two)


class ProviderError(Exception):
    """With a status, as HTTP clients have."""

    def __init__(self, message: str, status_code: int | None = None) -> None:
        super().__init__(message)
        if status_code is not None:
            self.status_code = status_code


def fetch(shot: int) -> None:
    raise KeyError(f"shot-{shot}")


def render(shot: int) -> None:
    # Two lines that differ in nothing but their number.
    if shot % 2:
        fetch(shot)
    fetch(shot)


def upload(shot: int) -> None:
    fetch(shot)


def wrap(shot: int) -> None:
    try:
        fetch(shot)
    except KeyError as error:
        raise ProviderError(f"shot {shot} at {random.random()}") from error


def wrap_quietly(shot: int) -> None:
    try:
        fetch(shot)
    except KeyError:
        raise ProviderError(f"shot {shot}") from None


def refuse(status: int) -> None:
    raise ProviderError(f"answered {status} for {uuid.uuid4()}", status)


def fall(depth: int) -> None:
    if depth == 0:
        raise RecursionError("too deep")
    fall(depth - 1)


def convert(text: str) -> int:
    return int(text)


def look_up(key: str) -> object:
    known: dict[str, object] = {}
    return known[key]


def raised(call: object, *given: object) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (whatever it is, its origin is asked for)
        call(*given)  # type: ignore[operator]
    return origin_of_error(caught.value, str(caught.value), "tests.core")


SAME_CODE = [
    (fetch, (1,), (2,)),
    (render, (1,), (2,)),
    (upload, (1,), (77,)),
    (wrap, (1,), (2,)),
    (wrap_quietly, (3,), (4,)),
    (refuse, (404,), (404,)),
    (fall, (3,), (40,)),
    (convert, ("a",), ("b",)),
    (look_up, ("x",), ("y",)),
]
OTHER_CODE = [
    (fetch, (1,), upload, (1,)),
    (render, (1,), upload, (1,)),
    (wrap, (1,), wrap_quietly, (1,)),
    (refuse, (404,), refuse, (503,)),
    (convert, ("a",), look_up, ("a",)),
    (fetch, (1,), fall, (0,)),
]


@pytest.mark.parametrize(("call", "one", "two"), SAME_CODE)
@pytest.mark.catches("line-numbers-make-groups")
def test_an_exception_is_known_by_its_type_and_our_own_frames(
    call: object, one: tuple[object, ...], two: tuple[object, ...]
) -> None:
    assert raised(call, *one) == raised(call, *two)


@pytest.mark.parametrize(("first", "one", "second", "two"), OTHER_CODE)
def test_another_way_or_another_status_is_another_cause(
    first: object, one: tuple[object, ...], second: object, two: tuple[object, ...]
) -> None:
    assert raised(first, *one) != raised(second, *two)


def test_the_corpus_is_large_enough() -> None:
    assert len(SAME) + len(OTHER) + len(SAME_CODE) + len(OTHER_CODE) >= 60


def test_kind_and_code_are_part_of_it() -> None:
    failure = Failure.of(FailureClass.TRANSIENT, "reset")
    other = Failure.of(FailureClass.TRANSIENT, "reset", code="PROVIDER")
    assert len({failure.fingerprint("a"), failure.fingerprint("b"), other.fingerprint("a")}) == 3
    assert failure.fingerprint("a") == Failure.of(FailureClass.TRANSIENT, "reset").fingerprint("a")
