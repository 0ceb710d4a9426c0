"""Remote jobs that are polled: each ends by the rule that applies, under a clock of the test's own."""

import asyncio
import json
import os
import random
from collections import Counter
from dataclasses import dataclass

import pytest

from holdfast.core.backoff import Backoff
from holdfast.core.decide import Policy, Verdict, decide
from holdfast.core.failure import Failure, FailureClass
from holdfast.core.outcome import Complete, Failed, Outcome, Snooze
from holdfast.core.polling import NO_PROGRESS, POLLING_OVERDUE, POLLS_EXHAUSTED, Polling
from holdfast.core.state import State
from holdfast.core.task import Claim, NewTask
from holdfast.db.connect import Conn
from tests.tree import until_true
from tests.world import World

JOBS = int(os.environ.get("HOLDFAST_TEST_JOBS", "1000"))
# The stories count in minutes: a round of ten thousand jobs takes real seconds, which must not matter.
MINUTE = 60.0
ROUND = 30.0
POLICY = Policy(
    max_attempts=3,
    backoff=Backoff(base_seconds=10 * MINUTE, cap_seconds=10 * MINUTE),
    jitter=random.Random(3),
    polling=Polling(answers=20, total=500 * MINUTE, no_progress=200 * MINUTE),
)


@dataclass
class Job:
    """A job elsewhere: what each look at it finds, by the minutes since it began."""

    story: str
    done_at: float = 100.0
    polls: int = 0
    errors: int = 0

    def look(self, now: float, chance: random.Random) -> Outcome:
        match self.story:
            case "finishes" if now >= self.done_at:
                return Complete('"done"')
            case "errs":
                self.errors += 1
                return Failed(Failure.of(FailureClass.TRANSIENT, "503"))
            case "stumbles" if self.errors < 2:
                self.errors += 1
                return Failed(Failure.of(FailureClass.TRANSIENT, "503"))
            case "stumbles" if now >= self.done_at:
                return Complete('"done"')
            case "stalls":
                return self._snooze(min(now, 50.0))
            case "crawls":
                return self._snooze(now / 100, 40.0)
            case _:
                return self._snooze(now / 10 + chance.random(), 10.0)

    def _snooze(self, progress: float, after: float = ROUND) -> Snooze:
        self.polls += 1
        return Snooze(after * MINUTE, progress=progress)


