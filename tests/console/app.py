"""The app of the studio: renders that fail until somebody mends them."""

import os
from pathlib import Path

from holdfast import Holdfast, Task

MENDED = "HOLDFAST_TEST_MENDED"
app = Holdfast()


class ProviderTimeoutError(Exception):
    """The provider did not answer."""


def mended() -> bool:
    """Whether somebody has put the file there."""
    return Path(os.environ[MENDED]).exists()


@app.task("video.render", max_attempts=1)
async def render(task: Task[dict[str, object]]) -> dict[str, str]:
    """Fails for what is large, as long as nobody has put the file there."""
    if task.payload.get("resolution") == "2160p" and not mended():
        raise ProviderTimeoutError("POST /v2/jobs: no answer in 30.0 s")
    return {"url": f"s3://renders/{task.payload.get('shot')}"}


@app.task("mail.send")
async def mail(task: Task[dict[str, object]]) -> None:
    """Always done."""
