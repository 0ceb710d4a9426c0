"""Faults in who may write to the audit, who is proven to have acted, and what may be pruned."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

OF_THE_AUDIT = {
    "audit-inserts-granted": Fault("grants", "grant select on all tables in schema holdfast to holdfast_worker, holdfast_api, holdfast_operator;", "grant select on all tables in schema holdfast to holdfast_worker, holdfast_api, holdfast_operator; grant insert on holdfast.audit_log, holdfast.audit_unsealed to holdfast_worker, holdfast_api;"),
    "audit-inserts-by-hand": Fault("0009_audit_identity.up.sql", "create trigger by_functions before insert on holdfast.audit_log for each statement execute function holdfast.refuse_direct();", "create trigger by_functions before truncate on holdfast.audit_log for each statement execute function holdfast.refuse_direct();"),
    "seal-lock-of-anybody": Fault("install_seal_audit", "lock table holdfast.audit_seals in share row exclusive mode;", "perform pg_advisory_xact_lock(hashtextextended('holdfast.audit', 0));"),
    "seal-is-jammed": Fault("install_seal_audit", "        where not exists (select from holdfast.audit_seals s where s.chunk = u.chunk)\n        order by u.chunk\n    loop", "        order by u.chunk\n    loop"),
    "settings-of-anybody-believed": Fault("install_proven_identity", "    if pg_has_role(session_user, current_user, 'member')\n", "    if true\n"),
    "identity-not-sealed": Fault("install_audit_hash", "when coalesce(entry.login, entry.token, entry.address) is null then '[]'", "when true then '[]'"),
    "prune-of-any-age": Fault("install_prune_audit", "if holdfast.audit_prune_days_min() > 0 and before >", "if false and before >"),
    "dry-run-of-any-age": Fault("AuditWriter.prunable", '            await conn.execute(self._sql["prune"], values)\n', "            pass\n"),
    "prune-minimum-not-laid-in": Fault("migrate.function_statements", 'f"{audit_prune_days_min:d}"', '"1"'),
    "worker-prunes-with-a-filter": Fault("grants", "grant execute on function holdfast.prune_audit to holdfast_api, holdfast_operator;", "grant execute on function holdfast.prune_audit to holdfast_api, holdfast_operator, holdfast_worker;"),
    "approval-by-name-only": Fault("approve", "    and case when me.token is not null then me.token is distinct from p.created_token else p.created_token is null and me.login <> p.created_login end\n", ""),
    "approval-unconstrained": Fault("0009_audit_identity.up.sql", "approved_by is null or approved_login is null\n", "true\n"),
    "identity-as-the-statement-says": Fault("0009_audit_identity.up.sql", "        new.approved_login := me.login;\n        new.approved_token := me.token;\n", ""),
    "enqueue-unsaid": Fault("routes.tasks.enqueue", "    if made.created:\n", "    if False:\n"),
    "log-in-unsaid": Fault("Sessions.begin", "await self._audit.note(conn, Action.SESSION_BEGIN", "self._audit.note(conn, Action.SESSION_BEGIN"),
    "refused-tokens-forgotten": Fault("Service.close", "        await self.auth.refusals.close()\n", ""),
    "refused-tokens-without-end": Fault("Refusals.count", " or len(self._counts) < ENTRIES_MAX - 1:", " or True:"),
}  # fmt: skip
