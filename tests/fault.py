"""One small change to the package, for seeing whether a test notices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """Replace `old` by `new` in a part of the package, at its first or the given occurrence.

    `part` is the name of a statement, a function, a method, a class or a module: see `tests/anchors.py`.
    """

    part: str
    old: str
    new: str
    occurrence: int = 0
