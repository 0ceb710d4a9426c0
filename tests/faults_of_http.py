"""Faults of the HTTP API to seed: who may, what is answered twice, what waits that must not."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

HTTP = {
    "anybody-may": Fault("permissions.may", "return _RANK[bearer.role] >= _RANK[least_role]", "return True"),
    "workers-may-operate": Fault(
        "permissions.may", "return bearer.role is least_role", "return bearer.role is Role.WORKER"
    ),
    "secret-not-compared": Fault(
        "Tokens.bearer", "not hmac.compare_digest(bytes(kept), hash_of(secret)) or expired", "expired"
    ),
    "expired-tokens-are-good": Fault("Tokens.bearer", "or expired or revoked", "or revoked"),
    "revoked-tokens-are-good": Fault("Tokens.bearer", "or expired or revoked", "or expired"),
    "answers-not-kept": Fault("TransactionRoute.get_route_handler", "if key is None:", "if True:"),
    "keys-for-anything": Fault("request._once", "if before.asked != hashed:", "if False:"),
    "alias-of-subject-ignored": Fault(
        "routes.tasks.list_tasks", "subject=subject or episode_id", "subject=subject"
    ),
    "acts-of-nobody": Fault(
        "Caller.dead_letters",
        "return DeadLetters(self.settings, self.listen, by=self.by",
        'return DeadLetters(self.settings, self.listen, by="api"',
    ),
    "preview-pages-overlap": Fault("dead_letters.preview", "offset=only.offset", "offset=0"),
    "dry-run-acts": Fault("routes.dead_letters.retry", "if act.dry_run:", "if False:"),
    "board-without-acts": Fault(
        "overview.ops",
        "EntryFilter(action=audit_action, actor=audit_actor)",
        'EntryFilter(action="nothing")',
    ),
    "export-as-a-page": Fault(
        "routes.audit.export", "media_type=_MEDIA_TYPES[only.format]", 'media_type="text/html"'
    ),
    "cookie-for-scripts": Fault(
        "session.begin",
        "begun.secret, httponly=True, secure=True",
        "begun.secret, httponly=False, secure=True",
    ),
    "acts-without-their-word": Fault(
        "Authenticator.bearer",
        "if request.method not in SAFE and not hmac",
        "if False and not hmac",
    ),
    "other-sites-may-act": Fault(
        "identity.present",
        "    refuse_strangers(request)\n    if auth is Auth.NONE:",
        "    if auth is Auth.NONE:",
    ),
    "sessions-never-idle": Fault(
        "session", " and s.seen_at > now() - make_interval(secs => %(idle)s::double precision)", ""
    ),
    "sessions-for-ever": Fault("session", "and s.expires_at > now() and s.seen_at", "and s.seen_at"),
    "sessions-of-revoked-tokens": Fault(
        "session",
        "and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());",
        ";",
    ),
    "any-proxy": Fault("Proxy.bearer", "if reason is not None:", "if False:"),
    "proxy-makes-admins": Fault("Proxy.bearer", "name, roles[0])", "name, Role.ADMIN)"),
    "names-of-others": Fault(
        "identity.present", "if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:", "if False:"
    ),
    "rare-ones-searched-for": Fault(
        "dead_looked_at",
        "        limit %(look)s\n",
        "\n",
    ),
    "partial-unsaid": Fault("Browser.tasks", "Found(items, edge[0], partial=True)", "Found(items, edge[0])"),
    "watchers-hold-it-up": Fault("_Server.shutdown", "        self._live.end()\n", ""),
    "leaves-when-all-is-answered": Fault(
        "server.serve", "timeout_graceful_shutdown=LEAVE_SECONDS", "timeout_graceful_shutdown=None"
    ),
    "told-twice-breaks-off": Fault(
        "_Server.handle_exit", "        if not self.should_exit:\n", "        if True:\n"
    ),
    "report-by-anybody": Fault(
        "held_task",
        "and r.fence = %(fence)s and r.worker = %(worker)s::uuid\n    for update",
        "and r.fence = %(fence)s\n    for update",
    ),
    "report-twice-late": Fault(
        "HttpWorkers.report",
        "            return await self._ended_before(conn, worker, held, outcome)",
        "            return None",
    ),
    "outside-lease-for-ever": Fault(
        "renew_outside",
        "w.token = %(token)s and w.lost_at is null\n",
        "w.token = %(token)s\n",
    ),
    "outside-lease-ends-by-itself": Fault(
        "renew_outside",
        "w.token = %(token)s and w.lost_at is null\n",
        "w.token = %(token)s and w.lost_at is null and w.lease_expires_at > now()\n",
    ),
    "late-report-in-silence": Fault(
        "HttpWorkers._ended_before",
        "            await self._store.settler.refuse(conn, [(told, verdict)])\n",
        "            pass\n",
    ),
    "anybodys-worker": Fault("lock_outside", "and w.token = %(token)s for update", "for update"),
    "lost-claims-stay": Fault(
        "HttpWorkers.claim", "        await self._release_but(conn, worker, holding)\n", ""
    ),
    "outside-permits-leak": Fault(
        "HttpWorkers.report", "        await self._rows.keep_permits(conn, worker, [claim])\n", ""
    ),
    "outside-permits-lost": Fault(
        "HttpWorkerRows.keep_permits",
        "conn, worker, GENERATION, _limits_of(held))",
        "conn, worker, GENERATION, {})",
    ),
    "reported-codes-forgotten": Fault(
        "worker_protocol._outcome",
        "return Fail(said.code or ErrorCode.EXECUTION_FAILED, said.reason)",
        "return Fail(ErrorCode.EXECUTION_FAILED, said.reason)",
    ),
    "counts-not-reported": Fault("Executor._tick", "            self._report_counts()\n", ""),
    "last-counts-lost": Fault("Executor.run", "            self._report_counts()", "            pass"),
    "last-counts-cut-off": Fault(
        "executor._run",
        "        await asyncio.wait_for(channel.leave(), REPORT_SECONDS)\n",
        "        pass\n",
    ),
    "moments-added-up": Fault("ProcessCounters._add", "name.startswith(LATEST)", "False"),
    "never-ready": Fault("MetricsPort.serve", "well=supervisor.at_work > 0", "well=False"),
    "classes-not-counted": Fault(
        "counters._key", "None if verdict.failure is None else verdict.failure.failure_class", "None"
    ),
    "totals-forgotten": Fault(
        "roll_up", "set tasks = t.tasks + excluded.tasks", "set tasks = excluded.tasks"
    ),
    "silence-is-waited-out": Fault(
        "pool.answering", "call_later(seconds, _hang_up", "call_later(600, _hang_up"
    ),
    "silence-in-the-middle-is-waited-out": Fault(
        "Pool.bounded", "answering(conn, REQUEST_SECONDS)", "answering(conn, 600.0)"
    ),
    "looks-ever-later": Fault("Pool.__init__", "reconnect_timeout=CONNECT_SECONDS", "reconnect_timeout=300"),
    "sample-not-shown": Fault("tasks._with_sample", "ready=larger(view.ready, ready)", "ready=view.ready"),
    "batch-waits-for-a-worker": Fault(
        "routes.dead_letters.retry",
        "    await PlanDriver(caller.settings, caller.handlers, caller.listen).send_all(caller.conn, plan.id)\n",
        "",
    ),
}
