"""A real API for tests: a process of its own, waited for until it is ready."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.cluster import free_port
from tests.tree import until_true

ROOT = Path(__file__).parent.parent
START_SECONDS = 60.0


async def ready(address: str) -> None:
    """Wait until it says that it can work; a slow machine takes its time."""
    async with httpx.AsyncClient(base_url=address) as client:

        async def says_so() -> bool:
            try:
                return (await client.get("/readyz")).status_code == 200
            except httpx.ConnectError:
                return False

        await until_true(says_so, START_SECONDS, "the API")


@asynccontextmanager
async def api_process(
    url: str,
    app: str,
    *options: str,
    environment: Mapping[str, str] | None = None,
    output: int | None = None,
) -> AsyncIterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """An API over a database; answers where it is, and the process."""
    port = free_port()
    process = subprocess.Popen(  # noqa: ASYNC220 (it is to outlive this call)
        [sys.executable, "-m", "holdfast", "api", app, "--port", str(port), *options],
        env=os.environ | {"HOLDFAST_DATABASE_URL": url} | dict(environment or {}),
        cwd=ROOT,
        stdout=output,
        stderr=output,
    )
    try:
        await ready(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        assert process.wait(10) in {0, -15}
