"""Requests that Schemathesis makes of the API's own document, to an API that runs for real: `make fuzz`.

python -m benchmarks.fuzzing --requests 10000

Schemathesis has an environment of its own, in .bench/fuzz: it is no part of what `make check` installs.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.cluster import free_port, postgres

from holdfast.config import Settings
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.ops.tokens import Role, Tokens

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".bench" / "fuzz"
VERSION = "4.32.5"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# A stream that goes on; tests/http_api/test_live.py looks at it.
LEFT_OUT = "/api/live"
OPERATIONS = 60


def install() -> Path:
    """Schemathesis, in an environment of its own."""
    program = HOME / "bin" / "st"
    if not program.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(HOME)], check=True)
        python = str(HOME / "bin" / "python")
        package = f"schemathesis=={VERSION}"
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", python, package], check=True)
    return program


async def prepared(url: str) -> dict[Role, str]:
    """The schema, and a token of each role."""
    settings = Settings(database_url=url)
    async with await connect(url) as conn:
        await migrate_up(conn, settings.schema_name)
        tokens = Tokens(settings, by="fuzz")
        return {role: (await tokens.create(conn, role.value, role, None)).token for role in Role}


def served(port: int) -> None:
    """Wait until the API answers."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError("the API does not answer")


def sent(program: Path, port: int, token: str, examples: int, *which: str) -> int:
    """Send what Schemathesis makes up; answers how many, and ends with what went wrong."""
    done = subprocess.run(
        [str(program), "run", f"http://127.0.0.1:{port}/api/openapi.json",
         "-H", f"Authorization: Bearer {token}", "--checks", CHECKS, "--max-response-time", "1",
         "--max-examples", str(examples), "--continue-on-failure", "--suppress-health-check", "all",
         "--exclude-path", LEFT_OUT, *which],
        check=False, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    # The addresses that it shows may be long.
    print("\n".join(line[:300] for line in done.stdout.split("\n")), done.stderr[-2_000:], flush=True)
    if done.returncode:
        sys.exit(done.returncode)
    found = re.search(r"([\d,]+) generated", done.stdout)
    assert found is not None, "it says how many it sent"
    return int(found[1].replace(",", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    chosen = parser.parse_args()
    program, port = install(), free_port()
    with postgres(15) as server:
        url = f"{server}/postgres"
        tokens = asyncio.run(prepared(url))
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "api", "--port", str(port), "--rate", "1000000"],
            env=os.environ | {"HOLDFAST_DATABASE_URL": url},
            cwd=ROOT,
        )
        try:
            served(port)
            examples = max(1, chosen.requests // OPERATIONS)
            count = sent(program, port, tokens[Role.ADMIN], examples, "--exclude-tag", "workers")
            count += sent(program, port, tokens[Role.WORKER], examples, "--include-tag", "workers")
        finally:
            process.terminate()
            process.wait(10)
    print(f"{count} requests: no answer of 5xx, none undocumented, none slower than a second")


if __name__ == "__main__":
    main()
