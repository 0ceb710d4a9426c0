"""How far it is from a task's claim to its settle, in functions and files."""

import json
from pathlib import Path

from tests.tree import Tree, until
from tests.walk_app import WALK_FILE
from tests.world import World

FUNCTIONS_MAX = 25
FILES_MAX = 12


async def test_a_task_passes_through_few_functions_of_few_files(world: World, tmp_path: Path) -> None:
    walk = tmp_path / "walk"
    tree = Tree(world.url, tmp_path, "walk", "tests.walk_app:app").start(clock={WALK_FILE: str(walk)})
    try:
        await world.enqueue("noop")
        await until(walk.exists, what="the task to be settled")
        await until(lambda: tree.lines("task.completed"), what="its log line")
    finally:
        tree.close()
    functions = json.loads(walk.read_text())
    files = {name.partition(":")[0] for name in functions}
    assert len(functions) <= FUNCTIONS_MAX, functions
    assert len(files) <= FILES_MAX, files
    assert {"/core/decide.py", "/worker/executor/runs.py", "/store/settle.py"} <= files
