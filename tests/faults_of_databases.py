"""Faults in what holds whatever a database administrator has set, and in the bounds of tasks enqueued from SQL."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SQL = "store/tasks.sql"
BOUNDS_SQL = "store/bounds.sql"
BOUNDS = "core/bounds.py"
PIECES = "store/pieces.sql"
POOL = "store/pool.py"

DATABASES = {
    "options-of-the-address-dropped": Fault(
        POOL, "for part in (theirs, *ours) if part", "for part in ours if part"
    ),
    "options-of-the-address-win": Fault(
        POOL, "for part in (theirs, *ours) if part", "for part in (*ours, theirs) if part"
    ),
    "sql-takes-large-payloads": Fault(
        BOUNDS_SQL,
        "    if size > holdfast.payload_bytes_max() then\n        -- As",
        "    if false then\n        -- As",
    ),
    "sql-takes-deep-payloads": Fault(BOUNDS_SQL, "if payload @? 'strict", "if false and payload @? 'strict"),
    "sql-takes-any-name": Fault(BOUNDS_SQL, "if wrong is not null then", "if false then"),
    "numbers-are-larger-than-they-look": Fault(
        PIECES,
        "                            and octet_length(u.payload::text) <= holdfast.payload_bytes_max()\n",
        "",
    ),
    "predecessor-after-the-snapshot-does-not-exist": Fault(
        "store/tasks.sql",
        "        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then\n            -- It may",
        "        if false then\n            -- It may",
    ),
    "sql-takes-long-labels": Fault(BOUNDS_SQL, "where octet_length(l.label) > 1000", "where false"),
    "usual-task-has-long-labels": Fault(
        PIECES,
        "and (greatest(octet_length(u.bucket), octet_length(u.subject), octet_length(u.trace_id), octet_length(u.key)) > 1000) is not true",
        "",
    ),
    "python-takes-deep-payloads": Fault(BOUNDS, "and _is_too_deep(payload)", "and False"),
    "blanks-of-jsonb-counted": Fault(
        BOUNDS_SQL, "size := size - (length(bare) - length(replace(bare, ' ', '')));", ""
    ),
    "usual-task-is-not-looked-at": Fault(
        PIECES, "and octet_length(u.queue) between 1 and 200 and u.queue <> 'holdfast'", ""
    ),
    "replace-brings-in-anything": Fault(
        SQL,
        "set payload = holdfast.check_task(one.id, one.kind, t.queue, one.bucket, t.subject, t.trace_id, one.key, one.payload),",
        "set payload = one.payload,",
    ),
    "anybody-stands-behind-a-follow-up": Fault(
        BOUNDS_SQL,
        "bucket_prefix = 'after:' and not after_own",
        "bucket_prefix = 'after:' and bucket <> 'after:' || id",
    ),
    "sql-limit-reported-as-it-comes": Fault(
        "core/errors.py", '"HF003": (PayloadTooLarge,', '"HF003": (HoldfastError,'
    ),
    "known-keys-looked-up-one-by-one": Fault(
        SQL, "select u.id in (select unnest(known)) from", "select u.id = any (known) from"
    ),
    "new-keys-looked-up-one-by-one": Fault(SQL, "u.id not in (select unnest(won))", "u.id <> all (won)"),
    "decides-by-an-old-snapshot": Fault(
        PIECES, "in ('repeatable read', 'serializable') then", "= 'repeatable' then"
    ),
    "isolation-not-asked-for": Fault(
        POOL, "options_for(url, PINNED, COMMITTED, CLIENT", "options_for(url, PINNED, CLIENT"
    ),
    "transactions-at-the-default-level": Fault(
        POOL, "    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)\n", ""
    ),
    "requests-at-the-default-level": Fault("http/service.py", "            configure=_configure,\n", ""),
    "worker-starts-at-any-isolation": Fault(
        "cli/worker.py", "                await require_read_committed(conn)\n", ""
    ),
    "doctor-blind-to-isolation": Fault("store/doctor.py", 'if level.startswith("read"):', "if level:"),
    "any-encoding-migrated": Fault(
        "store/migrate.py",
        """    \"\"\"What migrating up would apply.\"\"\"\n    require_utf8(conn)\n""",
        """    \"\"\"What migrating up would apply.\"\"\"\n""",
    ),
    "any-encoding-worked-with": Fault(
        "store/migrate.py",
        'or on another encoding."""\n    require_utf8(conn)\n',
        'or on another encoding."""\n',
    ),
    "doctor-blind-to-encodings": Fault(
        "store/doctor.py", 'encoding == "UTF8", f"{encoding}"', 'True, "UTF8"'
    ),
    "edit-takes-any-size": Fault(
        "ops/dead.py", "        check_payload(before.kind, encoded, self._payload_bytes_max)\n", ""
    ),
    "limit-not-laid-in": Fault(
        "cli/migrate.py", "                payload_bytes_max=settings.payload_bytes_max,\n", ""
    ),
    "encoding-of-the-role": Fault(POOL, "            client_encoding=ENCODING,\n", ""),
}
