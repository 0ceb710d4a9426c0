"""What the host took from this machine, by the kernel's own count: our own load is not in it."""

import os
from pathlib import Path

_STEAL = 8


def stolen_seconds() -> list[float]:
    """By core, since the machine was started."""
    cores = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu")]
    return [int(core[_STEAL]) / os.sysconf("SC_CLK_TCK") for core in cores[1:]]
