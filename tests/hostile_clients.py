"""One viewer attacks an API with exports, streams and half-sent requests while an operator works.

`python -m tests.hostile_clients --each 500 --seconds 60` starts a database and an API, attacks it from
another process, and prints how long the operator's requests took and what `/readyz` answered.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from holdfast.config import Settings
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from holdfast.ops.tokens import Role, Tokens
from tests.cluster import postgres
from tests.served import api_process

ROOT = Path(__file__).parent.parent
DATABASE = "hostile"
P99_SECONDS = 0.5
# Between the end of a hostile connection and the next one in its place, on average.
AGAIN_SECONDS = 2.0
ENTRIES = """
select holdfast.note_tasks('TEST', 'ada', repeat('x', 2000), array_fill(gen_random_uuid(), array[10000]))
"""
ASKED = ("/api/me", "/api/queues", "/api/tasks/dead-letters", "/api/now", "/api/tasks/ops", "/api/workers")


def _requests(token: str) -> dict[str, bytes]:
    head = f"HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
    return {
        "export": f"GET /api/tasks/audit-logs/export {head}\r\n".encode(),
        "stream": f"GET /api/live {head}\r\n".encode(),
        "half headers": f"GET /api/queues {head}X-Slow: ".encode(),
        "half body": f"POST /api/queues/default/pause {head}Content-Length: 100\r\n\r\n{{".encode(),
    }


async def _hold(host: str, port: int, sent: bytes, *, reads: bool) -> None:
    """Send this again and again, and hold each connection until it is closed by the server."""
    while True:
        await asyncio.sleep(random.uniform(0, 2 * AGAIN_SECONDS))
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, limit=4_096)
            try:
                writer.write(sent)
                if not reads:
                    # What was refused is left; what is sent at length is not read, until it is cut off.
                    status = await reader.readline()
                    if b" 200 " in status:
                        await asyncio.sleep(20)
                while reads and await reader.read(4_096):
                    pass
            finally:
                writer.close()


async def attack(host: str, port: int, token: str, each: int) -> None:
    """Hold so many connections of each sort, for ever."""
    async with asyncio.TaskGroup() as group:
        for name, sent in _requests(token).items():
            for _ in range(each):
                group.create_task(_hold(host, port, sent, reads=name != "export"))


@dataclass(slots=True)
class Seen:
    """What an operator and a balancer saw meanwhile."""

    seconds: list[float] = field(default_factory=list)
    codes: Counter[int] = field(default_factory=Counter)
    ready: Counter[int] = field(default_factory=Counter)

    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]

    def was_answered(self) -> bool:
        return set(self.codes) == {200} and set(self.ready) == {200}

    def is_well(self) -> bool:
        return self.p99() <= P99_SECONDS and self.was_answered()

    def shown(self) -> dict[str, object]:
        return {
            "requests": len(self.seconds),
            "p50_ms": round(sorted(self.seconds)[len(self.seconds) // 2] * 1_000),
            "p99_ms": round(self.p99() * 1_000),
            "max_ms": round(max(self.seconds) * 1_000),
            "codes": dict(self.codes),
            "readyz": dict(self.ready),
        }


async def watch(address: str, token: str, seconds: float) -> Seen:
    """What an operator sees for so long: requests one after another, every other on a new connection."""
    seen, until = Seen(), time.monotonic() + seconds

    async def operate() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=30) as client:
            while time.monotonic() < until:
                path = ASKED[len(seen.seconds) % len(ASKED)]
                extra = {"Connection": "close"} if len(seen.seconds) % 2 else {}
                began = time.monotonic()
                answer = await client.get(path, headers=extra)
                seen.seconds.append(time.monotonic() - began)
                seen.codes[answer.status_code] += 1
                await asyncio.sleep(0.05)

    async def balance() -> None:
        while time.monotonic() < until:
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:
                seen.ready[(await client.get("/readyz")).status_code] += 1
            await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        group.create_task(operate())
        group.create_task(balance())
    return seen


@asynccontextmanager
async def attacked(address: str, token: str, each: int) -> AsyncIterator[None]:
    """Another process attacks the API meanwhile."""
    command = [sys.executable, "-m", "tests.hostile_clients", "--attack", address, "--each", str(each)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        assert process.stdin is not None
        process.stdin.write(token)
        process.stdin.close()
        yield
        assert process.poll() is None, "the attack ended by itself"
    finally:
        process.kill()
        process.wait()


async def _measure(each: int, seconds: float) -> Seen:
    with postgres() as server:
        async with await connect(f"{server}/postgres") as conn:
            await conn.execute(f"create database {DATABASE}".encode())
        url = f"{server}/{DATABASE}"
        async with await connect(url) as conn:
            await migrate_up(conn, "holdfast")
            await conn.execute(ENTRIES.encode())
            tokens = Tokens(Settings(database_url=url), by="test")
            viewer = (await tokens.create(conn, "eve", Role.VIEWER, None)).token
            operator = (await tokens.create(conn, "ada", Role.OPERATOR, None)).token
        environment = {"HOLDFAST_TEST_RECORD": "/dev/null"}
        async with api_process(url, "tests.apps:app", environment=environment) as (address, _):
            calm = await watch(address, operator, 5)
            sys.stdout.write(json.dumps({"before": calm.shown()}) + "\n")
            async with attacked(address, viewer, each):
                return await watch(address, operator, seconds)


def main() -> int:
    """Measure, and fail above the bounds; or be the attacker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--attack", metavar="ADDRESS", help="attack, with the token on standard input")
    chosen = parser.parse_args()
    if chosen.attack:
        host, port = httpx.URL(chosen.attack).host, httpx.URL(chosen.attack).port
        assert port is not None, "the address of an API has a port"
        asyncio.run(attack(host, port, sys.stdin.read(), chosen.each))
    seen = asyncio.run(_measure(chosen.each, chosen.seconds))
    sys.stdout.write(json.dumps({"attacked": seen.shown()}) + "\n")
    return 0 if seen.is_well() else 1


if __name__ == "__main__":
    sys.exit(main())
