"""Runs the command line in this process, as a script or a person would see it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from holdfast.cli.main import program

RUNNER = CliRunner()
ROOT = Path(__file__).parent.parent


async def run(*arguments: str, code: int = 0) -> str:
    """What a command says; it must end with this code."""
    done = await asyncio.to_thread(RUNNER.invoke, program, list(arguments), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


async def document(*arguments: str, code: int = 0) -> Any:
    """What a command says to a script."""
    done = await asyncio.to_thread(RUNNER.invoke, program, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


async def typed(url: str, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """In a process of its own, as a person runs it."""
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "holdfast", *arguments],
        env=os.environ | {"HOLDFAST_DATABASE_URL": url, "COLUMNS": "200"} | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
