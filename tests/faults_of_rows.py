"""Faults in what keeps one narrow row for each live task, whoever else writes to the tables."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

ROWS = {
    "complete-strands": Fault(
        "complete",
        "    where (select holdfast.require_moved((select count(*) from gone), (select count(*) from done)))\n",
        "",
    ),
    "settle-strands": Fault(
        "settle",
        "\nwhere (select holdfast.require_moved((select count(*) from gone), (select count(*) from changed)));",
        ";",
    ),
    "moved-claim-called-late": Fault("Settler.write", "        if refused:\n", "        if False:\n"),
    "finish-calls-moved-late": Fault(
        "Finishing.complete", "        if len(rows) < len(tasks):\n", "        if False:\n"
    ),
    "moved-item-skipped": Fault(
        "items_dealt_with",
        "when t.mark in ('failed', 'cancelled') and holdfast.require_moved(1, 0) then null\n",
        "\n",
    ),
    "deleted-task-settled-for-ever": Fault(
        "Settler._bisect",
        "                await self.drop_missing(conn, [(claim.id, claim.fence) for claim, _ in group])\n",
        "",
    ),
    "deleted-tasks-fill-the-limit": Fault(
        "lapsed",
        "join holding h on h.worker = f.worker\nleft join {tasks_found} on true;",
        "join holding h on h.worker = f.worker\ncross join {tasks_found};",
    ),
    "doctor-blind": Fault(
        "misplaced",
        "    or num_nonnulls(r.id, w.id, u.id) <> case when t.mark is null then 1 else 0 end\n",
        "",
    ),
    "doctor-blind-to-differences": Fault(
        "misplaced",
        "\n    or r.id is not null and (r.queue, r.priority, r.run_at) is distinct from (t.queue, t.priority, t.run_at)",
        "",
    ),
    "repair-without-audit": Fault(
        "Repair.repair",
        "                await self._audit.note_tasks(conn, Action.TASK_REPAIR, author, repaired, details=details)\n",
        "                assert author, details\n",
    ),
    "repair-before-its-audit": Fault(
        "Repair.repair",
        "        async with conn.transaction():\n",
        "        if await conn.execute('select 1'):\n",
    ),
    "repair-starts-a-follow-up": Fault(
        "restore",
        "and not exists (select from there h where h.id = t.id)\n    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, t.bucket, t.position",
        "and not exists (select from there h where h.id = t.id)\n    returning t.id, t.run_at, t.timeout_seconds, t.priority, t.queue, t.kind, null::text as bucket, t.position",
    ),
    "repair-adds-a-second-row": Fault(
        "restore", "        and not exists (select from there h where h.id = t.id)\n", ""
    ),
    "repair-unasked": Fault(
        "doctor.doctor", "run(caller.conn, reason) if repair else []", "run(caller.conn, reason)"
    ),
    "stranded-key-looked-for-ever": Fault(
        "install_reserve_keys",
        "where t.id = holder and t.mark is null and not (\n",
        "where false and t.id = holder and not (\n",
    ),
    "stranded-called-contended": Fault(
        "Operator.obstacle",
        "            case (False, False):\n                how = ",
        "            case (False, False) if row is None:\n                how = ",
    ),
    "resume-adds-a-second-row": Fault(
        "operate.sql:resume",
        "        and (\n            {has_row}\n        ) is not true\n    returning",
        "    returning",
    ),
    "redrive-adds-a-second-row": Fault(
        "redrive",
        "        and (\n            {has_row}\n        ) is not true\n    returning",
        "    returning",
    ),
    "item-adds-a-second-row": Fault(
        "redrive_items", " and i.veto is null and not x.has_row\n", " and i.veto is null\n"
    ),
    "stranded-about-to-start": Fault("why._stranded", "    if facts.has_row:\n", "    if True:\n"),
    "marked-with-a-row-is-well": Fault("Why.of", "if row == (True, True):", "if row is None:"),
}
