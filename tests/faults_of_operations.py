"""Faults in what operators do: groups, plans, the audit."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SQL = "store/tasks.sql"
PLANS = "store/plans.sql"
PIECES = "store/pieces.sql"
AUDIT = "store/audit.sql"
AUDIT_READING = "store/audit_reading.sql"
FAILURES = "store/failures.sql"
TABLES = "store/migrations/0002_operations.up.sql"
DRIVER = "ops/driver.py"
FINGERPRINT = "core/fingerprint.py"

OPERATIONS = {
    "numbers-make-groups": Fault(FINGERPRINT, 'lambda found: found["status"] or "<number>"', "lambda found: found[0]"),
    "statuses-are-numbers": Fault(FINGERPRINT, 'lambda found: found["status"] or "<number>"', 'lambda found: "<number>"'),
    "line-numbers-make-groups": Fault(FINGERPRINT, "{frame.f_code.co_qualname}", "{frame.f_code.co_qualname}:{trace.tb_lineno}"),
    "urls-keep-their-passwords": Fault("core/redact.py", "[^\\s/'\\\"<>]*@", "[^\\s/'\\\"<>]*@@"),
    "payload-secrets-leak": Fault("runtime/verdicts.py", "handler.secrets if handler else ()", "()"),
    "dead-reason-forgotten": Fault("core/failure.py", "_FINAL = DeadReason.NON_RETRYABLE", "_FINAL = DeadReason.MAX_ATTEMPTS_EXCEEDED"),
    "filter-ignores-code": Fault(PIECES, "    and (%(code)s::text is null or t.error_code = %(code)s)\n", ""),
    "pages-overlap": Fault(PIECES, "or (t.marked_at, t.id) < (", "or (t.marked_at, t.id) <= ("),
    "statistics-count-kinds-once": Fault("ops/dead.py", "kinds[kind] += tasks", "kinds[kind] += 1"),
    "replay-not-counted": Fault(PIECES, "replay_count = t.replay_count + 1, last_replayed_at = now(),", "last_replayed_at = now(),"),
    "retry-of-anything": Fault(
        SQL,
        "t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')\n        and (\n            {has_row}\n        ) is not true\n    returning t.id, t.run_at",
        "t.id = any (%(ids)s::uuid[])\n    returning t.id, t.run_at",
    ),
    "failed-in-two-words": Fault("core/task.py", "return self.state is State.FAILED", "return self.state is State.CANCELLED"),
    "edit-loses-the-old-payload": Fault(SQL, "select f.id, clock_timestamp(), %(by)s, %(reason)s, f.version, f.payload from found f", "select f.id, clock_timestamp(), %(by)s, %(reason)s, f.version, %(payload)s::jsonb from found f"),
    "edit-over-a-change": Fault(SQL, "where t.id = %(id)s::uuid and t.mark in ('failed', 'cancelled') and md5(t.payload::text) = %(seen)s", "where t.id = %(id)s::uuid"),
    "forgets-the-living": Fault(SQL, "where t.id = any (%(ids)s::uuid[]) and t.mark in ('failed', 'cancelled')\norder by t.id", "where t.id = any (%(ids)s::uuid[])\norder by t.id"),
    "audit-after-the-effect": Fault("store/operate.py", "        async with conn.transaction():\n            cursor = await conn.execute(self._sql[move.value], values)", "        if True:\n            cursor = await conn.execute(self._sql[move.value], values)"),
    "audit-beside-the-effect": Fault("store/operate.py", "                await self._audit.note_tasks(conn, _ACTIONS[move], Author(self._by, reason), ids)\n", ""),
    "summary-forgotten": Fault("ops/plans.py", "            await self._audit.note(conn, SUMMARIES[action]", "            if action == 'forget':\n              await self._audit.note(conn, SUMMARIES[action]"),
    "skips-unsaid": Fault(PIECES, "        union all\n        select 'SKIPPED', s.task_id, t.kind, t.subject, t.trace_id, jsonb_build_object('because', s.reason)\n        from skipped s left join holdfast.tasks t on t.id = s.task_id\n", ""),
    "plan-takes-the-living": Fault(PIECES, "t.mark = any (%(states)s::text[])", "(t.mark = any (%(states)s::text[]) or t.mark is null)"),
    "preview-writes": Fault("ops/plans.py", "        sorts = await self._dead.sorts(conn, only, most)\n", "        sorts = await self._dead.sorts(conn, only, most)\n        await self._note(conn, Action.PLAN_CREATE, str(uuid4()), 'preview')\n"),
    "canary-ignored": Fault(DRIVER, "if step.canary and step.canary_done and step.allowed is None and step.canary_ended:", "if False:"),
    "canary-of-the-first": Fault(PLANS, "mod((n.nth - 1) * %(canary)s::bigint, n.total) < %(canary)s::bigint then 0", "n.nth <= %(canary)s::bigint then 0"),
    "ramp-never-stops": Fault(DRIVER, "if step.allowed is not None and (step.canary or step.rate) and step.ended >= JUDGED_MIN:", "if False:"),
    "ramp-all-at-once": Fault(DRIVER, "return min(SEND, left) if step.rate is None else", "return min(SEND, left) if True else"),
    "drift-unseen": Fault(SQL, "t.mark in ('failed', 'cancelled') and t.marked_at = i.marked_at and i.veto is null", "t.mark in ('failed', 'cancelled') and i.veto is null"),
    "own-approval-accepted": Fault(PLANS, "\n    and lower(btrim(p.created_by)) <> lower(btrim(%(by)s))\n", "\n"),
    "approval-not-asked-for": Fault(PLANS, "and (not p.needs_approval or p.approved_by is not null)\n", "\n"),
    "flush-alone": Fault("ops/plans.py", 'return -1 if action == "forget" else', "return"),
    "expired-plans-start": Fault(PLANS, "and p.state = 'frozen' and p.expires_at > now() and (not p.needs_approval", "and p.state = 'frozen' and (not p.needs_approval"),
    "item-redriven-twice": Fault(PIECES, "p.state = 'running' and p.next_place = %(place)s\n    for update\n", "p.state = 'running'\n"),
    "two-starts": Fault(PLANS, "where p.id = %(plan)s::uuid and p.state = 'frozen' and p.expires_at > now() and (not p.needs_approval", "where p.id = %(plan)s::uuid and p.expires_at > now() and (not p.needs_approval"),
    "told-and-not-done": Fault("store/operate.py", "            await self._require(conn, task_id, move)\n        raise await self.obstacle(conn, task_id)", "            await self._require(conn, task_id, move)\n            return"),
    "drivers-in-silence": Fault("cli/executor.py", "    app.listener = told if tally == NO_TALLY else both(told, Counted(Tally(tally)))\n", ""),
    "driver-not-served": Fault("cli/worker.py", "dict.fromkeys((RESERVED_QUEUE, *named))", "dict.fromkeys(named)"),
    "kinds-named-after-the-schema": Fault("store/pending.sql", "t.queue = 'holdfast' and (t.mark", "t.kind = 'holdfast.plan' and (t.mark"),
    "guard-not-asked": Fault(DRIVER, "step.next_place, count, asked.vetoes)", "step.next_place, count, {})"),
    "in-two-plans": Fault(PLANS, "where o.state in ('running', 'paused')", "where false"),
    "failures-not-counted": Fault(SQL, "    select k.now, count(*), g.fingerprint, (", "    select k.now, 1, g.fingerprint, ("),
    "regression-unseen": Fault(FAILURES, "when g.resolved_at is not null and m.last_at > g.resolved_at then 'regressed'", "when false then 'regressed'"),
    "traits-of-everybody": Fault("ops/groups.py", "if trait.of_successes <= ELSEWHERE_MAX", "if True"),
    "migration-drops-rows": Fault(TABLES, "alter table holdfast.tasks\n", "delete from holdfast.tasks; alter table holdfast.tasks\n"),
    "audit-can-be-changed": Fault(TABLES, "create trigger append_only before update or truncate on holdfast.audit_log for each statement execute function holdfast.refuse_change();\n", ""),
    "audit-granted-to-all": Fault("store/grants.sql", "grant select on all tables in schema holdfast to holdfast_worker", "grant select, insert, update, delete on all tables in schema holdfast to holdfast_worker"),
    "verify-counts-only": Fault(AUDIT_READING, "    or s.hash <> sha256(s.hash_before || int8send(s.chunk) || c.hashes)\n", ""),
    "prunes-are-believed": Fault(AUDIT_READING, "and a.details ->> 'digest' = p.digest\n)", "\n) and false"),
    "prune-forgets-hashes": Fault(AUDIT_READING, "    union all\n    select p.chunk, p.place, p.hash from holdfast.audit_pruned p\n", ""),
    "prune-takes-prunes": Fault(AUDIT, "            and a.action <> 'TASK_AUDIT_PRUNE_SUMMARY'\n", ""),
    "audit-kept-for-ever": Fault("store/upkeep.py", "if self._audit_days:", "if False:"),
    "formulas-run": Fault("ops/audit.py", "return f\"'{text}\" if text.startswith(_FORMULA) else text", "return text"),
}  # fmt: skip
