"""What tests of commands have in common."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def hears_ctrl_c() -> Iterator[None]:
    """What a shell starts in the background ignores Ctrl-C, and so would all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
