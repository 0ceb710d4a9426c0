"""Builds the console into the package when one is made; whoever installs it needs no Node."""

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SKIP = "HOLDFAST_WITHOUT_CONSOLE"


class ConsoleHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs npm where the sources are; an sdist carries the pages instead of them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 (as the hook is called)
        """Make the pages before files are gathered."""
        sources = Path(self.root) / "console"
        if version == "editable" or not (sources / "src").exists() or os.environ.get(SKIP):
            return
        if not (sources / "node_modules").exists():
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=sources, check=True)  # noqa: S607
        subprocess.run(["npm", "run", "build"], cwd=sources, check=True)  # noqa: S607
