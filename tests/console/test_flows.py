"""What an operator does in the console, in a real browser against a real API, worker and database."""

import json
import re

import pytest
from playwright.async_api import Page, Request, expect

from holdfast.core.state import State
from holdfast.core.task import NewTask
from holdfast.ops.tokens import Role
from tests.console.conftest import Console
from tests.tree import Tree, until_true

pytestmark = pytest.mark.timeout(180)


async def said(page: Page, words: str) -> None:
    """A toast says so."""
    await expect(page.locator(".toast", has_text=words).first).to_be_visible()


async def why(page: Page, reason: str) -> None:
    """Give a reason in the open dialog."""
    await page.locator("dialog textarea").last.fill(reason)


@pytest.mark.requirement("T13")
@pytest.mark.catches("queue-page-leads-nowhere", "board-without-the-dead")
async def test_t13_from_the_queue_page_to_a_retried_task(console: Console, worker: Tree) -> None:
    ids = await console.renders(4)
    await console.dead(4)
    page = await console.page("/queue")
    await expect(page).to_have_url(re.compile(r"/ops$"))
    kinds = page.get_by_role("table", name="Kinds").get_by_role("row", name=re.compile("video.render"))
    await expect(kinds.get_by_role("cell").nth(4)).to_have_text("4")
    latest = page.get_by_role("table", name="Latest dead letters")
    await expect(latest.get_by_role("row")).to_have_count(5)
    # By subject, by kind, by trace.
    await page.get_by_role("textbox", name="Subject").fill("episode 1")
    await page.get_by_role("button", name="Filter").click()
    await expect(latest.get_by_role("row")).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"subject=episode\+1"))
    await page.get_by_role("textbox", name="Subject").fill("")
    await page.get_by_role("textbox", name="Trace").fill("trace-2")
    await page.get_by_role("button", name="Filter").click()
    await expect(latest.get_by_role("row")).to_have_count(2)
    # Retry one: it is back at work with the cause gone, and a task id leads to its detail.
    console.mended.touch()
    await latest.get_by_role("link", name=re.compile("…")).click()
    await expect(page).to_have_url(re.compile(f"/tasks/{ids[2]}"))
    await page.get_by_role("button", name="Retry…", exact=True).click()
    await why(page, "the provider is back")
    await page.get_by_role("button", name="Retry it").click()
    await said(page, "It is back at work")
    await expect(page.locator(".head .pill")).to_have_text("completed")
    await page.get_by_role("button", name=re.compile("^Operators")).click()
    await expect(page.locator(".timeline")).to_contain_text("the provider is back")


@pytest.mark.requirement("T11", "T13")
@pytest.mark.catches("ticks-are-ignored")
async def test_t11_the_wizard_previews_by_the_reading_route_and_retries_what_is_ticked(
    console: Console, worker: Tree
) -> None:
    await console.renders(5)
    await console.dead(5)
    page = await console.page("/redrive/new")
    asked: list[tuple[str, str]] = []

    def note(request: Request) -> None:
        if "/api/" in request.url:
            asked.append((request.method, request.url.partition("/api/")[2].partition("?")[0]))

    page.on("request", note)
    await page.reload()
    table = page.get_by_role("table", name="Preview")
    await expect(table.get_by_role("row")).to_have_count(6)
    assert ("GET", "tasks/dead-letters/preview") in asked
    assert {method for method, _ in asked} == {"GET"}
    console.mended.touch()
    ticks = table.get_by_role("checkbox")
    chosen = [await table.get_by_role("link").nth(place).get_attribute("title") for place in (0, 1)]
    await ticks.nth(1).check()
    await ticks.nth(2).check()
    await expect(page.locator(".live")).to_contain_text("Paused while you select")
    await page.get_by_role("button", name="Retry 2 now…").click()
    await why(page, "two first")
    await page.get_by_role("dialog").get_by_role("button", name="Retry 2 now…").click()
    await said(page, "2 are back at work")
    assert ("POST", "tasks/dead-letters/retry") in asked
    await expect(table.get_by_role("row")).to_have_count(4)

    async def completed() -> bool:
        return [await console.world.state(str(task_id)) for task_id in chosen] == [State.COMPLETED] * 2

    await until_true(completed, 60, "both to complete")
    # All of the page at once.
    await ticks.nth(0).check()
    await expect(page.locator(".selection")).to_contain_text("3 selected")


