"""The example of a worker in shell and curl, killed and replaced: nothing is lost, nothing late is taken."""

import os
import random
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from holdfast.config import Settings
from holdfast.core.task import NewTask
from holdfast.ops.tokens import Role, Tokens
from tests.tree import Tree, until, until_true
from tests.world import World

ROOT = Path(__file__).parent.parent.parent
TASKS = int(os.environ.get("HOLDFAST_TEST_OUTSIDE_TASKS", "60"))
SECONDS = 60 + TASKS * 0.2


WORK = """#!/bin/sh
read line
echo "$line" >> {effects}
sleep 0.0$(($$ % 9))
echo "$line"
"""


class Fleet:
    """Workers in shell, some of which are killed now and then and replaced."""

    def __init__(self, environment: dict[str, str], kills: int) -> None:
        self._environment = environment
        self._left = kills
        self._chance = random.Random(7)
        self._workers = [self._start() for _ in range(4)]

    def _start(self) -> "subprocess.Popen[bytes]":
        command = [str(ROOT / "examples" / "worker.sh"), "shell", "shell"]
        return subprocess.Popen(command, env=self._environment, start_new_session=True)

    def strike(self) -> None:
        if self._left and self._chance.random() < 0.1:
            self._left -= 1
            place = self._chance.randrange(4)
            os.killpg(self._workers[place].pid, signal.SIGKILL)
            self._workers[place].wait()
            self._workers[place] = self._start()

    async def leave(self) -> None:
        assert not self._left, "it ended before all deaths were dealt"
        for worker in self._workers:
            os.killpg(worker.pid, signal.SIGTERM)
        await until(lambda: all(worker.poll() is not None for worker in self._workers), what="their end")

    def close(self) -> None:
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()


@pytest.mark.requirement("O1", "B9")
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.catches("outside-lease-for-ever")
async def test_o1_four_workers_in_shell_are_killed_and_nothing_is_lost(
    served: httpx.AsyncClient, trees: Callable[..., Tree], world: World, tmp_path: Path
) -> None:
    token = await Tokens(Settings(database_url=world.url), by="test").create(
        world.conn, "shell", Role.WORKER, None
    )
    # Somebody who gives back what the dead held.
    await trees().start("--queues", "nothing", "--lease", 2).ready()
    await world.store.enqueue_many(
        world.conn, [NewTask("shell", f'{{"n": {n}}}', queue="shell", max_attempts=20) for n in range(TASKS)]
    )
    effects, command = tmp_path / "effects.txt", tmp_path / "work"
    command.write_text(WORK.format(effects=effects))
    command.chmod(0o755)
    fleet = Fleet(
        os.environ
        | {
            "HOLDFAST_API": str(served.base_url),
            "HOLDFAST_TOKEN": token.token,
            "HOLDFAST_RUN": str(command),
            "HOLDFAST_LEASE_SECONDS": "5",
        },
        kills=max(3, TASKS // 100),
    )

    async def done() -> bool:
        fleet.strike()
        return await world.rows("task_history") == TASKS

    try:
        await until_true(done, SECONDS, "all tasks")
        await fleet.leave()
    finally:
        fleet.close()
    assert await world.rows("running") == 0
    assert await world.rows("tasks") == 0
    assert len(set(effects.read_text().splitlines())) == TASKS
    # What was taken is what the task asked for, each once.
    assert await world.rows_of("task_history", "result = payload") == [(True,)] * TASKS
