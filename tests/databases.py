"""Runs every test on PostgreSQL 15, on 18, and through PgBouncer in transaction mode.

Run as `make check-databases`; `--on 18` and the like for some of them, anything else goes to pytest.
Each server is started for the run and stopped after it.
"""

import argparse
import os
import subprocess
import sys
from contextlib import ExitStack

from tests.cluster import ROOT, pgbouncer, postgres

POOLED = "pgbouncer"
SERVERS = ("15", POOLED, "18")


def main() -> int:
    """Fail if any of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", action="append", choices=SERVERS, help="all of them if not given")
    chosen, options = parser.parse_known_args()
    failed = [server for server in chosen.on or SERVERS if not run(server, options)]
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "all green\n")
    return len(failed)


def run(server: str, options: list[str]) -> bool:
    """One run of the whole suite against one server."""
    sys.stdout.write(f"== {server}\n")
    sys.stdout.flush()
    with ExitStack() as stack:
        direct = url = stack.enter_context(postgres(15 if server == POOLED else int(server)))
        if server == POOLED:
            url = stack.enter_context(pgbouncer(direct))
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "tests", *options]
        environment = os.environ | {"HOLDFAST_TEST_URL": url, "HOLDFAST_TEST_DIRECT_URL": direct}
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