@pytest.mark.requirement("B2")
@pytest.mark.catches("polls-without-end", "polling-without-deadline", "stall-not-seen")
async def test_each_of_many_jobs_ends_by_the_rule_that_applies(world: World) -> None:
    chance = random.Random(5)
    stories = ["finishes", "errs", "stumbles", "stalls", "crawls", "chatters"]
    jobs = {
        one.id: Job(chance.choice(stories), chance.uniform(0, 150))
        for at in range(0, JOBS, 1_000)
        for one in await world.store.enqueue_many(world.conn, [NewTask("remote")] * min(1_000, JOBS - at))
    }
    clock = 0.0
    while await world.rows("tasks") > await _marked(world):
        assert clock < 2_000, "each of them ends"
        while claims := await world.claim(1_000):
            await world.store.settler.settle(
                world.conn, [(claim, _verdict(claim, jobs[claim.id], clock, chance)) for claim in claims]
            )
        woken = chance.sample(sorted(jobs), JOBS // 20)
        await world.operator.wake(world.conn, woken)
        while claims := await world.claim(1_000):
            assert {claim.id for claim in claims} <= set(woken), "a wake moves no other"
            await world.store.settler.settle(
                world.conn, [(claim, _verdict(claim, jobs[claim.id], clock, chance)) for claim in claims]
            )
        await world.elapse(10.0 * MINUTE)
        clock += 10.0
    found: Counter[tuple[str, str]] = Counter()
    assert POLICY.polling.answers is not None
    for id_, job in jobs.items():
        shown = await world.show(id_)
        assert shown.counters.polls == job.polls, "errors never count as polls"
        assert shown.counters.failures == job.errors
        assert shown.counters.attempts == job.errors + 1 - (job.story == "errs"), "a poll spends no attempt"
        code = shown.error.code if shown.error and shown.state is State.FAILED else ""
        # Whoever is woken again and again has all its answers before its story comes to its end.
        assert (code == POLLS_EXHAUSTED) == (job.polls >= POLICY.polling.answers)
        if job.story == "chatters" or code != POLLS_EXHAUSTED:
            found[job.story, code or shown.state] += 1
    assert set(found) == {
        ("finishes", State.COMPLETED),
        ("stumbles", State.COMPLETED),
        ("errs", "TASK_EXECUTION_FAILED"),
        ("stalls", NO_PROGRESS),
        ("crawls", POLLING_OVERDUE),
        ("chatters", POLLS_EXHAUSTED),
    }, json.dumps([[*key, count] for key, count in found.items()])


def _verdict(claim: Claim, job: Job, clock: float, chance: random.Random) -> Verdict:
    return decide(claim, job.look(clock, chance), POLICY)


async def _marked(world: World) -> int:
    cursor = await world.conn.execute("select count(*) from holdfast.tasks where mark is not null")
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.catches("wake-moves-back", "wake-unheard")
async def test_a_wake_moves_the_next_poll_forward_and_never_back(world: World) -> None:
    task = await world.enqueue("remote")
    assert await world.operator.wake(world.conn, [task]) == [], "it has not snoozed: there is nothing to wake"
    await world.settle((await world.claim_one(), Snooze(3_600)))
    assert await world.claim() == []
    assert await world.operator.wake(world.conn, [task]) == [task]
    claim = await world.claim_one()
    # Whoever polls just now may have looked too early: it polls once more.
    assert await world.operator.wake(world.conn, [task]) == [task]
    await world.settle((claim, Snooze(3_600)))
    again = await world.claim_one()
    assert again.id == task
    await world.settle((again, Snooze(3_600)))
    assert await world.claim() == [], "one wake, one poll"
    scheduled = await world.enqueue("remote", run_at=(await world.show(task)).next_attempt_at)
    assert await world.operator.wake(world.conn, [scheduled]) == [], "what was scheduled keeps its time"
    await world.check()


@pytest.mark.catches("wake-lost-in-a-settle", "settle-does-not-see-the-wake")
async def test_a_wake_at_the_moment_of_a_snooze_is_heard_whoever_is_first(world: World) -> None:
    other = await world.open()
    task = await world.enqueue("remote")
    claim = await world.claim_one()
    async with asyncio.timeout(10):
        async with other.transaction():
            await world.settle((claim, Snooze(3_600)), conn=other)
            waking = asyncio.create_task(world.operator.wake(world.conn, [task]))
            await _waits(other)
        assert await waking == [task]
        claim = await world.claim_one()
        async with other.transaction():
            assert await world.operator.wake(other, [task]) == [task]
            settling = asyncio.create_task(world.settle((claim, Snooze(3_600))))
            await _waits(other)
        await settling
    assert (await world.claim_one()).id == task, "it polls once more"


async def _waits(other: Conn) -> None:
    """Until another connection waits for a lock of this one."""

    async def waits() -> bool:
        # Not pg_stat_activity: inside a transaction that shows the same from the first look on.
        blocked = "select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))"
        return await (await other.execute(blocked)).fetchone() is not None

    await until_true(waits, 10, "the other to wait")


async def test_progress_is_kept_and_never_falls(world: World) -> None:
    task = await world.enqueue("remote")
    for said, kept in ((10.0, 10.0), (5.0, 10.0), (None, 10.0), (40.0, 40.0)):
        await world.settle((await world.claim_one(), Snooze(0, progress=said)))
        assert (await world.show(task)).progress == kept
