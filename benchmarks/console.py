"""How quick the console is beside a million dead letters: the first paint of Now, and what a press costs.

python -m benchmarks.console --write docs/benchmarks/console.json      about 3 minutes
"""

import argparse
import asyncio
import gzip
import shutil
import statistics
from pathlib import Path

from playwright.async_api import Browser, Page, async_playwright, expect
from tests.cluster import DURABLE, postgres
from tests.console.conftest import serving
from tests.console.stage import seed

from benchmarks.loops import about, write
from holdfast.config import Settings
from holdfast.db.connect import connect
from holdfast.db.migrate import migrate_up

ROUNDS = 7
PAGES = Path("src/holdfast/http/pages")
# How long the browser took from the press to the next picture of what it did.
OBSERVE = """
window.presses = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (one.interactionId) window.presses.push(one.duration);
}).observe({type: 'event', durationThreshold: 16, buffered: true});
"""


async def painted(browser: Browser, url: str) -> float:
    """From the address to a verdict, with nothing in any cache, in ms."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    await page.goto(f"{url}/ops", wait_until="commit")
    await page.wait_for_selector(".verdict h1")
    taken: float = await page.evaluate("performance.now()")
    await context.close()
    return taken


async def pressed(page: Page, url: str) -> dict[str, float]:
    """The slowest press of each sort, in ms."""
    found = {}

    async def worst(name: str) -> None:
        await page.wait_for_timeout(300)
        presses: list[float] = await page.evaluate("window.presses.splice(0)")
        # What took less than a picture is not listed.
        found[name] = max(presses, default=16.0)

    await page.goto(f"{url}/ops/redrive/new")
    table = page.get_by_role("table", name="Preview")
    await expect(table.get_by_role("row")).to_have_count(21)
    await worst("arriving")
    for place in range(1, 11):
        await table.get_by_role("checkbox").nth(place).click()
    await worst("ticking ten rows")
    await table.get_by_role("checkbox").first.click()
    await worst("ticking the page")
    await page.get_by_role("button", name="Retry 20 now…").click()
    await page.keyboard.type("a reason")
    await worst("a dialog and its reason")
    await page.keyboard.press("Escape")
    await page.goto(f"{url}/ops/tasks?q=state:failed")
    rows = page.get_by_role("table", name="Tasks").get_by_role("row")
    await expect(rows).to_have_count(51)
    for _ in range(20):
        await page.keyboard.press("j")
    await worst("walking twenty rows")
    await page.get_by_role("button", name="Older").click()
    await worst("the next page")
    await page.goto(f"{url}/ops")
    await page.get_by_role("button", name="24 h").click()
    await worst("another span")
    return found


async def measured(server: str, dead: int) -> dict[str, object]:
    """All of it over one database."""
    settings = Settings(database_url=f"{server}/postgres")
    async with await connect(settings.database_url) as conn:
        await migrate_up(conn, settings.schema_name)
        await seed(conn, settings, dead)
        await conn.execute("vacuum analyze")
    chromium = shutil.which("chromium")
    assert chromium is not None, "it needs a browser: apt-get install chromium"
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser,
        serving(settings.database_url, Path("none"), auth=False) as url,
    ):
        paints = [await painted(browser, url) for _ in range(ROUNDS)]
        context = await browser.new_context(viewport={"width": 1280, "height": 900})
        await context.add_init_script(OBSERVE)
        presses = await pressed(await context.new_page(), url)
    return {
        "dead letters": dead,
        "first useful paint of Now, ms": {
            "median": round(statistics.median(paints)),
            "lowest": round(min(paints)),
            "highest": round(max(paints)),
        },
        "slowest press, ms": presses,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dead", type=int, default=1_000_000)
    parser.add_argument("--write", metavar="FILE")
    chosen = parser.parse_args()
    packed = sum(len(gzip.compress(file.read_bytes())) for file in (PAGES / "assets").iterdir())
    found: dict[str, object] = {"about": about(), "all of the console, gzipped, kB": round(packed / 1_000, 1)}
    with postgres(15, DURABLE) as server:
        found |= asyncio.run(measured(server, chosen.dead))
    print(found, flush=True)
    write(chosen.write, found)


if __name__ == "__main__":
    main()
