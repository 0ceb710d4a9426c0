"""Now over HTTP: the board, what the doctor finds, and the pages of the console."""

import httpx
import pytest

from holdfast.config import Settings
from holdfast.core.outcome import Complete
from holdfast.http.application import create
from holdfast.ops.tokens import Role
from holdfast.store.upkeep import Upkeep
from tests.http_api.conftest import Api


async def test_now_has_a_verdict_the_kinds_and_what_changed(api: Api) -> None:
    world = api.shift.world
    await api.shift.fail(3, kind="video.render")
    await world.enqueue(kind="mail.send")
    await api.post("/api/kinds/mail.send/pause", reason="look")
    seen = await api.get("/api/now", role=Role.VIEWER)
    kinds = {kind["name"]: kind for kind in seen["kinds"]}
    assert (kinds["video.render"]["dead"], kinds["video.render"]["failed"]) == (3, 3)
    assert kinds["mail.send"]["ready"] == 1
    assert sum(one["failed"] for one in seen["series"]) == 3
    assert seen["entries"][0]["action"] == "KIND_PAUSE"
    assert seen["groups"][0]["kind"] == "video.render"
    assert [change["what"] for change in seen["changes"]] == ["group_new"]
    assert seen["verdict"]["level"] == "fine"
    assert seen["usual"]["failedHourUsual"] is None, "there was no yesterday"
    for hours, step in ((1, 60), (24, 900), (168, 7200)):
        assert (await api.get("/api/now", hours=hours))["stepSeconds"] == step
    await api.get("/api/now", code=422, hours=5)
    await api.get("/api/now", role=Role.WORKER, code=403)


@pytest.mark.catches("late-results-not-counted")
async def test_a_late_result_is_counted(api: Api) -> None:
    world = api.shift.world
    await world.enqueue()
    (claim,) = await world.claim()
    await world.lapse(claim.worker)
    await world.reclaim(world.conn)
    await world.store.settler.settle(world.conn, [world.verdict(claim, Complete())])
    assert (await api.get("/api/now"))["usual"]["refusedHour"] == 1


@pytest.mark.catches("releases-not-kept")
async def test_a_group_knows_under_which_releases_it_was_met(api: Api) -> None:
    world = api.shift.world
    ids = await api.shift.fail(1, kind="video.render")
    await world.conn.execute("update holdfast.failure_deltas set release = '1.8.2'")
    settings = Settings(database_url=world.url)
    await Upkeep(settings).run(world.conn)
    (group,) = await api.get("/api/groups")
    assert group["releases"] == ["1.8.2"]
    assert sum(group["spark"]) == 1
    assert len(group["spark"]) == 24
    shown = await api.get(f"/api/tasks/{ids[0]}")
    assert shown["fingerprint"] == group["fingerprint"]


async def test_queues_are_noted_every_minute_so_that_growth_is_known(api: Api) -> None:
    world = api.shift.world
    settings = Settings(database_url=world.url)
    await world.enqueue()
    await Upkeep(settings).run(world.conn)
    await world.conn.execute("update holdfast.queue_minutes set minute = now() - interval '5 minutes'")
    for _ in range(10):
        await world.enqueue()
    trend = (await api.get("/api/now"))["trends"]["default"]
    assert trend["growthPerMinute"] == pytest.approx(2.0, abs=0.1)


async def test_health_says_what_the_doctor_finds(api: Api) -> None:
    found = {one["name"]: one for one in (await api.get("/api/health", role=Role.VIEWER))["findings"]}
    assert found["version"]["health"] == "good"
    assert found["maintenance"]["advice"] == "start a worker"
    assert found["rows of tasks"]["found"] == "one for each live task"
    task = await api.shift.world.enqueue()
    await api.shift.world.conn.execute("delete from holdfast.ready")
    found = {one["name"]: one for one in (await api.get("/api/health", role=Role.VIEWER))["findings"]}
    assert (found["rows of tasks"]["health"], task in found["rows of tasks"]["found"]) == ("bad", True)
    assert (await api.get(f"/api/tasks/{task}/why"))[0]["cause"] == "stranded"
    await api.shift.world.conn.execute("delete from holdfast.tasks")


@pytest.mark.catches("console-without-a-policy", "assets-from-anywhere")
async def test_the_console_is_served_with_its_policy_wherever_it_is_mounted(api: Api) -> None:
    page = await api.client.get("/ops/failures/f1?state=all")
    assert page.status_code == 200, "make console builds it"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-cache"
    script = page.text.partition('src="')[2].partition('"')[0]
    asset = await api.client.get(script)
    assert asset.headers["content-type"].startswith("text/javascript")
    assert "immutable" in asset.headers["cache-control"]
    for path in ("/ops/assets/..%2findex.html", "/ops/assets/..%2f..%2fnow.py", "/ops/assets/none.js"):
        assert (await api.client.get(path)).status_code == 404, path
    # Asked for by its path as it is: nothing of the package but what was built.
    inner = httpx.ASGITransport(create(Settings(database_url=api.shift.world.url)), root_path="/queue")
    async with httpx.AsyncClient(transport=inner, base_url="http://api.test") as client:
        mounted = await client.get("/queue/ops")
        assert 'data-root="/queue"' in mounted.text
        assert 'src="/queue/ops/assets/' in mounted.text
        assert 'href="/queue/api/now?hours=6"' in mounted.text
        moved = await client.get("/queue/ops/queue?subject=7")
        assert moved.headers["location"] == "/queue/ops?subject=7"
