"""Faults in the shapes of work: bulk calls, polling, schedules, follow-ups; the others are in faults.py."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SHAPES = {
    "second-half-called-again": Fault(
        "CulpritSearch.passed",
        "            self._bad = self._bad[len(self._called) :]\n        else:",
        "            self._unknown = [*self._bad[len(self._called) :], *self._unknown]\n            self._bad = []\n        else:",
    ),
    "blamed-without-failing-alone": Fault(
        "CulpritSearch.failed",
        "        if len(self._bad) > 1:\n            return None\n        (culprit,) = self._bad\n",
        "        culprit = self._bad[0]\n",
    ),
    "call-failure-blames-all": Fault(
        "BulkCall._heard",
        "        elif (culprit := self._search.failed()) is not None:\n            self._end(culprit, answer)\n",
        "        else:\n            self._search = Search([])\n            for run in group:\n"
        "                self._end(run, answer)\n",
    ),
    "bulk-not-in-flight": Fault(
        "BulkCall._call",
        "self._flight.start(run.claim.id, run.claim.fence, self.deadline_at, RunMode.BULK_ITEM)",
        "pass",
    ),
    "bulk-without-deadline": Fault(
        "Runs.expire", "[call for call in self._calls if call.deadline_at <= now]", "[]"
    ),
    "mates-blamed-for-the-deadline": Fault(
        "Blame.for_end_of", "if mates[flight.deadline_at] <= 1", "if mates[flight.deadline_at] >= 0"
    ),
    "bulk-finish-in-part": Fault("finish._require", "if task.id not in landed:", "if not landed:"),
    "finish-opens-without-end": Fault("executor.finish", "CONNECTIONS_MAX = 10", "CONNECTIONS_MAX = 1_000"),
    "finish-keeps-its-room": Fault(
        "Finishing.give",
        "            self._room.release()\n            await conn.close()\n",
        "            await conn.close()\n",
    ),
    "half-full-calls": Fault(
        "Gathering._due", "max(wait, COMING_SECONDS) if kind in self._coming else wait", "wait"
    ),
    "polls-without-end": Fault("Polling.after", "polls >= self.answers", "polls < 0"),
    "polling-without-deadline": Fault(
        "Polling.after", "(POLLING_OVERDUE, since, self.total,", "(POLLING_OVERDUE, since, None,"
    ),
    "stall-not-seen": Fault(
        "polling._rose", "(before is None or now > before)", "(before is None or now >= before)"
    ),
    "wake-moves-back": Fault(
        "wake", "        and exists (select from holdfast.tasks t where t.id = f.id and t.polls > 0)\n", ""
    ),
    "wake-unheard": Fault(
        "settle",
        "when g.move = 'snooze' and exists (select from holdfast.wakes w",
        "when false and exists (select from holdfast.wakes w",
    ),
    "one-answer-for-all": Fault(
        "handlers._outcomes_of",
        "else outcome_of(handler, one) for one in answer\n    ]",
        "else outcome_of(handler, one) for one in [answer[0]] * len(bulk)\n    ]",
    ),
    "missed-ticks-forgotten": Fault(
        "Cron.due",
        "        earliest = next_at\n",
        "        earliest = max(next_at, now - timedelta(seconds=LATE_SECONDS))\n",
    ),
    "missed-ticks-all-made-up": Fault(
        "Cron.due", "self.most if self.missed == Missed.ALL else 1", "self.most"
    ),
    "ticks-of-an-hour-are-one": Fault("schedules.key_of", "%Y-%m-%dT%H:%MZ", "%Y-%m-%dT%HZ"),
    "tick-moved-on-twice": Fault(
        "Cron.due",
        "Due(fires[::-1], next(self.after(now)))",
        "Due(fires[::-1], next(self.after(next(self.after(now)))))",
    ),
    "redeclared-from-now": Fault(
        "declare",
        "then s.next_at else excluded.next_at end",
        "then excluded.next_at else excluded.next_at end",
    ),
    "follow-up-starts-early": Fault("install_enlist_heads", "where left(w.bucket, 6) <> 'after:'\n", ""),
    "paused-counts-as-ended": Fault(
        "install_release_followups",
        "where t.id = b.id and (t.mark is null or t.mark = 'paused'))",
        "where t.id = b.id and t.mark is null)",
    ),
    "follow-up-released-twice": Fault(
        "install_release_followups",
        "        where u.released_at is null\n            and not exists",
        "        where not exists",
    ),
    "backing-off-not-said": Fault(
        "why._time", "    if failures and task.error is not None and ", "    if False and "
    ),
    "replaced-in-part": Fault(
        "install_reserve_keys",
        "priority = coalesce(one.priority, t.priority), version = one.version,",
        "priority = coalesce(one.priority, t.priority), version = t.version,",
    ),
    "surrogate-kills-the-executor": Fault("store.settle", "    UnicodeEncodeError,\n", ""),
    "finish-in-a-transaction": Fault("bridges._require_idle", "    if busy:\n", "    if False:\n"),
    "suspect-waits-for-ever": Fault(
        "Runs._run_suspect", "asyncio.timeout(SUSPECT_WAIT_SECONDS)", "asyncio.timeout(None)"
    ),
    "cancelled-alone-is-a-crash": Fault(
        "handlers.execute_alone",
        "    except asyncio.CancelledError:\n        outcome = cancelled_itself()\n    except BaseException",
        "    except ZeroDivisionError",
    ),
    "lines-cut-in-two": Fault("LogLines._write_on", "for piece in _pieces(text):", "for piece in (text,):"),
    "rated-call-too-late": Fault(
        "Gathering._due", "return min(due_at, self._start_by.get(kind, due_at))", "return due_at"
    ),
    "appetite-for-others": Fault(
        "Gathering.appetite", "if not self._claims or not self._hungry:", "if not self._claims:"
    ),
    "gathered-permits-kept": Fault(
        "Buffer._take_gathered", "            self.permits.returned(claim)\n", "            pass\n"
    ),
    "gathered-starve": Fault("Buffer._next", "if not self._singles_next and (call", "if False and (call"),
    "asking-waits-for-finishing": Fault(
        "Finishing.predecessors",
        'async with self._asking, await connect(self._url, application="holdfast asks") as conn:',
        "async with await self.take() as conn:",
    ),
    "cancelled-call-blames-all": Fault(
        "BulkCall._call", "if doing is not None and doing.cancelling() > 0:\n                raise", "raise"
    ),
    "panic-blames-all": Fault(
        "BulkCall._call", "            return ended_by(error)\n", "            raise\n"
    ),
    "stopped-before-its-first-step": Fault(
        "Runs.stop", "self._loop.call_soon(run.doing.cancel)", "run.doing.cancel()"
    ),
    "suspects-keep-the-room": Fault(
        "Runs._run_suspect",
        "self._queued_suspects -= 1\n            self._freed()\n",
        "self._queued_suspects -= 1\n",
    ),
    "recovered-still-backs-off": Fault("why._time", " and task.error.at == task.last_attempt_at:", ":"),
    "follow-up-stranded": Fault("install_release_followups", "            continue when back is null;\n", ""),
    "redriven-predecessor-forgotten": Fault(
        "install_release_followups",
        "exists (select from holdfast.tasks t where t.id = b.id and (t.mark is null or t.mark = 'paused'))",
        "b.id > (select u.pivot from holdfast.followups u where u.task_id = f.task_id) and "
        "exists (select from holdfast.tasks t where t.id = b.id and (t.mark is null or t.mark = 'paused'))",
    ),
    "wake-lost-in-a-settle": Fault(
        "Operator.wake", "        for _ in range(2):\n", "        for _ in range(1):\n"
    ),
    "settle-does-not-see-the-wake": Fault(
        "Settler._write_group",
        "            if rest:\n                ids =",
        "            if done and rest:\n                ids =",
    ),
    "one-schedule-stops-all": Fault(
        "Schedules._fire_one", "except HoldfastError as error:", "except ZeroDivisionError as error:"
    ),
    "scheduled-past-its-limit": Fault("ScheduleView.task", "bucket=self.bucket,", "bucket=None,"),
    "hour-that-comes-twice": Fault("Cron.after", " if tick > moment)", ")"),
    "paused-kind-not-said": Fault("why._paused", "    if facts.paused_at is not None:\n", "    if False:\n"),
}
