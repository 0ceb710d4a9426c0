"""`holdfast init`: writes a starter app that runs unchanged."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.output import refuse, say
from holdfast.core.errors import Misused

STARTER = '''"""Tasks of this project: `holdfast worker tasks:app` runs them."""

import asyncio

from pydantic import BaseModel

from holdfast import Holdfast, Task

app = Holdfast()  # HOLDFAST_DATABASE_URL, else DATABASE_URL


class Greeting(BaseModel):
    name: str


@app.task("greet", max_attempts=5)
async def greet(task: Task[Greeting]) -> str:
    """Runs at least once; `task.key` is the same at every attempt."""
    return f"hello, {task.payload.name}"


async def main() -> None:
    """Enqueue one, and wait for what comes of it."""
    async with app:
        handle = await greet.enqueue(Greeting(name="world"))
        print(await handle.result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
'''


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("tasks.py"),
) -> None:
    """Write a starter app; nothing that exists is overwritten."""
    if file.exists():
        refuse(f"{file} exists already: name another file, or remove it first")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(STARTER)
    except OSError as error:
        raise Misused(f"{file} cannot be written: {error.strerror}") from error
    below = not file.is_absolute() and ".." not in file.parts
    module = ".".join(file.with_suffix("").parts) if below else file.stem
    say(f"{file} is written. Next:")
    if not below:
        say(f"  cd {file.parent}")
    say("  export HOLDFAST_DATABASE_URL=postgresql://localhost/mydb")
    say("  holdfast migrate")
    say(f"  holdfast worker {module}:app &")
    say(f"  python {file if below else file.name}")
