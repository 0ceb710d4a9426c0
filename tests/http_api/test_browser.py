"""Cross-site acts in a real browser, by somebody who is signed in: each is refused."""

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest
from playwright.async_api import async_playwright

from holdfast.config import Settings
from holdfast.ops.tokens import Role, Tokens
from tests.world import World

FORM = """<form id="f" method="post" enctype="text/plain" action="{path}">
<input name='{{"reason": "x", "a' value='": 1}}'></form><script>f.submit()</script>"""
FETCH = """<script>
fetch("{path}", {{method: "POST", mode: "{mode}", credentials: "include", body: '{{"reason": "x"}}',
    headers: {{"Content-Type": "{type}"}}}})
    .then(() => document.title = "sent", () => document.title = "refused")
</script>"""


@pytest.fixture
def evil() -> Iterator[tuple[int, dict[str, str]]]:
    """Another site, with whatever pages it likes."""
    pages: dict[str, str] = {}

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Site)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, pages
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.requirement("B9")
@pytest.mark.catches("other-sites-may-act", "acts-without-their-word")
async def test_b9_what_another_site_sends_from_the_browser_of_somebody_signed_in_is_refused(
    served: httpx.AsyncClient, world: World, evil: tuple[int, dict[str, str]]
) -> None:
    chromium = shutil.which("chromium")
    assert chromium is not None, "this test needs a browser: apt-get install chromium"
    port, pages = evil
    token = await Tokens(Settings(database_url=world.url), by="test").create(
        world.conn, "eve's prey", Role.ADMIN, None
    )
    api = str(served.base_url).rstrip("/")
    path = f"{api}/api/queues/default/pause"
    pages["/form"] = FORM.format(path=path)
    pages["/plain"] = FETCH.format(path=path, mode="no-cors", type="text/plain")
    pages["/json"] = FETCH.format(path=path, mode="cors", type="application/json")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = await browser.new_context()
        begun = await context.request.post(f"{api}/api/session", data={"token": token.token})
        assert begun.status == 201
        csrf = (await begun.json())["csrfToken"]
        assert any(cookie["name"].startswith("__Host-") for cookie in await context.cookies())
        # Once as a site of another name, once as a neighbour that only has another port.
        for host in ("localhost", "127.0.0.1"):
            for name in pages:
                page = await context.new_page()
                await page.goto(f"http://{host}:{port}{name}")
                if name == "/form":
                    await page.wait_for_url(path)
                else:
                    await page.wait_for_function("document.title != ''")
                await page.close()
                assert await world.rows("queues") == 0, (host, name)
        # The same act from the site itself, with its word, is done.
        headers = {"X-CSRF-Token": csrf, "Origin": api}
        done = await context.request.post(path, data={"reason": "x"}, headers=headers)
        assert done.status == 200
        assert await world.rows("queues") == 1
        await browser.close()
