"""Faults in what keeps one narrow row for each live task, whoever else writes to the tables."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SQL = "store/tasks.sql"
SETTLE = "store/settle.py"
REPAIR = "store/repair.py"
DOCTOR = "store/doctor.sql"

ROWS = {
    "complete-strands": Fault(
        SQL,
        "    where (select holdfast.require_moved((select count(*) from gone), (select count(*) from done)))\n",
        "",
    ),
    "settle-strands": Fault(
        SQL,
        "\nwhere (select holdfast.require_moved((select count(*) from gone), (select count(*) from changed)));",
        ";",
    ),
    "moved-claim-called-late": Fault(SETTLE, "        if refused:\n", "        if False:\n"),
    "finish-calls-moved-late": Fault(
        "runtime/finish.py", "        if len(rows) < len(tasks):\n", "        if False:\n"
    ),
    "moved-item-skipped": Fault(
        "store/pieces.sql",
        "when t.mark in ('failed', 'cancelled') and holdfast.require_moved(1, 0) then null\n",
        "\n",
    ),
    "deleted-task-settled-for-ever": Fault(
        SETTLE,
        "                await self.drop_missing(conn, [(claim.id, claim.fence) for claim, _ in group])\n",
        "",
    ),
    "deleted-tasks-fill-the-limit": Fault(
        SQL,
        "join holding h on h.worker = f.worker\nleft join {tasks_found} on true;",
        "join holding h on h.worker = f.worker\ncross join {tasks_found};",
    ),
    "doctor-blind": Fault(
        DOCTOR, "    or num_nonnulls(r.id, w.id, u.id) <> case when t.mark is null then 1 else 0 end\n", ""
    ),
    "doctor-blind-to-differences": Fault(
        DOCTOR,
        "\n    or r.id is not null and (r.queue, r.priority, r.run_at) is distinct from (t.queue, t.priority, t.run_at)",
        "",
    ),
    "repair-without-audit": Fault(
        REPAIR,
        "                await self._audit.note_tasks(conn, Action.TASK_REPAIR, author, repaired, details=details)\n",
        "                assert author, details\n",
    ),
    "repair-before-its-audit": Fault(
        REPAIR, "        async with conn.transaction():\n", "        if await conn.execute('select 1'):\n"
    ),
    "repair-starts-a-follow-up": Fault(
        SQL,
        "and not exists (select from there h where h.id = t.id)\n    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position",
        "and not exists (select from there h where h.id = t.id)\n    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, null::text as bucket, t.position",
    ),
    "repair-adds-a-second-row": Fault(
        SQL, "        and not exists (select from there h where h.id = t.id)\n", ""
    ),
    "repair-unasked": Fault("cli/doctor.py", "run(conn, reason) if repair else []", "run(conn, reason)"),
    "stranded-key-looked-for-ever": Fault(
        SQL, "where t.id = holder and t.mark is null and not (\n", "where false and t.id = holder and not (\n"
    ),
    "stranded-called-contended": Fault(
        "store/operate.py",
        "            case (False, False):\n                how = ",
        "            case (False, False) if row is None:\n                how = ",
    ),
    "resume-adds-a-second-row": Fault(
        SQL, "        and (\n            {has_row}\n        ) is not true\n    returning", "    returning", 0
    ),
    "redrive-adds-a-second-row": Fault(
        SQL, "        and (\n            {has_row}\n        ) is not true\n    returning", "    returning", 1
    ),
    "item-adds-a-second-row": Fault(SQL, " and i.veto is null and not x.has_row\n", " and i.veto is null\n"),
    "stranded-about-to-start": Fault("store/why.py", "    if facts.has_row:\n", "    if True:\n"),
    "marked-with-a-row-is-well": Fault("store/why.py", "if row == (True, True):", "if row is None:"),
}