@pytest.mark.requirement("T13")
@pytest.mark.catches("canary-ignored")
async def test_a_canary_that_fails_stops_the_plan_and_one_that_does_not_lets_it_finish(
    console: Console, worker: Tree
) -> None:
    await console.renders(5)
    await console.dead(5)
    page = await console.page("/redrive/new?q=kind:video.render")
    await page.get_by_label("Reason").fill("tried too early")
    await page.get_by_label("Canary").fill("2")
    await page.get_by_role("button", name="Freeze 5 into a plan").click()
    await expect(page.locator(".head .pill")).to_have_text("frozen")
    await page.get_by_role("button", name="Start the canary of 2").click()
    await expect(page.locator(".head .pill")).to_have_text("stopped", timeout=60_000)
    await expect(page.locator("main")).to_contain_text("2 of the 2 of the canary failed")
    await expect(page.locator(".outcome li", has_text="failed the same")).to_contain_text("2")
    # The cause is gone: the same again goes through.
    console.mended.touch()
    await page.goto("/ops/redrive/new?q=kind:video.render")
    await page.get_by_label("Reason").fill("the provider is back")
    await page.get_by_label("Canary").fill("2")
    await page.get_by_role("button", name="Freeze 5 into a plan").click()
    await page.get_by_role("button", name="Start the canary of 2").click()
    await expect(page.locator(".head .pill")).to_have_text("finished", timeout=60_000)
    await expect(page.locator(".outcome li", has_text="succeeded")).to_contain_text("5", timeout=60_000)
    await page.get_by_role("link", name="Audit of this plan").click()
    rows = page.get_by_role("table", name="Audit")
    await expect(rows).to_contain_text("TASK_RETRY_BATCH_ITEM")
    await expect(rows).to_contain_text("PLAN_START")


@pytest.mark.requirement("T13")
@pytest.mark.catches("approvals-not-shown")
async def test_two_people_approve_a_plan_and_the_first_cannot(console: Console, worker: Tree) -> None:
    await console.renders(7)
    await console.dead(7)
    mara = await console.page("/redrive/new", signed_in="mara", role=Role.OPERATOR)
    await expect(mara.locator("main")).to_contain_text("Needs one approver.")
    await mara.get_by_label("Reason").fill("all of them")
    await mara.get_by_role("button", name="Freeze 7 and ask for approval").click()
    await expect(mara.locator(".head .pill")).to_have_text("awaiting approval")
    await expect(mara.get_by_role("button", name="Approve 7")).to_be_disabled()
    await expect(mara.locator(".head")).to_contain_text("You made this plan")
    console.mended.touch()
    ilya = await console.page("/approvals", signed_in="ilya", role=Role.OPERATOR)
    await ilya.get_by_role("table", name="Approvals").get_by_role("link").first.click()
    await ilya.get_by_role("button", name="Approve 7").click()
    await why(ilya, "looked at three of them")
    await ilya.get_by_role("dialog").get_by_role("button", name="Approve 7").click()
    await said(ilya, "The plan is approved")
    await ilya.get_by_role("button", name=re.compile("^Start")).click()
    await expect(ilya.locator(".outcome li", has_text="succeeded")).to_contain_text("7", timeout=60_000)
    # Whoever may only look is told what it needs.
    jun = await console.page(f"/redrive/{ilya.url.rpartition('/')[2]}", signed_in="jun", role=Role.VIEWER)
    await expect(jun.locator(".head")).to_contain_text("Needs the role operator.")


async def test_a_plan_is_paused_and_aborted(console: Console, worker: Tree) -> None:
    await console.renders(5)
    await console.dead(5)
    console.mended.touch()
    page = await console.page("/redrive/new")
    await page.get_by_label("Reason").fill("slowly")
    await page.get_by_label("Canary").fill("0")
    await page.get_by_label("Ramp, per minute").fill("6")
    await page.get_by_role("button", name="Freeze 5 into a plan").click()
    await page.get_by_role("button", name="Start 5").click()
    await page.get_by_role("button", name="Pause").click()
    await why(page, "lunch")
    await page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    await expect(page.locator(".head .pill")).to_have_text("paused")
    await page.get_by_role("button", name=re.compile("^Abort")).click()
    dialog = page.get_by_role("dialog")
    act = dialog.get_by_role("button", name=re.compile("^Abort"))
    await expect(act).to_be_disabled()
    await why(page, "not today")
    word = await dialog.locator("label", has_text="Type").inner_text()
    await dialog.locator("input.mono").fill(word.removeprefix("Type ").removesuffix(" to confirm"))
    await act.click()
    await expect(page.locator(".head .pill")).to_have_text("aborted")


async def test_a_payload_is_edited_and_the_task_retried(console: Console, worker: Tree) -> None:
    (task_id,) = await console.renders(1)
    await console.dead(1)
    page = await console.page(f"/tasks/{task_id}")
    await page.get_by_role("button", name="Edit and retry…").click()
    await page.get_by_role("textbox", name="Payload").fill("{not json")
    await why(page, "smaller")
    act = page.get_by_role("button", name="Edit and retry", exact=True)
    await expect(act).to_be_disabled()
    await page.get_by_role("textbox", name="Payload").fill(json.dumps({"shot": 0, "resolution": "1080p"}))
    await act.click()
    await said(page, "new payload")
    await expect(page.locator(".head .pill")).to_have_text("completed")
    await expect(page.locator(".code").first).to_contain_text("1080p")
    await expect(page.locator(".timeline")).to_contain_text("TASK_EDIT")


