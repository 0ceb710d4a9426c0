"""The search for culprits: exactly those are found, at the price of a halving each."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.worker.executor.culprits import CulpritSearch


def calls_of(size: int, bad: set[int]) -> tuple[set[int], int, set[int]]:
    """Who was blamed, in how many calls, and who passed."""
    search = CulpritSearch(list(range(size)))
    blamed: set[int] = set()
    passed: set[int] = set()
    calls = 0
    while called := search.next():
        calls += 1
        if bad & set(called):
            culprit = search.failed()
            if culprit is not None:
                assert list(called) == [culprit], "nobody is blamed without having failed alone"
                blamed.add(culprit)
        else:
            passed |= set(called)
            search.passed()
    return blamed, calls, passed


@given(st.integers(1, 3_000), st.sets(st.integers(0, 2_999), max_size=12))
@settings(max_examples=300, deadline=None)
def test_exactly_the_culprits_are_blamed_and_everybody_else_passes(size: int, bad: set[int]) -> None:
    bad = {item for item in bad if item < size}
    blamed, calls, passed = calls_of(size, bad)
    assert blamed == bad
    assert passed == set(range(size)) - bad
    # A halving for each, the call in which it is alone, and those for what was not looked at meanwhile.
    assert calls - 1 <= len(bad) * (math.ceil(math.log2(size)) + 3)


@pytest.mark.catches("second-half-called-again")
def test_one_culprit_among_512_costs_a_call_for_each_halving() -> None:
    _, calls, _ = calls_of(512, {511})
    assert calls == 1 + 9 + 1, "the whole, nine first halves that pass, and the culprit alone"
    _, calls, _ = calls_of(512, {0})
    assert calls == 1 + 9 + 1, "the whole, nine first halves that fail, and what was left over"


@pytest.mark.catches("blamed-without-failing-alone")
def test_a_call_that_failed_by_chance_blames_nobody() -> None:
    search = CulpritSearch(list(range(8)))
    search.next()
    assert search.failed() is None
    seen: list[int] = []
    while called := search.next():
        seen += called
        search.passed()
    assert sorted(seen) == list(range(8))
