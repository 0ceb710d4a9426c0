"""What others have written does nothing to the terminal of whoever reads it."""

import json
import os
import pty
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from holdfast.cli.output import printable
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Failed
from tests.commands import document, run
from tests.world import World

HOSTILE = "\x1b]0;pwned\x07 \x1b[2J\x1b[31m \x9b31m \r overwritten \x08 \x7f \u202egnp.exe\u2066 \u2028 end"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ROOT = Path(__file__).parent.parent.parent


def test_control_characters_are_escaped_and_lines_stay() -> None:
    shown = printable(f"first\n\tsecond {HOSTILE} \ud800")
    assert not CONTROL.search(shown)
    assert shown.startswith("first\n\tsecond \\u001b]0;pwned\\u0007")
    assert "\\u202egnp.exe" in shown
    assert shown.endswith("\\ud800")
    assert printable("é 中文 – …") == "é 中文 – …"


def test_characters_that_nobody_sees_are_escaped() -> None:
    unseen = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cf"]
    for one in unseen:
        assert json.loads(f'"{printable(one)}"') == one
        assert printable(one).isascii()


@pytest.mark.usefixtures("command_line")
@pytest.mark.catches("newlines-forge-lines")
async def test_no_name_or_message_forges_a_line_of_a_command(world: World) -> None:
    forged = "x\nstate         completed"
    task = await world.enqueue("pay", subject=forged)
    (claim,) = await world.claim()
    failure = Failure.of(FailureClass.PERMANENT, forged, stack=forged)
    await world.settle((claim, Failed(failure)))
    for command in (("task", "list"), ("task", "show", task), ("dead", "list"), ("dead", "show", task)):
        lines = (await run(*command)).splitlines()
        assert not [line for line in lines if line.startswith("state         completed")]
    shown = await run("task", "show", task)
    assert "subject       x\\nstate" in shown
    assert "\n    state         completed" in shown


async def _hostile(world: World) -> str:
    task = await world.enqueue("pay", payload={"note": HOSTILE}, subject=HOSTILE)
    (claim,) = await world.claim()
    stack = f"Traceback\n  {HOSTILE}"
    failure = Failure.of(FailureClass.PERMANENT, HOSTILE, code=f"E-{HOSTILE}", stack=stack)
    await world.settle((claim, Failed(failure)))
    return task


@pytest.mark.usefixtures("command_line")
@pytest.mark.catches("controls-reach-the-terminal", "controls-reach-the-terminal-in-tables")
async def test_no_command_writes_a_control_character(world: World) -> None:
    task = await _hostile(world)
    fingerprint = (await document("group", "list"))[0]["fingerprint"]
    for command in (
        ("task", "list"), ("task", "show", task), ("dead", "list"), ("dead", "show", task),
        ("group", "list"), ("group", "show", fingerprint),
    ):  # fmt: skip
        shown = await run(*command)
        assert not CONTROL.search(shown), (command, shown)
        assert "\\u001b" in shown, command
        shown = await run(*command, "--json")
        assert not CONTROL.search(shown), (command, shown)
        json.loads(shown)


@pytest.mark.catches("controls-reach-the-terminal")
async def test_an_error_line_and_an_export_on_a_terminal_hold_no_control_character(world: World) -> None:
    await world.operator.cancel(world.conn, await world.enqueue("pay"), HOSTILE)
    for command in (("audit", "export"), ("audit", "export", "--format", "csv"), ("task", "show", HOSTILE)):
        shown = _on_a_terminal(world.url, *command)
        assert not CONTROL.search(shown.replace("\r\n", "\n")), (command, shown)
        assert "pwned" in shown


def _on_a_terminal(url: str, *command: str) -> str:
    above, below = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *command],
        cwd=ROOT,
        env=os.environ | {"HOLDFAST_DATABASE_URL": url},
        stdout=below,
        stderr=below,
    ) as process:
        os.close(below)
        read = b""
        while True:
            try:
                piece = os.read(above, 65_536)
            except OSError:
                # Nobody has the other end any more.
                break
            if not piece:
                break
            read += piece
        process.wait(60)
    os.close(above)
    return read.decode()
