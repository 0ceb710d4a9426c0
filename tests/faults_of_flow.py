"""Faults in limits, turns, lanes and pauses; the others are in faults.py."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

FLOW = {
    "claim-ignores-a-closed-kind": Fault(
        "install_claim",
        "p.kind = any ((select d.kinds from doors d)::text[])\n                or p.queue",
        "p.queue",
    ),
    "claim-ignores-a-paused-queue": Fault("install_claim", "                where q.paused_at is null\n", ""),
    "door-left-open": Fault(
        "install_claim_blocked",
        "least(\n                    coalesce(b.capacity, 1000000) - coalesce(used.permits, 0),",
        "least(\n                    1000000,",
    ),
    "permits-not-counted": Fault(
        "install_claim_blocked",
        "select sum(s.permits)::integer as permits from holdfast.permits s where s.bucket = b.name",
        "select sum(s.permits)::integer as permits from holdfast.permits s where s.bucket = b.name and s.worker = holder",
    ),
    "permit-not-returned": Fault(
        "lose_workers",
        "where s.worker in (select l.id from lost l)\n        or not exists (select",
        "where false and not exists (select",
    ),
    "permits-kept-by-the-departed": Fault(
        "retire_worker",
        "delete from holdfast.permits s where s.worker = %(worker)s::uuid returning s.bucket",
        "delete from holdfast.permits s where s.worker = %(worker)s::uuid and false returning s.bucket",
    ),
    "limit-change-unheard": Fault(
        "Limits.set",
        '            await conn.execute(self._tasks["enlist"], {"names": [full]})\n            await self._note(conn, Action.LIMIT_SET, values)\n',
        "",
    ),
    "burst-unbounded": Fault(
        "install_claim_blocked",
        "set spent_until = greatest(r.spent_until, moment) + (excluded.spent_until - moment)",
        "set spent_until = r.spent_until + (excluded.spent_until - moment)",
    ),
    "rate-not-spent": Fault(
        "install_claim_blocked",
        "union all select 'kind:' || u.kind, 'kind:' || u.kind where 'kind:' || u.kind = any (rated_doors)",
        "union all select 'kind:' || u.kind, 'kind:' || u.kind where false",
    ),
    "rate-of-a-key-forgotten": Fault(
        "install_claim_blocked",
        "case when h.rated then greatest(h.turn, (",
        "case when false then greatest(h.turn, (",
    ),
    "default-overrides": Fault(
        "set_default", "where b.set_by is null or b.set_by = 'default';", "where true;"
    ),
    "code-overrules-people": Fault(
        "set_limit",
        "where %(by)s <> 'code' or b.set_by is null or b.set_by in ('code', 'default');",
        "where %(by)s <> '';",
    ),
    "at-once-beyond-the-limit": Fault(
        "install_lease_at_once",
        "else b.capacity end - coalesce(u.permits, 0)) as permits",
        "else b.capacity end) as permits",
    ),
    "at-once-past-those-who-wait": Fault(
        "install_lease_at_once",
        "                and (select true from holdfast.blocked c where c.bucket = w.name limit 1) is null\n",
        "",
    ),
    "at-once-unguarded": Fault(
        "install_lease_at_once",
        "        where hashtext(n.name) & 16383 = any (locked)\n        group by n.name",
        "        group by n.name",
    ),
    "turn-served-unguarded": Fault(
        "install_claim_blocked",
        "case when o.paused or not o.locked then 0 end",
        "case when o.paused then 0 end",
    ),
    "at-once-though-paused": Fault(
        "install_lease_at_once",
        "                and coalesce(b.paused_at, r.paused_at) is null\n                and coalesce(b.rate_count",
        "                and coalesce(b.rate_count",
    ),
    "at-once-though-rated": Fault(
        "install_lease_at_once",
        "                and coalesce(b.rate_count, r.rate_count) is null\n",
        "",
    ),
    "unguarded-lane-loses-its-turn": Fault(
        "install_claim_blocked",
        " or hashtext(h.bucket) & 16383 <> all (locked))\n            order by",
        ")\n            order by",
    ),
    "queue-that-nobody-serves-holds-up": Fault(
        "install_enlist",
        "where c.bucket = n.name and (live is null or c.queue = any (live))",
        "where c.bucket = n.name",
    ),
    "old-debt-by-the-new-rate": Fault(
        "Limits._rescale", "        if now != before:\n", "        if False:\n"
    ),
    "running-read-for-each-lost": Fault(
        "lapsed",
        "then h.held = 1 end as sole",
        "then not exists (select from holdfast.running o where o.worker = f.worker and o.id <> f.id) end as sole",
    ),
    "last-page-ran-alone": Fault("lapsed", "fetch first %(limit)s rows with ties\n", "limit %(limit)s\n"),
    "permits-hoarded": Fault(
        "HeldPermits._surplus", "min(self._held[name], self._caps[place])", "self._held[name]"
    ),
    "prefetch-beyond-permits": Fault("HeldPermits._move_up", "self._used[name] += 1", "pass"),
    "old-connection-frees-again": Fault(
        "install_free_permits",
        "where s.bucket = f.name and s.worker = holder and s.generation = of_generation",
        "where s.bucket = f.name and s.worker = holder",
    ),
    "turn-never-offered-again": Fault(
        "relist", "holdfast.enlist(array(select m.bucket from missing m), ", "holdfast.enlist('{}', "
    ),
    "turn-not-held": Fault(
        "install_enlist_heads",
        "    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind\n    where t.bucket like 'lane%' and (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);\n",
        "    on conflict (bucket) do nothing\n",
    ),
    "enlisting-not-held": Fault(
        "install_enlist",
        "    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind\n    where (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);\n",
        "    on conflict (bucket) do nothing;\n",
    ),
    "idle-blind-to-turns": Fault("Claimer._everything", "at_once=limit, line=True", "at_once=limit"),
    "idle-asks-twice": Fault("Claimer._look", "(not whole and self._clock()", "(self._clock()"),
    "look-blind-to-what-is-held": Fault(
        "pending",
        "r order by r.id desc limit 1) is not null",
        "r order by r.id desc limit 1) is null and false",
    ),
    "migration-lets-leased-permits-go": Fault(
        "0011_words.down.sql", "bigint not null default 9223372036854775807", "bigint not null default 0"
    ),
    "down-leaves-functions-behind": Fault(
        "0011_words.down.sql", "        execute 'drop function ' || signature;\n", "        null;\n"
    ),
    "permits-read-whole": Fault("install_free_permits", "set enable_seqscan = off\n", ""),
    "permits-updated-in-an-index": Fault(
        "0011_words.up.sql",
        "add primary key (bucket, worker);",
        "add primary key (bucket, worker); create index on holdfast.permits (permits);",
    ),
    "look-blind-to-permits": Fault("pending", "holdfast.permits s)", "holdfast.permits s where false)"),
    "look-blind-to-unserved-kinds": Fault("pending", "b where b.kind is not null)", "b where false)"),
    "look-blind-to-what-waits": Fault(
        "pending",
        "w order by w.id desc limit 1) is not null",
        "w order by w.id desc limit 1) is null and false",
    ),
    "look-blind-to-what-is-over": Fault("Maintenance._wake", '"expire": pending.over', '"expire": False'),
    "lease-end-not-waited-for": Fault("Maintenance._wake", "min(WAKE_SECONDS, lost_in)", "WAKE_SECONDS"),
    "dear-look-taken-as-often": Fault(
        "Maintenance._look", "max(LOOK_SECONDS, SHARE * (self._clock() - began))", "LOOK_SECONDS"
    ),
    "dear-question-asked-as-often": Fault(
        "Maintenance._wake", "asked = began >= self._ask_held_at", "asked = True"
    ),
    "oldest-of-any-kind": Fault("counts._by_queue", "figures[3] = max((age", "figures[3] = min((age"),
    "counted-where-whole-reads-are-off": Fault(
        "Samples._take", 'await conn.execute(self._sql["count_freely"])', "pass"
    ),
    "claim-reads-whole-tables": Fault(
        "install_claim",
        "set enable_seqscan = off\nset enable_bitmapscan = off\nset enable_memoize = off\n",
        "set enable_bitmapscan = off\nset enable_memoize = off\n",
    ),
    "claim-sorts-all-that-waits": Fault(
        "install_claim",
        "set enable_bitmapscan = off\nset enable_memoize = off\n",
        "set enable_memoize = off\n",
    ),
    "block-heads-sorts-all-that-waits": Fault(
        "install_block_heads",
        ") returns integer\nlanguage plpgsql\nset plan_cache_mode = force_generic_plan\nset enable_seqscan = off\nset enable_bitmapscan = off\n",
        ") returns integer\nlanguage plpgsql\nset plan_cache_mode = force_generic_plan\nset enable_seqscan = off\n",
    ),
    "lost-worker-waited-for": Fault("Maintenance._wake", ' or (lost and chore == "look")', ""),
    "turn-of-any-kind": Fault(
        "install_enlist_heads",
        "        order by x.bucket, x.priority, x.position, x.id\n",
        "        order by x.bucket, x.kind\n",
    ),
    "turn-without-floor": Fault(
        "Turns.learn", "max(0, turn - SLACK_MICROSECONDS)", "min(0, turn - SLACK_MICROSECONDS)"
    ),
    "turns-without-end": Fault(
        "install_claim_blocked",
        "then clock + t.nth else greatest(t.turn, clock - 400000) end as turn",
        "then t.turn else t.turn end as turn",
    ),
    "weights-ignored": Fault(
        "install_claim_blocked", "coalesce(b.weight, r.weight, 1) as weight", "1::real as weight"
    ),
    "lane-by-time": Fault(
        "as_blocked",
        "coalesce(p.position, (extract(epoch from p.run_at) * 1000000)::bigint)",
        "coalesce(null::bigint, (extract(epoch from p.run_at) * 1000000)::bigint)",
    ),
    "lane-passes-the-first": Fault(
        "install_claim_blocked",
        "where t.bucket not like 'lane%' or not exists (",
        "where true or not exists (",
    ),
    "blocked-lane-goes-on": Fault(
        "install_claim_blocked",
        "and (e.mark is null or t.bucket like 'lane!:%' and e.mark in ('failed', 'paused'))",
        "and e.mark is null",
    ),
    "cancelled-head-keeps-the-lane": Fault(
        "Operator._let_pass",
        '        await conn.execute(self._sql["enlist_beside"], {"ids": list(ids)})\n',
        "        del conn, ids\n",
    ),
    "pause-ignored-behind-keys": Fault(
        "install_claim_blocked",
        "filter (where b.kind is not null and b.paused_at is not null)",
        "filter (where false)",
    ),
    "empty-buckets-take-every-place": Fault(
        "install_claim_blocked", "where l.kind <> all (paused_kinds)\n", "where true\n"
    ),
    "key-of-the-payload-ignored": Fault(
        "kinds._bucket",
        "    return bucket_of_payload(handler.kind, field, payload)\n",
        "    return None\n",
    ),
    "holders-not-named": Fault("why._full", "    held = holders or {}\n", "    held: dict[str, int] = {}\n"),
    "lane-head-not-named": Fault("why._behind", "    if facts.lane is not None:\n", "    if False:\n"),
}
