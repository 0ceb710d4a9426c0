"""Faults in what holds whatever a database administrator has set, and in the bounds of tasks enqueued from SQL."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

DATABASES = {
    "options-of-the-address-dropped": Fault(
        "connect.options_for", "for part in (theirs, *ours) if part", "for part in ours if part"
    ),
    "options-of-the-address-win": Fault(
        "connect.options_for", "for part in (theirs, *ours) if part", "for part in (*ours, theirs) if part"
    ),
    "sql-takes-large-payloads": Fault(
        "install_check_task",
        "    if size > holdfast.payload_bytes_max() then\n        -- As",
        "    if false then\n        -- As",
    ),
    "sql-takes-deep-payloads": Fault(
        "install_check_task", "if payload @? 'strict", "if false and payload @? 'strict"
    ),
    "sql-takes-any-name": Fault("install_check_task", "if wrong is not null then", "if false then"),
    "numbers-are-larger-than-they-look": Fault(
        "checked_payload",
        "                            and octet_length(u.payload::text) <= holdfast.payload_bytes_max()\n",
        "",
    ),
    "predecessor-after-the-snapshot-does-not-exist": Fault(
        "install_enqueue_after",
        "        if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then\n            -- It may",
        "        if false then\n            -- It may",
    ),
    "sql-takes-long-labels": Fault("install_check_task", "where octet_length(l.label) > 1000", "where false"),
    "usual-task-has-long-labels": Fault(
        "checked_payload",
        "and (greatest(octet_length(u.bucket), octet_length(u.subject), octet_length(u.trace_id), octet_length(u.key)) > 1000) is not true",
        "",
    ),
    "python-takes-deep-payloads": Fault("bounds.check_payload", "and _is_too_deep(payload)", "and False"),
    "blanks-of-jsonb-counted": Fault(
        "install_check_task", "size := size - (length(bare) - length(replace(bare, ' ', '')));", ""
    ),
    "usual-task-is-not-looked-at": Fault(
        "checked_payload", "and octet_length(u.queue) between 1 and 200 and u.queue <> 'holdfast'", ""
    ),
    "replace-brings-in-anything": Fault(
        "install_reserve_keys",
        "set payload = holdfast.check_task(one.id, one.kind, t.queue, one.bucket, t.subject, t.trace_id, one.key, one.payload),",
        "set payload = one.payload,",
    ),
    "anybody-stands-behind-a-follow-up": Fault(
        "install_check_task",
        "bucket_prefix = 'after:' and not after_own",
        "bucket_prefix = 'after:' and bucket <> 'after:' || id",
    ),
    "sql-limit-reported-as-it-comes": Fault(
        "core.errors", '"HF003": (PayloadTooLarge,', '"HF003": (HoldfastError,'
    ),
    "known-keys-looked-up-one-by-one": Fault(
        "install_enqueue_many", "select u.id in (select unnest(known)) from", "select u.id = any (known) from"
    ),
    "new-keys-looked-up-one-by-one": Fault(
        "install_reserve_keys", "u.id not in (select unnest(won))", "u.id <> all (won)"
    ),
    "decides-by-an-old-snapshot": Fault(
        "reads_committed", "in ('repeatable read', 'serializable') then", "= 'repeatable' then"
    ),
    "isolation-not-asked-for": Fault(
        "connect.connect", "options_for(url, PINNED, COMMITTED, CLIENT", "options_for(url, PINNED, CLIENT"
    ),
    "transactions-at-the-default-level": Fault(
        "connect.connect", "    await conn.set_isolation_level(IsolationLevel.READ_COMMITTED)\n", ""
    ),
    "requests-at-the-default-level": Fault("Pool.__init__", "            configure=_configure,\n", ""),
    "worker-starts-at-any-isolation": Fault(
        "worker._supervise", "                await require_read_committed(conn)\n", ""
    ),
    "doctor-blind-to-isolation": Fault("Doctor._isolation", 'if level.startswith("read"):', "if level:"),
    "any-encoding-migrated": Fault(
        "migrate.pending",
        """    \"\"\"What migrating up would apply.\"\"\"\n    require_utf8(conn)\n""",
        """    \"\"\"What migrating up would apply.\"\"\"\n""",
    ),
    "any-encoding-worked-with": Fault(
        "migrate.require_current",
        'or on another encoding."""\n    require_utf8(conn)\n',
        'or on another encoding."""\n',
    ),
    "doctor-blind-to-encodings": Fault("Doctor._server", 'encoding == "UTF8", f"{encoding}"', 'True, "UTF8"'),
    "edit-takes-any-size": Fault(
        "DeadLetters.edit", "        check_payload(before.kind, encoded, self._payload_bytes_max)\n", ""
    ),
    "limit-not-laid-in": Fault(
        "migrate.migrate", "                payload_bytes_max=caller.settings.payload_bytes_max,\n", ""
    ),
    "encoding-of-the-role": Fault("connect.connect", "            client_encoding=ENCODING,\n", ""),
}
