"""Faults in who may do what: roles of the database, reserved kinds, scopes of tokens."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

GRANTS = {
    "producers-make-own-tasks": Fault(
        "install_refuse_reserved",
        "    if reserved is not null and not holdfast.is_own_session() then",
        "    if false then",
    ),
    "events-not-checked": Fault(
        "install_check_task",
        "    if kind = 'webhook.publish' and not holdfast.is_own_session() then",
        "    if false then",
    ),
    "upgrade-opens-functions": Fault(
        "migrate.migrate_up",
        '        await conn.execute(in_schema("revoke all on all functions in schema holdfast from public", schema))\n',
        "",
    ),
    "ids-may-be-given-twice": Fault(
        "install_enqueue_many",
        "    if cardinality(ids) > 1 and (select count(distinct u)",
        "    if false and (select count(distinct u)",
    ),
    "functions-of-others-found": Fault(
        "db.connect",
        'OWN_PATH = "-c search_path=pg_catalog,pg_temp"',
        'OWN_PATH = "-c search_path=public"',
    ),
    "grants-too-wide": Fault(
        "grants",
        "grant execute on function holdfast.make_partition to holdfast_worker;",
        "grant execute on function holdfast.make_partition to public;",
    ),
    "worker-reads-sessions": Fault(
        "grants",
        "revoke select on holdfast.api_tokens, holdfast.api_answers, holdfast.api_sessions from holdfast_worker, holdfast_operator;\n",
        "",
    ),
    "migration-needs-a-superuser": Fault(
        "install_seal_audit",
        "set search_path = pg_catalog, pg_temp\nset lock_timeout = '2s'",
        "set search_path = pg_catalog, pg_temp\nset holdfast_audit.writing = 'on'",
    ),
    "doctor-stops-at-a-missing-right": Fault(
        "Doctor.examine",
        "            except psycopg.errors.InsufficientPrivilege as error:\n                findings.append(_not_examined(name, error))\n",
        "            except psycopg.errors.DeadlockDetected as error:\n                findings.append(_not_examined(name, error))\n",
    ),
    "doctor-blind-to-equal-names": Fault(
        "tokens_of_one_name", "having count(*) > 1\n", "having count(*) > 100\n"
    ),
    "worker-starts-without-rights": Fault(
        "worker._supervise", "                await Declarations(store.settings).declare(conn, ())\n", ""
    ),
    "executor-waits-for-rights": Fault(
        "registration.register",
        "            except psycopg.errors.InsufficientPrivilege as error:\n",
        "            except psycopg.errors.DeadlockDetected as error:\n",
    ),
    "scope-not-looked-at": Fault(
        "WorkerScope.refuse_beyond",
        "                if allowed is not None and name not in allowed:\n",
        "                if False:\n",
    ),
}