async def test_an_admin_reveals_the_payload_of_a_kind_that_nobody_has_declared(console: Console) -> None:
    task = NewTask("nobody.knows", '{"iban": "DE02-1203"}', queue="far")
    (made,) = await console.world.store.enqueue_many(console.world.conn, [task])
    operator = await console.page(f"/tasks/{made.id}", signed_in="ola", role=Role.OPERATOR)
    await expect(operator.locator("main")).to_contain_text("Nobody has declared this kind")
    await expect(operator.locator(".code").first).to_contain_text('"iban": [redacted]')
    await expect(operator.get_by_role("button", name="Reveal…")).to_have_count(0)
    page = await console.page(f"/tasks/{made.id}")
    await page.get_by_role("button", name="Reveal…").click()
    await why(page, "a dispute")
    await page.get_by_role("button", name="Reveal", exact=True).click()
    await expect(page.locator(".code").first).to_contain_text("DE02-1203")
    await expect(page.get_by_role("button", name="Reveal…")).to_have_count(0)
    await page.reload()
    await expect(page.locator(".code").first).to_contain_text('"iban": [redacted]')
    await expect(page.locator(".timeline")).to_contain_text("TASK_REVEAL")


@pytest.mark.requirement("T12", "T13")
@pytest.mark.catches("formulas-run")
async def test_t12_the_audit_is_filtered_exported_and_pruned_after_a_dry_run(
    console: Console, worker: Tree
) -> None:
    page = await console.page("/queues")
    await console.world.enqueue()
    await page.reload()
    await page.get_by_role("button", name="Pause…").first.click()
    await why(page, "=1+1 for the audit")
    await page.get_by_role("dialog").get_by_role("button", name=re.compile("^Pause")).click()
    await said(page, "is paused")
    await page.locator(".toast").get_by_role("button", name="Undo").click()
    await page.goto("/ops/audit?auditAction=QUEUE_PAUSE")
    rows = page.get_by_role("table", name="Audit").get_by_role("row")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(1)).to_contain_text("ada")
    async with page.expect_download() as download:
        await page.get_by_role("link", name="CSV").click()
    text = (await (await download.value).path()).read_text()
    # Only what the filter finds, and a cell that a spreadsheet would run is defused.
    assert "QUEUE_PAUSE" in text
    assert "QUEUE_RESUME" not in text
    assert "'=1+1 for the audit" in text
    await page.get_by_label("Older than, days").fill("0")
    await page.get_by_role("button", name="Dry run").click()
    await expect(page.locator("main")).to_contain_text("1 row would go")
    await page.get_by_role("button", name="Prune 1 row…").click()
    await why(page, "a test")
    await page.locator("dialog input.mono").fill("prune 1")
    await page.get_by_role("dialog").get_by_role("button", name="Prune 1 row…").click()
    await said(page, "1 row was pruned")
    await page.goto("/ops/audit")
    await expect(page.get_by_role("table", name="Audit")).to_contain_text("TASK_AUDIT_PRUNE_SUMMARY")


@pytest.mark.catches("releases-not-told")
async def test_a_group_is_owned_resolved_and_regresses(console: Console, worker: Tree) -> None:
    await console.renders(2)
    await console.dead(2)
    page = await console.page("/failures")
    await page.get_by_role("table", name="Failures").get_by_role("link").first.click()
    await expect(page.locator(".head")).to_contain_text("Redrive waits while the group still fails.")
    await page.get_by_role("button", name="Take it").click()
    await said(page, "ada looks after it")
    await page.get_by_label("Note").fill("the provider is slow")
    await page.get_by_role("button", name="Keep the note").click()
    await said(page, "The note is kept")
    await page.get_by_role("button", name="Resolve…").click()
    await why(page, "1.8.3 is out")
    await page.get_by_role("button", name="Resolve it").click()
    await expect(page.locator(".head .pill").first).to_have_text("resolved")
    await console.renders(1)
    await console.dead(3)

    async def regressed() -> bool:
        await page.reload()
        return await page.locator(".head .pill", has_text="regressed").count() == 1

    await until_true(regressed, 60, "that it regresses")

    # Under which release it was met, once that is added up: what the worker says its code is.
    async def told() -> bool:
        await page.reload()
        return "1.8.2" in await page.locator("dl.facts", has_text="Releases").inner_text()

    await until_true(told, 60, "its release")
    await page.goto("/ops/workers")
    await expect(page.get_by_role("table", name="Workers")).to_contain_text("1.8.2")
