"""Limits: what runs at once, by kind, queue and key; permits that come back."""

from collections import Counter
from collections.abc import Sequence
from uuid import uuid4

import pytest

from holdfast.config import Settings
from holdfast.core.errors import Misused
from holdfast.core.limit import Limit, Scope
from holdfast.core.outcome import Complete, Release, Released
from holdfast.core.task import Claim, NewTask
from holdfast.store.claim import ClaimRequest, all_ranges
from holdfast.store.limits import CODE, Limits
from holdfast.worker.executor.claimer import Claimer
from holdfast.worker.executor.permits import HeldPermits
from tests.world import World


async def claim_all(world: World, limit: int = 100, **options: object) -> list[Claim]:
    """Claim until nothing more comes: what is moved aside by one claim is taken by the next."""
    found: list[Claim] = []
    while claims := await world.claim(limit, **options) or await world.claim(limit, **options):  # type: ignore[arg-type]
        found += claims
    return found


@pytest.mark.requirement("T4")
@pytest.mark.catches("permits-not-counted", "door-left-open")
async def test_a_kind_runs_no_more_than_its_limit_whoever_claims(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=3))
    for _ in range(8):
        await world.enqueue()
    other = [await world.enqueue("free") for _ in range(4)]
    second = str(uuid4())
    for worker in (world.worker, second):
        await world.register(worker, ["default"])
    found = await claim_all(world)
    found += await claim_all(world, worker=second)
    kinds = Counter(claim.kind for claim in found)
    assert kinds == {"mail.send": 3, "free": len(other)}
    await world.settle(*((claim, Released(Release.DRAINED)) for claim in found if claim.kind == "mail.send"))
    assert len(await claim_all(world)) == 3


@pytest.mark.requirement("T4")
@pytest.mark.catches("door-left-open")
async def test_a_queue_and_a_kind_and_a_key_count_together(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.QUEUE, "default", Limit(running=5))
    await limits.set(world.conn, Scope.KIND, "render", Limit(running=4))
    await limits.set(world.conn, Scope.KEY, "render/episode=*", Limit(running=2))
    await limits.set(world.conn, Scope.KEY, "render/episode=9", Limit(running=1))
    for episode in (7, 8, 9):
        for _ in range(4):
            await world.enqueue("render", bucket=f"render/episode={episode}")
    for _ in range(4):
        await world.enqueue("mail.send")
    found = await claim_all(world)
    assert Counter(claim.kind for claim in found)["render"] <= 4
    assert len(found) == 5
    buckets = Counter(claim.bucket for claim in found if claim.kind == "render")
    assert buckets["render/episode=9"] <= 1
    assert all(held <= 2 for held in buckets.values())
    assert len(await world.rows_of("permits", "bucket")) >= 3


@pytest.mark.catches("permit-not-returned")
async def test_permits_of_a_lost_worker_come_back_with_its_lease(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=2))
    for _ in range(4):
        await world.enqueue()
    worker = str(uuid4())
    assert len(await claim_all(world, worker=worker)) == 2
    assert await claim_all(world) == []
    await world.lapse(worker)
    await world.reclaim(world.conn)
    assert await world.rows("permits") == 0
    assert len(await claim_all(world)) == 2


@pytest.mark.catches("permits-kept-by-the-departed")
async def test_permits_of_a_worker_that_left_come_back_at_once(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=1))
    for _ in range(2):
        await world.enqueue()
    worker = str(uuid4())
    (held,) = await claim_all(world, worker=worker)
    await world.store.settler.settle(world.conn, [world.verdict(held, Released(Release.DRAINED))])
    assert await claim_all(world) == []
    assert await world.store.workers.retire(world.conn, worker)
    assert len(await claim_all(world)) == 1


