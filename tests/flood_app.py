"""The app that a flood of one tenant hits: `tests.flood_app:app`."""

from typing import Any

from holdfast import Holdfast, Limit, Task
from tests.apps import effect

app = Holdfast()


@app.task("render", per=("tenant", Limit(running=10)))
async def render(task: Task[dict[str, Any]]) -> None:
    """Does nothing; only those that are watched leave a line."""
    if "watched" in task.payload:
        effect("start", task)
