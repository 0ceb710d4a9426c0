"""One small change to the package, for seeing whether a test notices."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """Replace `old` by `new` in a file of the package, at its first or the given occurrence."""

    file: str
    old: str
    new: str
    occurrence: int = 0
