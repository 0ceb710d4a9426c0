"""Every page: for who cannot see or use a mouse, in two languages, with hostile text, without a database."""

import json
import re
from pathlib import Path

import psycopg
import pytest
from playwright.async_api import Page, expect

from holdfast.config import Settings
from holdfast.ops.tokens import Role
from tests.console.conftest import Console
from tests.console.hostile import STRINGS, planted
from tests.console.stage import seed
from tests.served import ROOT
from tests.tree import until_true

pytestmark = pytest.mark.timeout(300)
AXE = ROOT / "console/node_modules/axe-core/axe.min.js"
PAGES = (
    "", "/failures", "/failures?state=all", "/redrive", "/redrive/new", "/tasks", "/tasks?q=state:failed",
    "/queues", "/workers", "/schedules", "/webhooks", "/audit", "/approvals", "/health",
)  # fmt: skip


async def deep(console: Console) -> list[str]:
    """The pages of one group, one plan, one task, one endpoint."""
    found = []
    for path, query in (
        ("/failures/", "select fingerprint from holdfast.failure_groups order by first_seen_at desc limit 1"),
        ("/redrive/", "select id::text from holdfast.plans limit 1"),
        ("/tasks/", "select task_id::text from holdfast.task_attempts limit 1"),
        ("/webhooks/", "select id::text from holdfast.webhook_endpoints limit 1"),
    ):
        row = await (await console.world.conn.execute(query)).fetchone()
        assert row is not None, query
        found.append(path + str(row[0]))
    return found


async def settled(page: Page) -> None:
    """Everything that it asks for is there."""
    await expect(page.locator("main [aria-busy]")).to_have_count(0)
    await page.wait_for_load_state("load")


async def violations(page: Page) -> list[str]:
    """What axe finds."""
    await page.evaluate(AXE.read_text())
    found = await page.evaluate(
        "axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) =>"
        " v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')))"
    )
    return [str(one) for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_on_any_page(console: Console, scheme: str) -> None:
    await seed(console.world.conn, Settings(database_url=console.world.url))
    context = await console.context(color_scheme=scheme, bypass_csp=True)
    page = await context.new_page()
    wrong = {}
    for path in (*PAGES, *await deep(console)):
        await page.goto(f"/ops{path}")
        await expect(page.locator("main h1").first).to_be_visible()
        await settled(page)
        if found := await violations(page):
            wrong[path] = found
    await page.keyboard.press("?")
    if found := await violations(page):
        wrong["?"] = found
    assert not wrong, json.dumps(wrong, indent=1)
    await console.world.conn.execute("delete from holdfast.ready; delete from holdfast.tasks")


async def test_of_choices_beside_each_other_one_is_marked(console: Console) -> None:
    await seed(console.world.conn, Settings(database_url=console.world.url))
    context = await console.context()
    page = await context.new_page()
    endpoint = (await deep(console))[-1]
    for path in ("/failures", "/failures?state=all", endpoint, f"{endpoint}?failed=true"):
        await page.goto(f"/ops{path}")
        await expect(page.locator("main .segments [aria-current]")).to_have_count(1)


async def test_no_page_scrolls_sideways_and_all_have_their_words(console: Console) -> None:
    await seed(console.world.conn, Settings(database_url=console.world.url))
    for width, language in ((1280, "en-GB"), (390, "en-GB"), (390, "zh-CN"), (1280, "zh-CN")):
        context = await console.context(
            signed_in=f"ada {width} {language}", viewport={"width": width, "height": 800}, locale=language
        )
        page = await context.new_page()
        console.watch(page)
        for path in (*PAGES, *await deep(console)):
            await page.goto(f"/ops{path}")
            await expect(page.locator("main h1").first).to_be_visible()
            await settled(page)
            over = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, (path, width, language, over)
            text = await page.locator("body").inner_text()
            assert "undefined" not in text, (path, language)
            assert "NaN" not in text, (path, language)
            if language == "zh-CN":
                assert re.search(r"[\u4e00-\u9fff]", text), path
        await context.close()
    await console.world.conn.execute("delete from holdfast.ready; delete from holdfast.tasks")


async def test_language_and_theme_are_chosen_and_kept(console: Console) -> None:
    page = await console.page()
    await page.get_by_role("button", name=re.compile("Switch to Chinese")).click()
    await expect(
        page.get_by_role("link", name="死信").or_(page.get_by_role("navigation")).first
    ).to_be_visible()
    assert await page.evaluate("document.documentElement.lang") == "zh-CN"
    await page.locator(".tools button").nth(2).click()
    assert await page.evaluate("document.documentElement.dataset.theme") == "light"
    await page.reload()
    await expect(page.locator("main h1").first).to_be_visible()
    assert await page.evaluate("document.documentElement.lang") == "zh-CN"
    assert await page.evaluate("document.documentElement.dataset.theme") == "light"


async def test_200_hostile_strings_in_every_field_are_shown_as_text(console: Console) -> None:
    assert len(STRINGS) == 200
    await planted(console.world)
    context = await console.context()
    page = await context.new_page()
    console.watch(page)
    for path in (*PAGES, *await deep(console), "/audit?page=2", "/failures?state=all"):
        await page.goto(f"/ops{path}")
        await expect(page.locator("main h1").first).to_be_visible()
        await settled(page)
        assert await page.evaluate("window.pwned") is None, path
        strange = await page.evaluate("document.querySelectorAll('main :is(img,iframe,script)').length")
        assert not strange, path
    shown = await page.locator("main").inner_text()
    assert "<script>" in shown or "onerror" in shown, "they are there, as text"


async def test_what_every_page_asks_first_is_on_its_way_before_the_scripts_and_asked_once(
    console: Console,
) -> None:
    context = await console.context()
    page = await context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.removeprefix(console.url)))
    await page.goto("/ops/queues")
    await expect(page.locator("main h1").first).to_be_visible()
    await settled(page)
    # What is live may ask for more later; who one is does not change.
    assert asked.count("/api/me") == 1
    assert asked.index("/api/now?hours=6") < next(
        place for place, path in enumerate(asked) if "/queues-" in path
    )


