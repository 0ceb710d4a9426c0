"""The console without a mouse."""

import re

import pytest
from playwright.async_api import expect

from tests.console.conftest import Console
from tests.tree import Tree

pytestmark = pytest.mark.timeout(180)


async def test_the_wizard_is_walked_by_keyboard_alone(  # noqa: PLR0915 (one walk)
    console: Console, worker: Tree
) -> None:
    await console.renders(3)
    await console.dead(3)
    console.mended.touch()
    page = await console.page()
    await page.keyboard.press("g")
    await page.keyboard.press("r")
    await expect(page).to_have_url(re.compile("/redrive$"))

    async def tab_to(name: str) -> None:
        for _ in range(80):
            await page.keyboard.press("Tab")
            found = await page.evaluate(
                "(document.activeElement.labels?.[0]?.textContent || document.activeElement.textContent"
                " || document.activeElement.getAttribute('aria-label') || '').trim()"
            )
            if found == name:
                return
        raise AssertionError(f"no way to {name} by Tab")

    await tab_to("New plan")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("table", name="Preview").get_by_role("row")).to_have_count(4)
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.locator(".selection")).to_contain_text("1 selected")
    await page.keyboard.press("x")
    await expect(page.locator(".selection")).to_contain_text("0 selected")
    await tab_to("Reason")
    await page.keyboard.type("by hand")
    await tab_to("Freeze 3 into a plan")
    await page.keyboard.press("Enter")
    await expect(page.locator(".head .pill")).to_have_text("frozen")
    await tab_to("Start the canary of 3")
    await page.keyboard.press("Enter")
    await expect(page.locator(".head .pill")).to_have_text("finished", timeout=60_000)
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_contain_text("All keys")
    await page.keyboard.press("Escape")
    await page.keyboard.press("/")
    await page.keyboard.type("kind:video.render state:completed")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile(r"/tasks\?q=kind"))
    await expect(page.get_by_role("table", name="Tasks").get_by_role("row")).to_have_count(4)
