"""Runs every test on PostgreSQL 15, on 18, and through PgBouncer in transaction mode.

Run as `make check-databases`; each server is started for the run and stopped after it.
"""

import os
import subprocess
import sys
from contextlib import ExitStack

from tests.cluster import ROOT, pgbouncer, postgres


def run(name: str, url: str, direct_url: str) -> bool:
    """One run of the whole suite against one server."""
    sys.stdout.write(f"== {name}\n")
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "tests", *sys.argv[1:]]
    environment = os.environ | {"HOLDFAST_TEST_URL": url, "HOLDFAST_TEST_DIRECT_URL": direct_url}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0


def main() -> int:
    """Fail if any of them fails."""
    failed = []
    for version in (15, 18):
        with ExitStack() as stack:
            url = stack.enter_context(postgres(version))
            if not run(f"PostgreSQL {version}", url, url):
                failed.append(f"PostgreSQL {version}")
            if version == 15:
                bouncer = stack.enter_context(pgbouncer(url))
                if not run("PgBouncer, transaction mode, before PostgreSQL 15", bouncer, url):
                    failed.append("PgBouncer")
    sys.stdout.write(f"failed: {', '.join(failed)}\n" if failed else "all green\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
