"""One attack on a real worker, API and receiver of one database, through every door."""

import asyncio
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from holdfast.config import Settings
from holdfast.db.connect import Conn, connect
from holdfast.ops.tokens import Role, Tokens
from holdfast.webhooks.endpoints import Endpoints, NewEndpoint
from tests.hostile.costs import SECONDS_MAX, costs_of_payload, costs_of_text
from tests.hostile.doors import (
    Counted,
    commanded,
    hostile_receiver,
    leaked,
    shown,
    through_handlers,
    through_http,
    through_sql,
    through_workers,
)
from tests.hostile.texts import payload, text
from tests.served import api_process
from tests.tree import Tree

APP = "tests.hostile.app:app"
WEBHOOKS = {"HOLDFAST_WEBHOOKS_PLAIN": "1", "HOLDFAST_WEBHOOKS_ALLOW": "127.0.0.0/8"}
ENDPOINTS = 20
PATIENCE_SECONDS = 600.0
# What the worker has to do now: a delivery that failed or was told to wait is due later.
DUE = """
select (select count(*) from holdfast.ready r where r.run_at <= now() and r.kind <> 'hostile.outside')
    + (select count(*) from holdfast.running)
"""


@dataclass(slots=True)
class Report:
    """What an attack came to."""

    counted: Counted = field(default_factory=Counted)
    # Executors that ended while nobody had asked for it.
    deaths: int = 0
    # By function, in seconds of CPU: the dearest, and those that were too dear.
    dearest: dict[str, float] = field(default_factory=dict)
    too_dear: list[str] = field(default_factory=list)
    states: Counter[str] = field(default_factory=Counter)

    @property
    def wrong(self) -> list[str]:
        """Everything that must not have happened."""
        died = [f"{self.deaths} executors died"] if self.deaths else []
        return [*self.counted.wrong, *self.too_dear, *died]


def weigh(numbers: range) -> Report:
    """What each of these payloads and texts costs in this process."""
    report = Report()
    for number in numbers:
        for name, seconds in (*costs_of_text(text(number)), *costs_of_payload(payload(number))):
            report.dearest[name] = max(report.dearest.get(name, 0.0), seconds)
            if seconds > SECONDS_MAX:
                report.too_dear.append(f"{name} took {seconds * 1000:.0f} ms of CPU for number {number}")
    return report


def add(report: Report, weighed: Report) -> None:
    """Put what was weighed elsewhere to a report."""
    report.too_dear += weighed.too_dear
    for name, seconds in weighed.dearest.items():
        report.dearest[name] = max(report.dearest.get(name, 0.0), seconds)


async def attack(url: str, count: int, first: int = 0) -> Report:
    """So many hostile things, a quarter through each door; the database is migrated and ours alone."""
    report = Report()
    counted, quarter = report.counted, max(1, count // 4)
    numbers = [range(first + nth * quarter, first + (nth + 1) * quarter) for nth in range(4)]
    allowed = WEBHOOKS["HOLDFAST_WEBHOOKS_ALLOW"]
    settings = Settings(database_url=url, webhooks_plain=True, webhooks_allow=allowed)
    with tempfile.TemporaryDirectory(prefix="holdfast-hostile-") as folder:
        tree = Tree(url, Path(folder), "hostile", APP).start("--processes", 1, clock=WEBHOOKS)
        try:
            async with (
                await connect(url) as conn,
                hostile_receiver(counted) as port,
                api_process(
                    url, APP, "--rate", "100000", environment=WEBHOOKS, output=subprocess.DEVNULL
                ) as (address, api),
            ):
                admin, worker = await _clients(conn, settings, address)
                async with admin, worker:
                    await _publish(conn, settings, admin, port, len(numbers[0]))
                    await through_sql(conn, numbers[1], counted)
                    await through_handlers(conn, numbers[2], counted)
                    await through_http(admin, conn, numbers[3], counted)
                    await through_workers(worker, counted)
                    await _done(conn)
                    await shown(admin, conn, counted)
                    await commanded(url, conn, max(5, count // 200), counted)
                    await leaked(conn, counted)
                    if api.poll() is not None:
                        counted.wrong.append("the API died")
                rows = await conn.execute("select state, count(*) from holdfast.task_states group by 1")
                report.states = Counter(dict(await rows.fetchall()))
        finally:
            report.deaths = sum(1 for line in tree.lines("executor.ended") if line["status"] != 0)
            tree.close()
    return report


async def _clients(
    conn: Conn, settings: Settings, address: str
) -> tuple[httpx.AsyncClient, httpx.AsyncClient]:
    tokens, roles = Tokens(settings, by="hostile"), (Role.ADMIN, Role.WORKER)
    made = [(await tokens.create(conn, f"hostile {role}", role, None)).token for role in roles]
    admin, worker = (
        httpx.AsyncClient(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60)
        for token in made
    )
    return admin, worker


async def _publish(
    conn: Conn, settings: Settings, client: httpx.AsyncClient, port: int, deliveries: int
) -> None:
    endpoints = Endpoints(settings, by="hostile")
    for number in range(ENDPOINTS):
        await endpoints.create(conn, NewEndpoint(f"http://127.0.0.1:{port}/{number}"))
    for number in range(max(1, deliveries // ENDPOINTS)):
        event = {"type": "hostile.sent", "data": {"number": number}}
        (await client.post("/api/webhooks/events", json=event)).raise_for_status()


async def _done(conn: Conn) -> None:
    """Wait until the worker has done what is due."""
    began = time.monotonic()
    quiet = 0
    while quiet < 3:
        row = await (await conn.execute(DUE)).fetchone()
        assert row is not None, "counts always answer"
        quiet = quiet + 1 if row[0] == 0 else 0
        assert time.monotonic() - began < PATIENCE_SECONDS, f"{row[0]} tasks are still due"
        await asyncio.sleep(0.1)
