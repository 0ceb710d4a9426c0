"""Which of many items make a call fail: found by calling some of them again.

A group that failed is halved: if its first half passes, the culprit is in the second, which need not be
called whole again; if it fails, nothing is known of the second half, which waits until the culprit is found.
Where several culprits were found and more are likely in a large rest, only so much of it is called as
passes every other time. So each culprit costs about log2 of its distance from the next, and two calls more.
Nobody is blamed without having failed alone: a call may fail for a reason that has nothing to do with its
items, and passes then.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
# Of a large rest in which more culprits than so many are to be expected only a part is called.
LARGE = 1_000
MANY = 3.0
# A call with so many expected culprits passes about every other time.
EVEN = 0.7


class Search(Generic[T]):
    """One search; ask for the `next` call, then say whether it passed."""

    def __init__(self, items: Sequence[T]) -> None:
        # Nothing is known of these.
        self._unknown = list(items)
        # One or more of these make a call fail.
        self._bad: list[T] = []
        self._called: list[T] = []
        self._cleared = 0
        self._blamed = 0

    def next(self) -> Sequence[T]:
        """What to call now; nothing when the search is over."""
        if self._bad:
            self._called = self._bad[: (len(self._bad) + 1) // 2]
        else:
            share = max(0, self._blamed - 1) / (self._cleared + 1)
            many = len(self._unknown) > LARGE and share * len(self._unknown) > MANY
            self._called = self._unknown[: max(1, int(EVEN / share))] if many else self._unknown
        return self._called

    def left(self) -> Sequence[T]:
        """What has neither passed nor been blamed."""
        return [*self._bad, *self._unknown]

    def passed(self) -> None:
        """The call was well."""
        self._cleared += len(self._called)
        if self._bad:
            self._bad = self._bad[len(self._called) :]
        else:
            self._unknown = self._unknown[len(self._called) :]

    def failed(self) -> T | None:
        """The call failed; the item to blame, if it was alone."""
        if self._bad:
            self._unknown = [*self._bad[len(self._called) :], *self._unknown]
        else:
            self._unknown = self._unknown[len(self._called) :]
        self._bad = self._called
        if len(self._bad) > 1:
            return None
        (culprit,) = self._bad
        self._bad = []
        self._blamed += 1
        return culprit
