"""Outcomes that no handler returns: timed out, cancelled, process ended."""

from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Failed, WorkerLost


def timed_out(seconds: float) -> Failed:
    """The failure of a handler that did not end in its time."""
    return Failed(Failure.of(FailureClass.TIMEOUT, f"it ran longer than its timeout of {seconds:g} s"))


def timed_out_in_bulk() -> WorkerLost:
    """The outcome of items of a bulk call that did not end in its time: each of them runs next alone."""
    return WorkerLost(sole=False, how="the bulk call that it was in ran past its deadline")


def ended_by(error: BaseException) -> Failed:
    """The failure of a handler that raised what is not an exception of its own, such as SystemExit."""
    return Failed(Failure.of(FailureClass.TRANSIENT, f"{type(error).__name__} ended it"))


def cancelled_itself() -> Failed:
    """The failure of a handler that was cancelled, and not by the executor."""
    return Failed(Failure.of(FailureClass.TRANSIENT, "it was cancelled from within"))
