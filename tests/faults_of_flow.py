"""Faults in limits, turns, lanes and pauses; the others are in faults.py."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SQL = "store/tasks.sql"
LIMITS = "store/limits.sql"

FLOW = {
    "claim-ignores-a-closed-kind": Fault(
        SQL,
        "select p.*, p.kind = any ((select d.kinds from doors d)::text[]) or p.queue",
        "select p.*, p.queue",
    ),
    "claim-ignores-a-paused-queue": Fault(SQL, "                where q.paused_at is null\n", ""),
    "door-left-open": Fault(
        SQL,
        "least(\n                    coalesce(b.capacity, 1000000) - coalesce(used.slots, 0),",
        "least(\n                    1000000,",
    ),
    "slots-not-counted": Fault(
        SQL,
        "select sum(s.slots)::integer as slots from holdfast.slots s where s.bucket = b.name",
        "select sum(s.slots)::integer as slots from holdfast.slots s where s.bucket = b.name and s.worker = holder",
    ),
    "slot-not-returned": Fault(
        SQL,
        "where s.worker in (select l.id from lost l)\n        or not exists (select",
        "where false and not exists (select",
    ),
    "slots-kept-by-the-departed": Fault(
        SQL,
        "delete from holdfast.slots s where s.worker = %(worker)s::uuid returning s.bucket",
        "delete from holdfast.slots s where s.worker = %(worker)s::uuid and false returning s.bucket",
    ),
    "limit-change-unheard": Fault(
        "store/limits.py",
        '            await conn.execute(self._tasks["offer"], {"names": [full]})\n            await self._note(conn, Action.LIMIT_SET, values)\n',
        "",
    ),
    "burst-unbounded": Fault(
        SQL,
        "set spent_until = greatest(r.spent_until, moment) + (excluded.spent_until - moment)",
        "set spent_until = r.spent_until + (excluded.spent_until - moment)",
    ),
    "rate-not-spent": Fault(
        SQL,
        "union all select 'kind:' || u.kind, 'kind:' || u.kind where 'kind:' || u.kind = any (rated_doors)",
        "union all select 'kind:' || u.kind, 'kind:' || u.kind where false",
    ),
    "rate-of-a-key-forgotten": Fault(
        SQL, "case when h.rated then greatest(h.turn, (", "case when false then greatest(h.turn, ("
    ),
    "default-overrides": Fault(LIMITS, "where b.set_by is null or b.set_by = 'default';", "where true;"),
    "code-overrules-people": Fault(
        LIMITS,
        "where %(by)s <> 'code' or b.set_by is null or b.set_by in ('code', 'default');",
        "where %(by)s <> '';",
    ),
    "slots-floor-passes-an-open-lease": Fault(
        SQL,
        "select least(\n    pg_snapshot_xmin(pg_current_snapshot())::text::bigint,",
        "select least(\n    pg_snapshot_xmax(pg_current_snapshot())::text::bigint,",
    ),
    "slots-floor-passes-a-held-slot": Fault(
        SQL,
        "    (select s.number from holdfast.slots s where s.number >= %(lowest)s::bigint",
        "    (select s.number from holdfast.slots s where false and s.number >= %(lowest)s::bigint",
    ),
    "at-once-beyond-the-limit": Fault(
        SQL, "else b.capacity end - coalesce(u.slots, 0)) as slots", "else b.capacity end) as slots"
    ),
    "at-once-past-those-who-wait": Fault(
        SQL,
        "                and (select true from holdfast.waiting c where c.bucket = w.name limit 1) is null\n",
        "",
    ),
    "at-once-unguarded": Fault(
        SQL,
        "        where hashtext(n.name) & 16383 = any (guarded)\n        group by n.name",
        "        group by n.name",
    ),
    "turn-served-unguarded": Fault(
        SQL, "case when o.paused or not o.guarded then 0 end", "case when o.paused then 0 end"
    ),
    "at-once-though-paused": Fault(
        SQL,
        "                and coalesce(b.paused_at, r.paused_at) is null\n                and coalesce(b.rate_count",
        "                and coalesce(b.rate_count",
    ),
    "at-once-though-rated": Fault(
        SQL,
        "                and coalesce(b.rate_count, r.rate_count) is null\n",
        "",
    ),
    "unguarded-lane-loses-its-turn": Fault(
        SQL,
        " or hashtext(h.bucket) & 16383 <> all (guarded))\n            order by",
        ")\n            order by",
    ),
    "queue-that-nobody-serves-holds-up": Fault(
        SQL, "where c.bucket = n.name and (live is null or c.queue = any (live))", "where c.bucket = n.name"
    ),
    "old-debt-by-the-new-rate": Fault(
        "store/limits.py", "        if now != before:\n", "        if False:\n"
    ),
    "running-read-for-each-lost": Fault(
        SQL,
        "then h.held = 1 end as alone",
        "then not exists (select from holdfast.running o where o.worker = f.worker and o.id <> f.id) end as alone",
    ),
    "last-page-ran-alone": Fault(SQL, "fetch first %(limit)s rows with ties\n", "limit %(limit)s\n"),
    "slots-hoarded": Fault("store/slots.py", "min(self._held[name], self._caps[place])", "self._held[name]"),
    "prefetch-beyond-slots": Fault("store/slots.py", "self._used[name] += 1", "pass"),
    "old-connection-frees-again": Fault(
        SQL,
        "where s.bucket = f.name and s.number >= lowest and s.worker = holder and s.epoch = of_epoch",
        "where s.bucket = f.name and s.worker = holder",
    ),
    "turn-never-offered-again": Fault(
        SQL, "holdfast.offer(array(select m.bucket from missing m), ", "holdfast.offer('{}', "
    ),
    "turn-not-held": Fault(
        SQL,
        "    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind\n    where t.bucket like 'lane%' and (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);\n",
        "    on conflict (bucket) do nothing\n",
    ),
    "offer-not-held": Fault(
        SQL,
        "    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind\n    where (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);\n",
        "    on conflict (bucket) do nothing;\n",
    ),
    "idle-blind-to-turns": Fault(
        "store/claimer.py", "self._at_once(limit, turns=True)", "self._at_once(limit)"
    ),
    "idle-asks-twice": Fault("store/claimer.py", "(not whole and self._clock()", "(self._clock()"),
    "look-blind-to-what-is-held": Fault(
        "store/pending.sql",
        "r order by r.id desc limit 1) is not null",
        "r order by r.id desc limit 1) is null and false",
    ),
    "look-blind-to-slots": Fault(
        "store/pending.sql",
        "order by s.number desc limit 1) is not null",
        "order by s.number desc limit 1) is null and false",
    ),
    "look-blind-to-doors": Fault(
        "store/pending.sql", "s where s.number = 9223372036854775807)", "s where false)"
    ),
    "look-blind-to-gates": Fault("store/pending.sql", "b where b.kind is not null)", "b where false)"),
    "look-blind-to-what-waits": Fault(
        "store/pending.sql",
        "w order by w.id desc limit 1) is not null",
        "w order by w.id desc limit 1) is null and false",
    ),
    "look-blind-to-what-is-over": Fault(
        "runtime/maintenance.py", '"expire": pending.over', '"expire": False'
    ),
    "lease-end-not-waited-for": Fault("runtime/maintenance.py", "min(WAKE_SECONDS, lost_in)", "WAKE_SECONDS"),
    "dear-look-taken-as-often": Fault(
        "runtime/maintenance.py", "max(LOOK_SECONDS, SHARE * (self._clock() - began))", "LOOK_SECONDS"
    ),
    "dear-question-asked-as-often": Fault(
        "runtime/maintenance.py", "asked = began >= self._ask_held_at", "asked = True"
    ),
    "oldest-of-any-kind": Fault("store/samples.py", "figures[3] = max((age", "figures[3] = min((age"),
    "counted-where-whole-reads-are-off": Fault(
        "store/samples.py", 'await conn.execute(self._sql["count_freely"])', "pass"
    ),
    "claim-reads-whole-tables": Fault(
        SQL,
        "set enable_seqscan = off\nset enable_bitmapscan = off\nset enable_memoize = off\n",
        "set enable_bitmapscan = off\nset enable_memoize = off\n",
    ),
    "claim-sorts-all-that-waits": Fault(
        SQL, "set enable_bitmapscan = off\nset enable_memoize = off\n", "set enable_memoize = off\n"
    ),
    "shunt-sorts-all-that-waits": Fault(
        SQL,
        "room integer) returns integer\nlanguage plpgsql\nset plan_cache_mode = force_generic_plan\nset enable_seqscan = off\nset enable_bitmapscan = off\n",
        "room integer) returns integer\nlanguage plpgsql\nset plan_cache_mode = force_generic_plan\nset enable_seqscan = off\n",
    ),
    "lost-worker-waited-for": Fault("runtime/maintenance.py", ' or (lost and chore == "look")', ""),
    "turn-of-any-kind": Fault(
        SQL,
        "        order by x.bucket, x.priority, x.position, x.id\n",
        "        order by x.bucket, x.kind\n",
    ),
    "turn-without-floor": Fault(
        "store/turns.py", "max(0, turn - SLACK_MICROSECONDS)", "min(0, turn - SLACK_MICROSECONDS)"
    ),
    "turns-without-end": Fault(
        SQL,
        "then clock + t.nth else greatest(t.turn, clock - 400000) end as turn",
        "then t.turn else t.turn end as turn",
    ),
    "weights-ignored": Fault(SQL, "coalesce(b.weight, r.weight, 1) as weight", "1::real as weight"),
    "lane-by-time": Fault(
        "store/pieces.sql",
        "coalesce(p.position, (extract(epoch from p.run_at) * 1000000)::bigint)",
        "coalesce(null::bigint, (extract(epoch from p.run_at) * 1000000)::bigint)",
    ),
    "lane-passes-the-first": Fault(
        SQL, "where t.bucket not like 'lane%' or not exists (", "where true or not exists ("
    ),
    "blocked-lane-goes-on": Fault(
        SQL,
        "and (e.mark is null or t.bucket like 'lane!:%' and e.mark in ('failed', 'paused'))",
        "and e.mark is null",
    ),
    "cancelled-head-keeps-the-lane": Fault(
        "store/operate.py",
        '        await conn.execute(self._sql["offer_beside"], {"ids": list(ids)})\n',
        "        del conn, ids\n",
    ),
    "pause-ignored-behind-keys": Fault(
        SQL, "filter (where b.kind is not null and b.paused_at is not null)", "filter (where false)"
    ),
    "empty-buckets-take-every-place": Fault(SQL, "where l.kind <> all (paused_kinds)\n", "where true\n"),
    "key-of-the-payload-ignored": Fault(
        "api/kinds.py", "    return bucket_of_payload(handler.kind, field, payload)\n", "    return None\n"
    ),
    "holders-not-named": Fault(
        "store/why.py", "    held = holders or {}\n", "    held: dict[str, int] = {}\n"
    ),
    "lane-head-not-named": Fault("store/why.py", "    if facts.lane is not None:\n", "    if False:\n"),
}
