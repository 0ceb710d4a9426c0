"""From nothing to the first completed task: from a clone, and from the wheel in an empty environment."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cluster import free_port
from tests.served import ready
from tests.world import World

ROOT = Path(__file__).parent.parent
BYTES_MAX = 40 * 1024 * 1024
IMPORT_SECONDS_MAX = 0.150
SECONDS_MAX = 180.0


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty virtual environment with nothing but the wheel that this checkout makes."""
    folder = tmp_path_factory.mktemp("install")
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv is not None, "make setup installs it"
    for command in (
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT)],
        [uv, "venv", "--quiet", "--python", sys.executable, str(folder / "venv")],
    ):
        subprocess.run(command, check=True)
    (wheel,) = folder.glob("*.whl")
    python = str(folder / "venv" / "bin" / "python")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, str(wheel)], check=True)
    yield folder / "venv"
    shutil.rmtree(folder)


async def test_the_wheel_is_enough_for_a_first_task(
    world: World, url: str, environment: Path, tmp_path: Path
) -> None:
    began = time.monotonic()
    variables = {"HOLDFAST_DATABASE_URL": url, "PATH": f"{environment / 'bin'}:/usr/bin:/bin"}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    await asyncio.to_thread(run, "holdfast", "init")
    await asyncio.to_thread(run, "holdfast", "migrate")
    worker = subprocess.Popen(  # noqa: ASYNC220 (it is not waited for)
        ["holdfast", "worker", "tasks:app"], cwd=tmp_path, env=variables, stdout=subprocess.DEVNULL
    )
    try:
        assert await asyncio.to_thread(run, "python", "tasks.py") == "hello, world\n"
    finally:
        worker.terminate()
        await asyncio.to_thread(worker.wait)
    assert time.monotonic() - began < SECONDS_MAX


async def test_the_wheel_serves_the_console_on_a_machine_without_node(
    world: World, url: str, environment: Path, tmp_path: Path
) -> None:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv is not None, "make setup installs it"
    (wheel,) = environment.parent.glob("*.whl")
    served = tmp_path / "venv"
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, str(served)],
        [uv, "pip", "install", "--quiet", "--python", str(served / "bin/python"), f"{wheel}[api]"],
    ):
        await asyncio.to_thread(subprocess.run, command, check=True)
    # Nothing but the environment itself is on its path.
    variables = {"HOLDFAST_DATABASE_URL": url, "PATH": str(served / "bin")}
    port = str(free_port())
    api = subprocess.Popen(  # noqa: ASYNC220 (it is not waited for)
        [str(served / "bin/holdfast"), "api", "--no-auth", "--port", port], cwd=tmp_path, env=variables
    )
    try:
        await ready(f"http://127.0.0.1:{port}")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            page = await client.get("/ops")
            assert 'id="console"' in page.text
            script = page.text.partition('src="')[2].partition('"')[0]
            assert len((await client.get(script)).content) > 100_000
    finally:
        api.terminate()
        await asyncio.to_thread(api.wait)


def test_a_base_install_stays_small(environment: Path) -> None:
    (packages,) = environment.glob("lib/*/site-packages")
    # What running it leaves behind was not installed, and depends on which tests ran before this one.
    files = [path for path in packages.rglob("*") if path.is_file() and path.parent.name != "__pycache__"]
    size = sum(path.stat().st_size for path in files)
    sys.stdout.write(f"{size / 1024 / 1024:.1f} MB\n")
    assert size <= BYTES_MAX


def test_importing_it_is_quick(environment: Path) -> None:
    script = "import time; t = time.perf_counter(); import holdfast; print(time.perf_counter() - t)"
    taken = [float(subprocess.check_output([environment / "bin" / "python", "-c", script])) for _ in range(5)]
    assert min(taken) <= IMPORT_SECONDS_MAX


async def test_five_commands_lead_from_a_clone_to_the_first_task(
    world: World, url: str, tmp_path: Path
) -> None:
    """The README's own lines, run as they stand in a copy of this checkout."""
    page = (ROOT / "README.md").read_text()
    block = page[page.index("## From a clone to the first task") :].split("```")[1].strip()
    commands = block.splitlines()
    assert len(commands) == 5
    began = time.monotonic()
    script = "\n".join(["set -e", *commands, "kill %1", "wait"]).replace("postgresql://localhost/mydb", url)
    # A copy rather than `git clone`, which refuses a checkout that belongs to somebody else.
    made = shutil.ignore_patterns(
        ".git", ".venv", ".servers", "build", "dist", "node_modules", "__pycache__", ".*_cache"
    )
    await asyncio.to_thread(shutil.copytree, ROOT, tmp_path / "clone", ignore=made)
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "VIRTUAL"))
    }
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-m", "-c", script],
        cwd=tmp_path / "clone",
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "hello, world\n" in done.stdout
    assert time.monotonic() - began < SECONDS_MAX


def test_the_wheel_carries_the_licences_of_what_the_console_bundles(environment: Path) -> None:
    (notices,) = environment.glob("lib/python*/site-packages/holdfast/http/pages/third-party-licenses.md")
    text = notices.read_text()
    bundled = json.loads((ROOT / "console" / "package.json").read_text())["dependencies"]
    missing = [
        f"{name} {version}" for name, version in bundled.items() if f"## {name} - {version} (" not in text
    ]
    assert not missing
    assert text.count("Permission is hereby granted") >= len(bundled)
