"""Faults of the HTTP API to seed: who may, what is answered twice, what waits that must not."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

TOKENS = "ops/tokens.py"
OUTSIDE = "runtime/outside.py"

HTTP = {
    "anybody-may": Fault("http/access.py", "return _RANK[bearer.role] >= _RANK[least_role]", "return True"),
    "workers-may-operate": Fault(
        "http/access.py", "return bearer.role is least_role", "return bearer.role is Role.WORKER"
    ),
    "secret-not-compared": Fault(
        TOKENS, "not hmac.compare_digest(bytes(kept), hash_of(secret)) or expired", "expired"
    ),
    "expired-tokens-are-good": Fault(TOKENS, "or expired or revoked", "or revoked"),
    "revoked-tokens-are-good": Fault(TOKENS, "or expired or revoked", "or expired"),
    "answers-not-kept": Fault("http/asking.py", "if key is None:", "if True:"),
    "keys-for-anything": Fault("http/asking.py", "if before.asked != hashed:", "if False:"),
    "alias-of-subject-ignored": Fault("http/tasks.py", "subject=subject or episode_id", "subject=subject"),
    "acts-of-nobody": Fault(
        "http/service.py",
        "return DeadLetters(self.settings, self.service.listen, by=self.by",
        'return DeadLetters(self.settings, self.service.listen, by="api"',
    ),
    "preview-pages-overlap": Fault("http/dead.py", "offset=only.offset", "offset=0"),
    "dry-run-acts": Fault("http/dead.py", "if act.dry_run:", "if False:"),
    "board-without-acts": Fault(
        "http/board.py",
        "EntryFilter(action=audit_action, actor=audit_actor)",
        'EntryFilter(action="nothing")',
    ),
    "export-as-a-page": Fault(
        "http/audit.py", "media_type=_MEDIA_TYPES[only.format]", 'media_type="text/html"'
    ),
    "cookie-for-scripts": Fault(
        "http/sessions.py",
        "begun.secret, httponly=True, secure=True",
        "begun.secret, httponly=False, secure=True",
    ),
    "acts-without-their-word": Fault(
        "http/service.py",
        "if request.method not in SAFE and not hmac",
        "if False and not hmac",
    ),
    "strangers-may-act": Fault(
        "http/identity.py",
        "    refuse_strangers(request)\n    if auth is Auth.NONE:",
        "    if auth is Auth.NONE:",
    ),
    "sessions-never-idle": Fault(
        "store/access.sql", " and s.seen_at > now() - make_interval(secs => %(idle)s::double precision)", ""
    ),
    "sessions-for-ever": Fault("store/access.sql", "and s.expires_at > now() and s.seen_at", "and s.seen_at"),
    "sessions-of-revoked-tokens": Fault(
        "store/access.sql",
        "and t.revoked_at is null and (t.expires_at is null or t.expires_at > now());",
        ";",
    ),
    "any-proxy": Fault("http/proxies.py", "if reason is not None:", "if False:"),
    "proxy-makes-admins": Fault("http/proxies.py", "name, roles[0])", "name, Role.ADMIN)"),
    "names-of-others": Fault(
        "http/identity.py", "if len(hosts) != 1 or LOOPBACK.fullmatch(hosts[0]) is None:", "if False:"
    ),
    "rare-ones-searched-for": Fault(
        "store/pieces.sql",
        "        limit %(look)s\n\n-- piece: marked_looked_at",
        "\n-- piece: marked_looked_at",
    ),
    "partial-unsaid": Fault(
        "store/browse.py", "Found(items, edge[0], partial=True)", "Found(items, edge[0])"
    ),
    "watchers-hold-it-up": Fault("http/serving.py", "        self._live.end()\n", ""),
    "leaves-when-all-is-answered": Fault(
        "http/serving.py", "timeout_graceful_shutdown=LEAVE_SECONDS", "timeout_graceful_shutdown=None"
    ),
    "told-twice-breaks-off": Fault(
        "http/serving.py", "        if not self.should_exit:\n", "        if True:\n"
    ),
    "report-by-anybody": Fault(
        "store/tasks.sql",
        "and r.fence = %(fence)s and r.worker = %(worker)s::uuid\n    for update",
        "and r.fence = %(fence)s\n    for update",
    ),
    "report-twice-late": Fault(
        OUTSIDE,
        "            return await self._ended_before(conn, worker, held, outcome)",
        "            return None",
    ),
    "outside-lease-for-ever": Fault(
        "store/tasks.sql",
        "w.token = %(token)s and w.lost_at is null\n",
        "w.token = %(token)s\n",
    ),
    "outside-lease-ends-by-itself": Fault(
        "store/tasks.sql",
        "w.token = %(token)s and w.lost_at is null\n",
        "w.token = %(token)s and w.lost_at is null and w.lease_expires_at > now()\n",
    ),
    "late-report-in-silence": Fault(
        OUTSIDE, "            await self._store.refuse(conn, [(told, verdict)])\n", "            pass\n"
    ),
    "anybodys-worker": Fault("store/tasks.sql", "and w.token = %(token)s for update", "for update"),
    "lost-claims-stay": Fault(OUTSIDE, "        await self._release_but(conn, worker, holding)\n", ""),
    "outside-slots-leak": Fault(OUTSIDE, "        await self._rows.keep_slots(conn, worker, [claim])\n", ""),
    "outside-slots-lost": Fault(
        "store/outside.py", "conn, worker, EPOCH, _limits_of(held))", "conn, worker, EPOCH, {})"
    ),
    "reported-codes-forgotten": Fault(
        "http/workers.py",
        "return Fail(said.code or ErrorCode.EXECUTION_FAILED, said.reason)",
        "return Fail(ErrorCode.EXECUTION_FAILED, said.reason)",
    ),
    "counts-of-the-dead-lost": Fault("runtime/tally.py", "        _sum_up(self._past, tally.read())\n", ""),
    "last-group-uncounted": Fault(
        "runtime/burials.py", "return Counter(one.name", 'return Counter("" and one.name'
    ),
    "never-ready": Fault("cli/watched.py", "well=supervisor.at_work > 0", "well=False"),
    "classes-not-counted": Fault(
        "observe/counted.py", "None if verdict.failure is None else verdict.failure.failure_class", "None"
    ),
    "totals-forgotten": Fault(
        "store/counts.sql", "set tasks = t.tasks + excluded.tasks", "set tasks = excluded.tasks"
    ),
    "silence-is-waited-out": Fault(
        "http/service.py", "call_later(seconds, _hang_up", "call_later(600, _hang_up"
    ),
    "silence-in-the-middle-is-waited-out": Fault(
        "http/service.py", "_answering(conn, REQUEST_SECONDS)", "_answering(conn, 600.0)"
    ),
    "looks-ever-later": Fault(
        "http/service.py", "reconnect_timeout=CONNECT_SECONDS", "reconnect_timeout=300"
    ),
    "sample-not-shown": Fault("store/browse.py", "ready=larger(view.ready, ready)", "ready=view.ready"),
    "batch-waits-for-a-worker": Fault(
        "http/dead.py",
        "    await Driver(asked.settings, asked.handlers, asked.service.listen).send_all(asked.conn, plan.id)\n",
        "",
    ),
}
