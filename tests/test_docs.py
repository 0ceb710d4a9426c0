"""The docs are true: reference pages are the code's, every setting is there, code blocks run."""

import ast
import asyncio
import importlib
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import BaseModel

import holdfast
from holdfast import Holdfast, Task
from holdfast.config import Settings
from holdfast.testing import Bench
from tests.reference import PAGES, settings_table
from tests.tree import Tree
from tests.world import World

DOCS = Path(__file__).parent.parent / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WRITE = os.environ.get("HOLDFAST_WRITE_DOCS")


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_is_what_the_code_says(name: str) -> None:
    page = DOCS / "reference" / name
    made = PAGES[name]()
    if WRITE:
        page.write_text(made)
    assert page.read_text() == made, "HOLDFAST_WRITE_DOCS=1 pytest tests/test_docs.py"


def test_every_setting_is_documented() -> None:
    page = DOCS / "reference" / "settings.md"
    head, _, rest = page.read_text().partition("## Of an app\n")
    tail = rest[rest.index("## Secrets of a process") :]
    made = f"{head}## Of an app\n\n{settings_table()}\n\n{tail}"
    if WRITE:
        page.write_text(made)
    assert page.read_text() == made, "HOLDFAST_WRITE_DOCS=1 pytest tests/test_docs.py"
    assert all(field.description for field in Settings.model_fields.values())


@pytest.mark.parametrize(
    "page", [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.name
)
def test_every_python_block_compiles(page: Path) -> None:
    for number, block in enumerate(_BLOCK.findall(page.read_text())):
        compile(
            textwrap.dedent(block), f"{page.name}:{number}", "exec", flags=0x2000
        )  # a block may await at its top


def test_the_tutorial_shows_the_program_that_the_tests_run() -> None:
    program = (DOCS.parent / "examples" / "shop.py").read_text()
    for block in _BLOCK.findall((DOCS / "tutorial" / "first-shop.md").read_text()):
        assert block in program


async def test_the_shop_of_the_tutorial_takes_an_order_and_charges_for_it(
    world: World, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    shop = importlib.reload(importlib.import_module("examples.shop"))
    tree = Tree(url, tmp_path, app="examples.shop:app").start()
    try:
        async with (
            shop.lifespan(shop.api),
            AsyncClient(transport=ASGITransport(shop.api), base_url="http://shop") as client,
        ):
            made = await client.post("/orders", json={"email": "ada@example.org", "cents": 990})
            assert made.status_code == 201
            assert await shop.app.handle(made.json()["task"]).result(timeout=30) == {
                "charged": made.json()["order"]
            }
            shown = await client.get(f"/tasks/{made.json()['task']}")
            assert shown.json()["state"] == "completed"
            assert (await client.get("/tasks/nope")).status_code == 404
        row = await (await world.conn.execute("select state from public.shop_orders")).fetchone()
        assert row == ("paid",)
    finally:
        tree.close()
        await world.conn.execute("drop table public.shop_orders")


class Provider:
    """An outside party that has an answer at the second time of asking."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def start(self, payload: object, *, token: str) -> SimpleNamespace:
        self.tokens.append(token)
        return SimpleNamespace(done=len(self.tokens) > 1, percent=50.0, url=f"https://cdn.example/{payload}")


async def _execute(source: str, names: dict[str, object]) -> None:
    code = compile(textwrap.dedent(source), "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307 (our own pages)
    if done is not None:
        await done


async def test_the_readme_s_program_runs(world: World, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", url)
    (block,) = _BLOCK.findall((DOCS.parent / "README.md").read_text())
    define, enqueue = block.split("handle = ", 1)
    enqueue, result = enqueue.split("url = ", 1)
    provider = Provider()
    await world.conn.execute("create table public.shots (id integer primary key, url text)")
    await world.conn.execute("insert into public.shots values (3, null)")
    names: dict[str, object] = vars(holdfast) | {"provider": provider, "session": world.conn}
    names |= {name: getattr(holdfast, name) for name in holdfast.__all__} | {"BaseModel": BaseModel}
    # Annotations are read where the function stands, as in a module.
    monkeypatch.setitem(sys.modules, "readme_block", ModuleType("readme_block"))
    names["__name__"] = "readme_block"
    await _execute(define, names)
    await _execute("handle = " + enqueue, names)
    app = names["app"]
    assert isinstance(app, Holdfast)
    bench = await Bench.open(app)
    try:
        assert (await bench.run_next(queues=["video"])).state == "queued"
        await bench.move_time(20)
        assert (await bench.run_next(queues=["video"])).state == "completed"
        await _execute("url = " + result, names)
        row = await (await world.conn.execute("select url from public.shots")).fetchone()
        assert row == (names["url"],)
        assert provider.tokens == ["shot:3", "shot:3"]
    finally:
        await bench.close()
        await world.conn.execute("drop table public.shots")


async def test_the_block_about_versions_runs() -> None:
    (block,) = _BLOCK.findall((DOCS / "how-to" / "deploys.md").read_text())
    app = Holdfast()
    await _execute(block, {"app": app, "Task": Task, "Render": dict[str, str]})
    assert app.handlers["video.render"].decode('{"shot": "3"}', 1) == {"shot": "3", "quality": "high"}


async def test_the_tests_of_the_guide_pass_with_the_plugin(world: World, url: str, tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "testing.md").read_text()
    (settings,) = re.findall(r"^```toml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (block,) = _BLOCK.findall(page)
    (tmp_path / "pyproject.toml").write_text(settings)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(
        "from holdfast import Holdfast, Task\napp = Holdfast()\n"
        "@app.task('order.charge')\nasync def charge(task: Task[dict[str, int]]) -> None: ...\n"
    )
    (tmp_path / "test_shop.py").write_text(
        "from shop.tasks import charge\norder = 7\n"
        "async def checkout(order):\n    await charge.enqueue({'order': order})\n\n" + block
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=os.environ | {"HOLDFAST_DATABASE_URL": url, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout + done.stderr


async def test_the_readme_s_sql_runs(world: World) -> None:
    page = (DOCS.parent / "README.md").read_text()
    blocks = re.findall(r"^```sql\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        await world.conn.execute(block)
    assert await world.rows("tasks") == len(blocks)
