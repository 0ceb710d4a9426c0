"""Faults to seed, one small change each; `make mutants` names the test that turns red for each."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault
from tests.faults_of_audit import OF_THE_AUDIT
from tests.faults_of_clients import CLIENTS
from tests.faults_of_clocks import CLOCKS
from tests.faults_of_console import CONSOLE
from tests.faults_of_databases import DATABASES
from tests.faults_of_endings import ENDINGS
from tests.faults_of_floods import FLOODS
from tests.faults_of_flow import FLOW
from tests.faults_of_grants import GRANTS
from tests.faults_of_http import HTTP
from tests.faults_of_kinds import KINDS
from tests.faults_of_locks import LOCKS
from tests.faults_of_operations import OPERATIONS
from tests.faults_of_rows import ROWS
from tests.faults_of_shapes import SHAPES
from tests.faults_of_text import TEXT
from tests.faults_of_webhooks import WEBHOOKS

DEAF_NO_MORE = (
    "    import signal; signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM, signal.SIGINT])\n"
)

FAULTS = (
    FLOW
    | CLIENTS
    | CLOCKS
    | CONSOLE
    | ENDINGS
    | FLOODS
    | GRANTS
    | HTTP
    | KINDS
    | LOCKS
    | OPERATIONS
    | ROWS
    | WEBHOOKS
    | OF_THE_AUDIT
    | SHAPES
    | DATABASES
    | TEXT
    | {
        "no-fence": Fault(
            "complete", "where c.id = v.id and c.fence = v.fence offset 0", "where c.id = v.id offset 0"
        ),
        "no-fence-on-retry": Fault(
            "settle", "where c.id = v.id and c.fence = v.fence offset 0", "where c.id = v.id offset 0"
        ),
        "fence-does-not-grow": Fault(
            "install_claim", "select nextval('holdfast.fence') as fence", "select 1::bigint as fence"
        ),
        "claim-takes-locked-rows": Fault(
            "install_claim",
            "                for update skip locked\n            ) x\n            limit room\n",
            "            ) x\n            limit room\n",
        ),
        "claim-before-its-time": Fault("install_claim", "and c.run_at <= least(l.run_to, now())", ""),
        "claim-ignores-priority": Fault(
            "install_claim", "and c.priority = l.priority\n                    and c.run_at", "and c.run_at"
        ),
        "order-left-to-the-planner": Fault(
            "install_claim",
            "left join lateral (select c.paused_at, c.resumed_at from holdfast.queues c where c.name = l.queue offset 0) q on true",
            "left join holdfast.queues q on q.name = l.queue",
        ),
        "settle-aborts-its-caller": Fault("Settler._write_group", "if not rest and idle:", "if not rest:"),
        "unserved-for-ever": Fault(
            "mark_unserved", "where b.name = f.name and f.served and f.bare\n", "where false\n"
        ),
        "success-stays-alive": Fault(
            "complete",
            "    delete from holdfast.tasks t\n    using gone g\n",
            "    update holdfast.tasks t\n    set progress = 1\n    from gone g\n",
        ),
        "failure-not-recorded": Fault(
            "settle",
            "    from gone g\n    join changed c on c.id = g.id\n    cross join clock k\n), causes",
            "    from gone g\n    join changed c on c.id = g.id\n    cross join clock k\n    where false\n), causes",
        ),
        "error-not-kept": Fault(
            "settle", "failure_class = coalesce(g.failure_class, t.failure_class)", "failure_class = null"
        ),
        "re-entry-below-the-floor": Fault(
            "settle",
            "else greatest(c.now + make_interval(secs => g.after_seconds), clock_timestamp()) end",
            "else t.run_at + make_interval(secs => g.after_seconds) end",
        ),
        "resume-below-the-floor": Fault(
            "operate.sql:resume", "mark_reason = null, run_at = {due_from}", "mark_reason = null"
        ),
        "lost-worker-renews": Fault(
            "renew",
            "(%(workers)s::uuid[]) and w.lost_at is null\nreturning",
            "(%(workers)s::uuid[])\nreturning",
        ),
        "cancel-marks-a-running-task": Fault(
            "request_cancel",
            "    from (select id from dropped union all select id from stepped_out) d\n    where t.id = d.id and t.mark is null",
            "    from facts d\n    where t.id = d.id and t.mark is null",
        ),
        "pause-forgets-waiting": Fault(
            "operate.sql:pause",
            "where t.mark is null and t.id in (select id from dropped union all select id from stepped_out)",
            "where t.mark is null and t.id in (select id from dropped)",
        ),
        "redrive-takes-paused": Fault(
            "forget", "t.mark in ('failed', 'cancelled')\n    returning", "t.mark is not null\n    returning"
        ),
        "key-taken-over-at-once": Fault(
            "install_reserve_keys", "where k.expires_at <= clock\n", "where true\n"
        ),
        "key-payload-not-compared": Fault(
            "install_reserve_keys", "elsif not one.same then", "elsif false then"
        ),
        "keys-in-given-order": Fault(
            "install_reserve_keys",
            "        order by w.kind, w.key\n        on conflict",
            "        order by random()\n        on conflict",
        ),
        "follow-up-lost": Fault("install_reserve_keys", "            exit when queued;", "            exit;"),
        "coalesced-task-not-held": Fault(
            "install_reserve_keys", "                for key share of r;", "                ;"
        ),
        "snooze-spends-an-attempt": Fault(
            "decide._snoozed", "Counters(polls=1)", "Counters(attempts=1, failures=1, polls=1)"
        ),
        "release-spends-an-attempt": Fault(
            "decide.decide",
            "return Verdict(Move.RELEASE, after_seconds",
            "return Verdict(Move.RELEASE, _ATTEMPT, after_seconds",
        ),
        "retried-for-ever": Fault(
            "decide._failed", "or claim.failures + 1 >= (", "or claim.failures - 10**9 >= ("
        ),
        "terminal-error-retried": Fault("decide._failed", "if not rule.retried or", "if"),
        "neighbours-accused": Fault(
            "decide._lost", "crashes = claim.crashes + int(lost.sole)", "crashes = claim.crashes + 1"
        ),
        "rate-limit-spends": Fault("core.decide", "RATE_LIMITS_FREE = 20", "RATE_LIMITS_FREE = 0"),
        "backoff-without-a-floor": Fault(
            "Backoff.seconds", "jitter.uniform(0.5, 1.0)", "jitter.uniform(0.0, 1.0)"
        ),
        "backoff-without-a-cap": Fault(
            "Backoff.seconds",
            "min(self.cap_seconds, self.base_seconds * 2.0 ** min(failures, 32))",
            "self.base_seconds * 2.0 ** min(failures, 32)",
        ),
        "expired-task-starts": Fault(
            "Claim.expired",
            "return self.expires_at is not None and self.expires_at <= self.claimed_at",
            "return False",
        ),
        "floor-passes-an-open-transaction": Fault(
            "Floor._bound", "return max(followed, seen.at - _FOLLOW)", "return seen.at"
        ),
        "floor-passes-a-full-claim": Fault(
            "Floor.learn",
            "reached = last[lane].astimezone(UTC) if lane == stopped_at else seen.at",
            "reached = seen.at",
        ),
        "floor-survives-a-clock-step": Fault(
            "Floor.learn",
            "            self.reset()\n        self._latest",
            "            pass\n        self._latest",
        ),
        "number-that-has-ended-taken-for-given-out": Fault(
            "install_claim",
            "case when exists (select from picked) then pg_current_xact_id()::text::bigint end",
            "pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1",
        ),
        "sweep-never-starts": Fault(
            "Sweep.due", "        return now >= self._due_at", "        return False"
        ),
        "late-result-in-silence": Fault(
            "Settler.refuse",
            "        if not late:\n            return",
            "        if late is not None:\n            return",
        ),
        "bad-result-holds-up-its-group": Fault(
            "Settler._bisect", "            if len(group) > 1:", "            if len(group) > 1_000:"
        ),
        "stray-claims-kept": Fault(
            "Workers.reconcile", "if (claim.id, claim.fence) in known else", "if known is not None else"
        ),
        "answer-lost-means-late": Fault(
            "Settler.landed",
            'return set(await (await conn.execute(self._sql["settled_before"], values)).fetchall())',
            "return set()",
        ),
        "no-partition-no-settle": Fault(
            "Settler._make_days",
            "if error.diag.constraint_name is not None or table not in PARTITIONED:",
            "if True:",
        ),
        "detach-stops-everyone": Fault(
            "partitions._detach", 'how = "finalize" if pending else "concurrently"', 'how = ""'
        ),
        "migration-keeps-no-way-back": Fault(
            "0001_tasks.down.sql", "    holdfast.tasks;", "    holdfast.task_keys_gone;"
        ),
        "cancel-forgotten": Fault(
            "settle",
            "when g.move = 'cancel' or g.asked is not null then 'cancelled'",
            "when g.move = 'cancel' then 'cancelled'",
        ),
        "death-alone-never-counts": Fault(
            "workers._outcome_of_lost",
            "return WorkerLost(sole=sole, how",
            "return WorkerLost(sole=False, how",
        ),
        "tree-killer-never-suspected": Fault(
            "workers._outcome_of_lost", "suspect=lost_before)", "suspect=False)"
        ),
        "a-lost-tree-accuses-all": Fault("workers._outcome_of_lost", "suspect=lost_before)", "suspect=True)"),
        "infinity-stops-every-claim": Fault(
            "0001_tasks.up.sql",
            "times_are_finite check (run_at < '9999-01-01'",
            "times_are_finite check (true or run_at < '9999-01-01'",
        ),
        "replaced-task-taken-for-started": Fault(
            "install_reserve_keys",
            "            continue when exists (",
            "            continue when false and exists (",
        ),
        "key-taken-from-a-waiting-task": Fault(
            "install_reserve_keys",
            "where t.id = k.task_id and (t.mark is null or t.mark = 'paused')",
            "where false",
        ),
        "sweep-narrows-to-nothing": Fault(
            "Sweep.learn",
            "self._upper - self._lower) / 2, _NARROWEST)",
            "self._upper - self._lower) / 2, timedelta(0))",
        ),
        "floor-passes-a-paused-queue": Fault("Floor.learn", "if lane[0] not in unread:", "if True:"),
        "child-not-released": Fault(
            "Supervisor._ended", "        self._background.start(self._reclaimer.take_back(child))\n", ""
        ),
        "renewal-stops": Fault("Leases._renew", "        if not children:\n", "        if True:\n"),
        "lease-outlived": Fault(
            "Supervisor._mind",
            "if asleep or now < child.lease_until - margin or not child.ready:",
            "if True:",
        ),
        "deadline-not-enforced": Fault("Supervisor._mind", "if overdue and not child.overdue:", "if False:"),
        "recycled-without-successor": Fault(
            "Replacements.keep", "worn[: max(0, len(working) - self._places)]", "worn"
        ),
        "restarts-without-pause": Fault(
            "Replacements._pause", "if self._failures <= RESTARTS_AT_ONCE:", "if True:"
        ),
        "worn-executor-keeps-its-place": Fault("Replacements._fresh", "not child.worn", "True"),
        "maintenance-never-looks": Fault("Maintenance.__init__", '            ("look", self._look),\n', ""),
        "executors-obey-the-group": Fault(
            "executor.main",
            "    hear_no_group_signals()\n",
            DEAF_NO_MORE,
        ),
        "neighbours-pay": Fault("Blame.outcome_of", "        if not self.died:\n", "        if False:\n"),
        "cancel-not-heard": Fault("Executor._tick", "self._background.start(self._cancels.ask(now))", "pass"),
        "reconciliation-off": Fault(
            "Claiming._claim",
            "            await self._store.workers.reconcile(conn, self._worker, self._held())\n",
            "",
        ),
        "drain-spends-an-attempt": Fault(
            "Executor._drain",
            'self._runs.stop_all(Released(Release.DRAINED), "the worker is leaving")',
            'self._runs.stop_all(__import__("holdfast").Fail("X", "drained"), "the worker is leaving")',
        ),
        "leaves-while-it-blocks": Fault(
            "Executor._claim",
            "if not claims and not self._claiming.moving and self._nothing_left():",
            "if not claims and self._nothing_left():",
        ),
        "once-means-for-ever": Fault("Executor._want", "want = min(want, 1 - self._claimed)", "pass"),
        "unknown-kinds-are-claimed": Fault(
            "install_claim",
            "                or p.kind = any ((select u.kinds from unknown u)::text[]) as shut",
            " as shut",
        ),
        "process-outlives-its-time": Fault(
            "Runs.stop", "            run.forked.kill()\n", "            pass\n"
        ),
        "invalid-ones-pile-up": Fault(
            "Executor._ended", "        self._start_soon()\n", "        self._start()\n"
        ),
        "nobody-runs-alone": Fault("Runs.start", "        if claim.isolate:\n", "        if False:\n"),
        "flight-not-recorded": Fault(
            "Runs.start", "        self._flight.start(claim.id, claim.fence, run.deadline_at)\n", ""
        ),
        "exit-takes-its-process-along": Fault(
            "handlers.execute_async",
            "except (Exception, SystemExit, KeyboardInterrupt) as error:",
            "except Exception as error:",
        ),
        "lost-answer-forgotten": Fault(
            "Settling._write",
            "        except LinkLost:\n            pass\n",
            "        except LinkLost:\n            return Settled((), ())\n",
        ),
        "hints-not-heard": Fault("Notifications._listen", "if hint.payload in self._queues:", "if False:"),
        "queues-in-any-order": Fault(
            "worker.worker", 'for queue in queues.split(",")', 'for queue in sorted(queues.split(","))'
        ),
        "unroutable-waits-for-ever": Fault(
            "UnservedKinds.tend", '{"grace": grace_seconds, "limit"', '{"grace": 10.0**9, "limit"'
        ),
        "log-reader-stops-the-worker": Fault(
            "LogLines.__init__", "if not stat.S_ISREG(os.fstat(descriptor).st_mode):", "if False:"
        ),
        "torn-flight": Fault(
            "worker.flight_record", 'struct.Struct("<16sdqq")', 'struct.Struct("<16sdqq8x")'
        ),
        "outcome-taken-as-it-is": Fault(
            "handlers.outcome_of",
            "        return _as_declared(handler, answer)\n",
            "        return answer  # type: ignore\n",
        ),
        "group-signal-kills-what-runs-apart": Fault(
            "fork_server.serve",
            "    hear_no_group_signals()\n",
            DEAF_NO_MORE,
        ),
        "group-signal-finds-a-loading-server": Fault(
            "ForkServer._start", "        with theirs, group_signals_blocked():\n", "        with theirs:\n"
        ),
        "killed-start-ends-the-worker": Fault(
            "Supervisor._ended", " and child.leaving is None and status >= 0:", " and child.leaving is None:"
        ),
        "orphan-complains": Fault(
            "fork_server.serve",
            "                except ConnectionError:\n",
            "                except KeyError:\n",
        ),
        "requeued-called-failed": Fault(
            "observe.log_lines", 'Move.SNOOZE: "task.requeued"', 'Move.SNOOZE: "task.failed"'
        ),
    }
)
