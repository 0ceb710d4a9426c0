"""Workers that cannot start: they say why in a line, and do not wait for what will not come."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import typed
from tests.tree import until

COMMANDS = {
    ("shop.tasks",): "no app at shop.tasks: write MODULE:NAME, for example shop.tasks:app",
    ("shop.nowhere:app",): "no app at shop.nowhere:app: there is no module shop",
    ("tests.apps:nothing",): "no app at tests.apps:nothing: tests.apps has no nothing",
    ("tests.apps:effect",): "no app at tests.apps:effect: effect is a function, not a Holdfast app",
    ("tests.apps:app", "--once", "--until-empty"): "choose one of --once and --until-empty",
    ("tests.apps:app", "--queues", ","): "name at least one queue",
    ("tests.apps:app", "--concurrency", "0"): "Input should be greater than or equal to 1",
}


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
async def test_a_worker_that_cannot_start_says_why_in_a_line(url: str, arguments: tuple[str, ...]) -> None:
    done = await typed(url, "worker", *arguments)
    assert done.returncode == 2
    assert COMMANDS[arguments] in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (
            {"HOLDFAST_DATABASE_URL": "banana"},
            "cannot be read cannot be reached: write postgresql",
        ),
        ({"HOLDFAST_HINTS": "maybe"}, "the setting HOLDFAST_HINTS is wrong: Input should be a valid boolean"),
        ({"HOLDFAST_DATABASE_URL": "NOPE"}, "does not exist"),
        ({"HOLDFAST_DATABASE_URL": "postgresql://127.0.0.1:abc/x"}, 'invalid integer value "abc"'),
        ({"HOLDFAST_DATABASE_URL": "postgresql://127.0.0.1:99999/x"}, 'invalid port number: "99999"'),
        ({"HOLDFAST_DATABASE_URL": "postgresql://127.0.0.1/x?sslmode=no"}, 'invalid sslmode value: "no"'),
    ],
    ids=["address", "setting", "database", "port", "no port", "sslmode"],
)
async def test_what_is_wrong_from_the_start_is_not_waited_for(
    direct_url: str, variables: dict[str, str], said: str
) -> None:
    nope = direct_url.rsplit("/", 1)[0] + "/nope"
    variables = {name: value.replace("NOPE", nope) for name, value in variables.items()}
    done = await typed(direct_url, "worker", "tests.apps:app", **variables)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


async def test_a_worker_before_an_empty_database_says_how_to_migrate(direct_url: str) -> None:
    done = await typed(direct_url, "worker", "tests.apps:app", HOLDFAST_SCHEMA="not_there")
    assert done.returncode == 2
    assert "the schema not_there has no tables yet: run `holdfast migrate`" in done.stderr


@pytest.mark.usefixtures("hears_ctrl_c")
async def test_ctrl_c_while_the_app_is_being_loaded_shows_no_traceback(url: str, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time; open('loading', 'w').close(); time.sleep(60)")
    worker = subprocess.Popen(  # noqa: ASYNC220 (it is told to leave)
        [sys.executable, "-m", "holdfast", "worker", "slow:app"],
        env=os.environ | {"HOLDFAST_DATABASE_URL": url},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    await until((tmp_path / "loading").exists, 30, "the app")
    os.killpg(worker.pid, signal.SIGINT)
    _, said = await asyncio.to_thread(worker.communicate)
    assert (worker.returncode, said) == (130, b"")
