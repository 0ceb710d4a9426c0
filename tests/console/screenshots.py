"""Every page of the console as a picture: light, dark, empty, with a million dead letters, narrow, and so on.

python -m tests.console.screenshots FOLDER [--dead 1000000]      the best of them go to docs/console
"""

import argparse
import asyncio
import os
import shutil
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright

from holdfast.config import Settings
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up
from tests.cluster import DURABLE, postgres
from tests.console.conftest import serving
from tests.console.stage import seed

PAGES = {
    "now": "", "failures": "/failures?state=all", "redrive": "/redrive", "redrive-new": "/redrive/new",
    "tasks": "/tasks?q=state:failed", "queues": "/queues", "workers": "/workers", "schedules": "/schedules",
    "webhooks": "/webhooks", "audit": "/audit", "approvals": "/approvals", "health": "/health",
}  # fmt: skip
DEEP = {
    "group": ("/failures/", "select '7c1e09b27c1e09b2'"),
    "plan": ("/redrive/", "select id::text from holdfast.plans where needs_approval limit 1"),
    "task": ("/tasks/", "select task_id::text from holdfast.task_attempts limit 1"),
    "endpoint": ("/webhooks/", "select id::text from holdfast.webhook_endpoints limit 1"),
}
# What README and the documentation show.
BEST = ("now-light", "now-dark", "group-light", "redrive-new-light", "plan-light", "task-dark")


async def shot(page: Page, url: str, path: str, file: Path, *, wait: float = 1.2) -> None:
    """One page as it is once everything has come."""
    await page.goto(f"{url}/ops{path}")
    await page.wait_for_timeout(wait * 1_000)
    await page.screenshot(path=file, full_page=True)


async def series(
    browser: Browser, url: str, paths: dict[str, str], folder: Path, name: str, **options: object
) -> None:
    """Every page once, as one sort of person sees it."""
    size = options.pop("viewport", {"width": 1280, "height": 900})
    context = await browser.new_context(viewport=size, **options)  # type: ignore[arg-type]
    page = await context.new_page()
    for one, path in paths.items():
        await shot(page, url, path, folder / f"{one}-{name}.png")
    await context.close()


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dead", type=int, default=1_000_000)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    assert chromium is not None, "it needs a browser: apt-get install chromium"
    os.environ["HOLDFAST_ENVIRONMENT"] = "production"
    with postgres(15, DURABLE) as server:
        async with (
            async_playwright() as playwright,
            await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
        ):
            for name in ("empty", "studio", "million"):
                await night(browser, server, name, chosen.folder, chosen.dead)
    for one in BEST:
        shutil.copy(chosen.folder / f"{one}.png", f"docs/console/{one}.png")


async def night(browser: Browser, server: str, name: str, folder: Path, dead: int) -> None:
    """One database, and every page over it."""
    async with await connect(f"{server}/postgres") as keeper:
        await keeper.execute(f"create database {name}")
    settings = Settings(database_url=f"{server}/{name}")
    paths = dict(PAGES)
    async with await connect(settings.database_url) as conn:
        await migrate_up(conn, settings.schema_name)
        if name != "empty":
            await seed(conn, settings, dead if name == "million" else 0)
            for one, (path, query) in DEEP.items():
                row = await (await conn.execute(query)).fetchone()  # type: ignore[arg-type, unused-ignore]
                assert row is not None, one
                paths[one] = path + str(row[0])
        async with serving(settings.database_url, folder / "none", auth=False) as url:
            if name == "studio":
                await series(browser, url, paths, folder, "light", color_scheme="light")
                await series(browser, url, paths, folder, "dark", color_scheme="dark")
                await series(browser, url, paths, folder, "chinese", locale="zh-CN")
                narrow = {"width": 390, "height": 844}
                await series(browser, url, paths, folder, "narrow", viewport=narrow)
                await away(browser, server, url, folder)
            else:
                await series(browser, url, paths, folder, name)


async def away(browser: Browser, server: str, url: str, folder: Path) -> None:
    """The database goes while somebody looks, and is not there for whoever comes."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    await shot(page, url, "", folder / "now-before.png")
    async with await connect(f"{server}/postgres") as keeper:
        await keeper.execute("alter database studio allow_connections false")
        await keeper.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = 'studio' and application_name = 'holdfast api'"
        )
        await page.wait_for_timeout(12_000)
        await page.screenshot(path=folder / "now-database-lost.png", full_page=True)
        await shot(page, url, "/tasks", folder / "tasks-no-database.png", wait=9.0)
        await keeper.execute("alter database studio allow_connections true")
    await context.close()


if __name__ == "__main__":
    asyncio.run(main())
