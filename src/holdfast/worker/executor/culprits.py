"""Finds the items that make a bulk call fail, by calling subsets again.

A group that failed is halved. If its first half passes, the culprit is in the second half, which need not
be called as a whole again. If it fails, nothing is known of the second half, and it goes back to the rest.
Once a culprit is found, the rest is called as a whole. A culprit costs about log2 of the size of the rest,
and two more calls. An item is blamed only after it failed alone, because a call may fail for a reason that
has nothing to do with its items.
"""

from collections.abc import Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class CulpritSearch(Generic[T]):
    """One search; ask for the `next` call, then say whether it passed."""

    def __init__(self, items: Sequence[T]) -> None:
        # Nothing is known of these.
        self._unknown = list(items)
        # One or more of these make a call fail.
        self._bad: list[T] = []
        self._called: list[T] = []

    def next(self) -> Sequence[T]:
        """What to call now; nothing when the search is over."""
        self._called = self._bad[: (len(self._bad) + 1) // 2] or self._unknown
        return self._called

    def left(self) -> Sequence[T]:
        """What has neither passed nor been blamed."""
        return [*self._bad, *self._unknown]

    def passed(self) -> None:
        """The call succeeded."""
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
        return culprit
