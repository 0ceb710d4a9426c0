"""Faults in limits, turns, lanes and pauses; the others are in faults.py."""
# ruff: noqa: E501 (what is replaced must stand in one piece)

from tests.fault import Fault

SQL = "store/tasks.sql"
LIMITS = "store/limits.sql"

FLOW = {
    "claim-ignores-a-closed-kind": Fault(
        SQL,
        "    where p.bucket is null\n        and p.kind <> all ((select d.kinds from doors d)::text[])\n",
        "    where p.bucket is null\n",
    ),
    "claim-ignores-a-paused-queue": Fault(SQL, "            where q.paused_at is null\n", ""),
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
        "    delete from holdfast.slots s\n    where not exists (",
        "    delete from holdfast.slots s\n    where false and not exists (",
    ),
    "slots-kept-by-the-departed": Fault(
        SQL,
        "delete from holdfast.slots s where s.worker = %(worker)s::uuid returning s.bucket",
        "delete from holdfast.slots s where s.worker = %(worker)s::uuid and false returning s.bucket",
    ),
    "limit-change-unheard": Fault(
        "store/limits.py",
        '        await conn.execute(self._tasks["offer"], {"names": [full]})\n        self._listen(LimitChanged(full, self._by, cleared=False))\n',
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
    "prefetch-beyond-slots": Fault("store/slots.py", "self._used.update(claim.limits)", "pass"),
    "old-connection-frees-again": Fault(
        SQL, "and c.epoch = of_epoch and c.slots <= f.slots", "and c.slots <= f.slots"
    ),
    "turn-never-offered-again": Fault(
        SQL, "holdfast.offer(array(select m.bucket from missing m))", "holdfast.offer('{}')"
    ),
    "turn-not-held": Fault(
        SQL,
        "    group by w.bucket\n    order by w.bucket\n    -- A turn that is there is held until this commits: whoever served it before could not see these tasks.\n    on conflict (bucket) do update set turn = excluded.turn where false\n",
        "    group by w.bucket\n    order by w.bucket\n    on conflict (bucket) do nothing\n",
    ),
    "offer-not-held": Fault(
        SQL,
        "    -- One that is there is held until the caller commits, and so is looked at after that.\n    on conflict (bucket) do update set turn = excluded.turn where false\n",
        "    on conflict (bucket) do nothing\n",
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
        SQL,
        "coalesce(p.position, (extract(epoch from p.run_at) * 1000000)::bigint)",
        "coalesce(null::bigint, (extract(epoch from p.run_at) * 1000000)::bigint)",
    ),
    "lane-passes-the-first": Fault(
        SQL, "and (t.bucket not like 'lane%' or not exists (", "and (true or not exists ("
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
        "api/kinds.py", "    return bucket_of_key(handler.kind, field, value)\n", "    return None\n"
    ),
    "holders-not-named": Fault(
        "store/browse.py", "    held = holders or {}\n", "    held: dict[str, int] = {}\n"
    ),
    "lane-head-not-named": Fault("store/browse.py", "        if lane is not None:\n", "        if False:\n"),
}