async def test_whoever_is_not_signed_in_is_asked_and_a_wrong_token_is_refused(console: Console) -> None:
    page = await console.page(signed_in=None)
    await page.get_by_label("Token").fill("hf_wrong")
    await page.get_by_role("button", name="Enter").click()
    await expect(page.locator("main")).to_contain_text("not known")
    viewer = await console.page("/queues", signed_in="jun", role=Role.VIEWER)
    await console.world.enqueue()
    await viewer.reload()
    await expect(viewer.get_by_role("button", name="Pause…").first).to_be_disabled()
    await viewer.get_by_role("button", name=re.compile("Leave")).click()
    await expect(viewer.get_by_label("Token")).to_be_visible()


@pytest.mark.catches("away-in-silence")
@pytest.mark.parametrize("watching", [True, False])
async def test_a_database_that_is_away_is_said_to_be_and_the_page_comes_back(
    console: Console, direct_url: str, *, watching: bool
) -> None:
    await seed(console.world.conn, Settings(database_url=console.world.url))
    page = await console.page()
    if watching:
        async with page.expect_response("**/api/live", timeout=60_000):
            await page.reload()
    else:
        # As when it went away between two streams: then there is nobody who could tell.
        await page.route("**/api/live", lambda route: route.fulfill(status=503))
        await page.reload()
        await expect(page.locator(".live")).to_contain_text("Not connected", timeout=60_000)
    await expect(page.locator(".verdict")).to_contain_text("Degraded")
    server, _, name = direct_url.rpartition("/")
    async with await psycopg.AsyncConnection.connect(f"{server}/postgres", autocommit=True) as keeper:
        try:
            await keeper.execute(f'alter database "{name}" allow_connections false')

            async def told() -> bool:
                # Again and again: behind a pooler the API may go on with what was another's a moment ago.
                await keeper.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where datname = %s and application_name like 'holdfast api%%'",
                    [name],
                )
                return "The database does not answer" in await page.locator(".verdict").inner_text()

            # Whoever looks is told, without asking, and sees the last figures.
            await until_true(told, 30, "the verdict")
            await expect(page.locator(".live")).to_contain_text("Not connected")
            await expect(page.locator(".tiles")).to_contain_text("Oldest ready")
            await page.get_by_role("link", name="Workers").first.click()
            await expect(page.get_by_role("heading", name="Workers")).to_be_visible()
            await expect(page.locator("main")).to_contain_text("The database does not answer", timeout=30_000)
            await page.go_back()
        finally:
            await keeper.execute(f'alter database "{name}" allow_connections true')
    await expect(page.locator(".verdict")).to_contain_text("Degraded", timeout=30_000)
    await console.world.conn.execute("delete from holdfast.ready; delete from holdfast.tasks")


def test_no_file_has_a_colour_or_a_size_of_its_own() -> None:
    style = ROOT / "console/src/style"
    for file in style.glob("*.css"):
        if file.name == "tokens.css":
            continue
        text = file.read_text()
        assert not re.search(r"#[0-9a-f]{3,8}\b|rgb\(|hsl\(", text), file.name
        assert not re.search(r"font-size: \d+px", text), file.name
    for file in (ROOT / "console/src").rglob("*.tsx"):
        assert not re.search(r"#[0-9a-fA-F]{6}\b|rgb\(", file.read_text()), file.name


def test_the_client_is_made_of_the_document() -> None:
    """`npm run client` writes it; each path of the document stands in it."""
    document = json.loads((ROOT / "docs/reference/openapi.json").read_text())
    client = Path(ROOT / "console/src/api/document.d.ts").read_text()
    for path in document["paths"]:
        assert f'"{path}": {{' in client, f"{path}: run `make client`"
    for name in document["components"]["schemas"]:
        assert f" {name}: " in client, f"{name}: run `make client`"