@pytest.mark.requirement("T4")
@pytest.mark.catches("limit-change-unheard")
async def test_a_limit_is_raised_lowered_and_cleared_with_tasks_behind_it(
    world: World, limits: Limits
) -> None:
    key = "render/episode=7"
    await limits.set(world.conn, Scope.KEY, key, Limit(running=1))
    for _ in range(9):
        await world.enqueue("render", bucket=key)
    held = await claim_all(world)
    assert len(held) == 1
    await limits.set(world.conn, Scope.KEY, key, Limit(running=4))
    held += await claim_all(world)
    assert len(held) == 4
    await limits.set(world.conn, Scope.KEY, key, Limit(running=2))
    await world.settle((held.pop(), Released(Release.DRAINED)))
    assert await claim_all(world) == [], "three run and two may"
    assert await limits.clear(world.conn, Scope.KEY, key)
    assert len(await claim_all(world)) == 6
    assert not await limits.clear(world.conn, Scope.KEY, key)


@pytest.mark.catches("queue-that-nobody-serves-holds-up")
async def test_a_task_in_a_queue_that_nobody_serves_holds_up_no_other_of_its_key(world: World) -> None:
    await world.enqueue("render", queue="bulk", bucket="render/episode=7")
    task = await world.enqueue("render", queue="video", bucket="render/episode=7")
    await world.register(world.worker, ["video"], ["render"])
    await world.claim(queues=["bulk", "video"], kinds=["other"])
    assert await world.rows("blocked") == 2
    assert [claim.id for claim in await world.claim(queues=["video"])] == [], (
        "its turn is in the other's name"
    )
    await world.store.permits.relist(world.conn)
    assert [claim.id for claim in await world.claim(queues=["video"])] == [task]


@pytest.mark.requirement("T4")
@pytest.mark.catches("default-overrides")
async def test_kinds_without_a_limit_of_their_own_have_the_default(world: World, limits: Limits) -> None:
    await world.store.workers.register(world.conn, str(uuid4()), "w", 60, kinds=["a", "b"])
    await limits.set(world.conn, Scope.KIND, "b", Limit(running=3))
    await limits.set(world.conn, Scope.KIND, "*", Limit(running=1))
    for kind in "ab":
        for _ in range(4):
            await world.enqueue(kind)
    assert Counter(claim.kind for claim in await claim_all(world)) == {"a": 1, "b": 3}
    assert await limits.clear(world.conn, Scope.KIND, "*")
    assert [one.name for one in await limits.show(world.conn)] == ["kind:b"]


@pytest.mark.catches("code-overrules-people")
async def test_what_code_declares_does_not_undo_what_a_person_set(world: World, limits: Limits) -> None:
    code = Limits(Settings(database_url=world.url), by=CODE)
    declared = [(Scope.KIND, "a", Limit(running=5)), (Scope.KIND, "b", Limit(running=5))]
    await code.declare(world.conn, declared)
    await limits.set(world.conn, Scope.KIND, "a", Limit(running=1))
    await code.declare(world.conn, [(scope, name, Limit(running=7)) for scope, name, _ in declared])
    shown = {one.name: (one.running_max, one.set_by) for one in await limits.show(world.conn)}
    assert shown == {"kind:a": (1, "ada"), "kind:b": (7, "code")}


@pytest.mark.catches("prefetch-beyond-permits")
async def test_a_slot_passes_to_the_next_task_without_a_question(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=1))
    for _ in range(30):
        await world.enqueue()
    await world.register(world.worker)
    permits = HeldPermits()
    claimer = Claimer(world.store, ["default"], world.worker, kinds=["mail.send"], permits=permits)
    answers = 0
    while await world.rows("tasks"):
        claims = await claimer.claim(world.conn, 10)
        answers += bool(claims)
        for claimed in claims:
            permits.add(claimed)
        while (claim := permits.next()) is not None:
            assert permits.next() is None, "one permit, one task"
            await world.store.settler.settle(world.conn, [world.verdict(claim, Complete())])
            permits.ended(claim, 0.01)
        await world.check()
    assert answers < 10, "several ran between two claims"


