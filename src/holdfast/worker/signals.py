"""Signal handling, and ending with the parent process."""

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PR_SET_PDEATHSIG = 1
# A terminal and a supervisor of supervisors send these to the whole group.
_GROUP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def group_signals_blocked() -> Iterator[None]:
    """For the start of a process: a signal to the whole group must not find it while it still loads.

    The mask is inherited; `hear_no_group_signals` lifts it there.
    """
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, _GROUP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)


def hear_no_group_signals() -> None:
    """What is sent to the whole group is for the process above this one, which says what to do.

    Handlers that do nothing, rather than ignoring: what a task starts must not inherit deafness.
    """
    for number in _GROUP_SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _GROUP_SIGNALS)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, even while something holds the GIL.

    Elsewhere than on Linux the end of the pipe to the parent has to do.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) was refused")
    if os.getppid() != parent:
        # It died before the kernel was asked.
        os._exit(1)


def describe_exit(status: int | None) -> str:
    """How a process ended, in words; None is not known."""
    if status is None:
        return "it ended"
    if status < 0:
        # Those of real time have no name.
        known = -status in {number.value for number in signal.Signals}
        return f"it died of {signal.Signals(-status).name if known else f'signal {-status}'}"
    return f"it left with status {status}"
