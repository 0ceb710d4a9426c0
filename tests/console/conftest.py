"""The console as people have it: a real API, a real worker, a real browser."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from holdfast.config import Settings
from holdfast.core.task import NewTask
from holdfast.ops.tokens import Role, Tokens
from tests.console.app import MENDED
from tests.served import ROOT, api_process
from tests.tree import Tree, until_true
from tests.world import World

APP = "tests.console.app:app"
SECONDS = 15.0
expect.set_options(timeout=SECONDS * 1_000)


@dataclass(slots=True)
class Console:
    """A console that is served, and whoever looks at it."""

    url: str
    browser: Browser
    world: World
    mended: Path
    # What a page tried and was not allowed to, and what broke in it.
    violations: list[str] = field(default_factory=list)

    async def context(
        self, *, signed_in: str | None = "ada", role: Role = Role.ADMIN, **options: object
    ) -> BrowserContext:
        """A browser of one person."""
        context = await self.browser.new_context(base_url=self.url, **options)  # type: ignore[arg-type]
        await context.add_init_script(
            "document.addEventListener('securitypolicyviolation', (event) =>"
            " console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))"
        )
        context.set_default_timeout(SECONDS * 1_000)
        if signed_in is not None:
            made = await Tokens(Settings(database_url=self.world.url), by="test").create(
                self.world.conn, signed_in, role, None
            )
            begun = await context.request.post(f"{self.url}/api/session", data={"token": made.token})
            assert begun.status == 201
        return context

    async def page(self, path: str = "", **options: object) -> Page:
        """A page of one person, looked at until it is there."""
        context = await self.context(**options)  # type: ignore[arg-type]
        page = await context.new_page()
        self.watch(page)
        await page.goto(f"/ops{path}")
        await expect(page.locator("main h1").first).to_be_visible()
        return page

    def watch(self, page: Page) -> None:
        """Note what breaks in it."""
        page.on("pageerror", lambda error: self.violations.append(f"broken: {error}"))
        page.on("dialog", lambda dialog: self.violations.append(f"a dialog: {dialog.message}"))
        page.on(
            "console",
            lambda said: self.violations.append(said.text) if "policy: " in said.text else None,
        )

    async def renders(self, count: int) -> list[str]:
        """Enqueue renders that fail until they are mended."""
        made = await self.world.store.enqueue_many(
            self.world.conn,
            [
                NewTask(
                    "video.render",
                    f'{{"shot": {shot}, "resolution": "2160p"}}',
                    subject=f"episode {shot % 3}",
                    trace_id=f"trace-{shot}",
                )
                for shot in range(count)
            ],
        )
        return [one.id for one in made]

    async def dead(self, count: int) -> None:
        """Wait until so many have died."""

        async def died() -> bool:
            found = await self.world.conn.execute("select count(*) from holdfast.tasks where mark = 'failed'")
            row = await found.fetchone()
            return row is not None and row[0] >= count

        await until_true(died, SECONDS, f"{count} dead letters")


@pytest.fixture(scope="session")
def built() -> Path:
    """The pages, which `make console` builds."""
    pages = ROOT / "src/holdfast/http/pages/index.html"
    assert pages.exists(), "make console builds what these tests look at"
    return pages


@pytest.fixture
async def browser(built: Path) -> AsyncIterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "this test needs a browser: apt-get install chromium"
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        await opened.close()


@asynccontextmanager
async def serving(url: str, mended: Path, *, auth: bool = True, **environment: str) -> AsyncIterator[str]:
    """An API as a process of its own; answers where, once it says that it is ready."""
    known = {MENDED: str(mended)} | environment
    options = ("--rate", "1000", *(() if auth else ("--no-auth",)))
    async with api_process(url, APP, *options, environment=known) as (address, _):
        yield address


@pytest.fixture
async def console(world: World, url: str, browser: Browser, tmp_path: Path) -> AsyncIterator[Console]:
    """Served with tokens; whatever is done in it, nothing breaks and no policy is hurt."""
    mended = tmp_path / "mended"
    async with serving(url, mended, HOLDFAST_APPROVAL_ABOVE="5", HOLDFAST_ENVIRONMENT="test") as served:
        opened = Console(served, browser, world, mended)
        yield opened
    assert not opened.violations


@pytest.fixture
async def worker(console: Console, trees: Callable[..., Tree], monkeypatch: pytest.MonkeyPatch) -> Tree:
    """A worker of the studio."""
    monkeypatch.setenv(MENDED, str(console.mended))
    monkeypatch.setenv("HOLDFAST_RELEASE", "1.8.2")
    return await trees(app=APP).start("--processes", 1).ready(1)