@pytest.mark.catches("permits-hoarded")
async def test_a_worker_keeps_no_more_permits_than_it_can_use(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=20))
    for _ in range(100):
        await world.enqueue()
    await world.register(world.worker)
    permits = HeldPermits(lambda _: 4)
    claimer = Claimer(world.store, ["default"], world.worker, kinds=["mail.send"], permits=permits)
    for _ in range(6):
        for claimed in await claimer.claim(world.conn, 10):
            permits.add(claimed)
        while (claim := permits.next()) is not None:
            await world.store.settler.settle(world.conn, [world.verdict(claim, Complete())])
            permits.ended(claim, 1.0)
    assert permits.held() == {"kind:mail.send": 4}
    assert await world.rows_of("permits", "permits") == [(4,)]


async def test_a_second_worker_gets_the_permits_that_the_first_freed(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=1))
    await world.enqueue()
    permits = HeldPermits()
    await world.register(world.worker)
    claimer = Claimer(world.store, ["default"], world.worker, kinds=["mail.send"], permits=permits)
    claims = await claimer.claim(world.conn, 5) or await claimer.claim(world.conn, 5)
    (claim,) = claims
    permits.add(claim)
    assert permits.next() == claim
    await world.store.settler.settle(world.conn, [world.verdict(claim, Released(Release.DRAINED))])
    permits.ended(claim, 0.01)
    assert await claimer.claim(world.conn, 0) == []
    assert permits.held() == {}
    assert len(await claim_all(world, worker=str(uuid4()))) == 1


@pytest.mark.catches("old-connection-frees-again")
async def test_what_an_older_connection_frees_is_not_freed_twice(world: World, limits: Limits) -> None:
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=2))
    for _ in range(2):
        await world.enqueue()
    assert len(await claim_all(world)) == 2
    await world.store.permits.set_permits(world.conn, world.worker, 1, {"kind:mail.send": 1})
    await world.store.permits.free_permits(world.conn, world.worker, 0, {"kind:mail.send": 1})
    assert await world.rows_of("permits", "permits") == [(1,)]


@pytest.mark.catches("turn-never-offered-again")
async def test_a_bucket_without_its_turn_is_found_again(world: World) -> None:
    await world.enqueue("render", bucket="render/episode=7")
    await world.register(world.worker)
    await world.store.claims.claim(world.conn, world.worker, 10, ClaimRequest(all_ranges(["default"])))
    await world.conn.execute("delete from holdfast.line")
    assert await world.claim() == []
    relisted, after = await world.store.permits.relist(world.conn)
    assert (relisted, after) == (1, None)
    assert len(await world.claim()) == 1


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"running": -1}, "a limit of -1 running tasks cannot be"),
        ({"rate": "fast"}, "the rate 'fast' cannot be read: write 100/s"),
        ({"rate": "0/s"}, "lets nothing start: pause the kind instead"),
        ({"burst": 3}, "a burst of 3 needs a rate"),
        ({"weight": 0}, "a weight of 0 cannot be"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(Misused, match=said):
        Limit(**values)  # type: ignore[arg-type]


def _kinds(claims: Sequence[Claim]) -> list[str]:
    return [claim.kind for claim in claims]


async def test_a_million_behind_a_limit_make_setting_it_no_slower(world: World, limits: Limits) -> None:
    """One row is written, whatever stands behind it; `make limits` shows it with a million."""
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=0))
    await world.store.enqueue_many(world.conn, [NewTask("mail.send")] * 1_000)
    assert await claim_all(world, 2_000) == []
    free = await world.enqueue("free")
    assert [claim.id for claim in await claim_all(world)] == [free]
    await limits.set(world.conn, Scope.KIND, "mail.send", Limit(running=2))
    assert _kinds(await claim_all(world)) == ["mail.send"] * 2
