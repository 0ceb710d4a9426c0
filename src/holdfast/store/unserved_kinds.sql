-- Kinds that not every live worker serves: moves their tasks to `waiting`, and fails them in the end.


-- name: gate_kind
-- Not every worker knows this kind: its tasks step behind a bucket, where only those who do look.
insert into holdfast.buckets as b (name, kind)
values ('kind:' || %(kind)s::text, %(kind)s)
on conflict (name) do nothing;


-- name: tend_gates
-- Marks the gates of kinds that no live worker serves, and opens those that every live worker passes.
-- Whatever still stands aside then is served from there.
with recursive waiting_kinds as (
    -- Each kind once, by as many probes of the index as there are kinds.
    (select w.kind from holdfast.blocked w order by w.kind limit 1)
    union all
    select (select w.kind from holdfast.blocked w where w.kind > k.kind order by w.kind limit 1)
    from waiting_kinds k
    where k.kind is not null
), live as materialized (
    select w.kinds from holdfast.workers w where w.lost_at is null and w.lease_expires_at > now()
), made as (
    -- Behind a limit nobody meets a task whose kind is not served, so nobody puts a gate before it.
    insert into holdfast.buckets as b (name, kind, unserved_at)
    select 'kind:' || k.kind, k.kind, now()
    from waiting_kinds k
    where k.kind is not null
        and not exists (select from live l where k.kind = any (l.kinds))
        and not exists (select from holdfast.buckets g where g.kind = k.kind)
    order by 1
    on conflict (name) do nothing
    returning b.kind
), gates as materialized (
    select
        b.name, b.unserved_at,
        b.paused_at is null and b.capacity is null and b.rate_count is null and coalesce(b.resumed_at < now() - interval '10 s', true) as idle,
        exists (select from live l where b.kind = any (l.kinds)) as served,
        exists (select from live l where b.kind <> all (l.kinds)) as unknown_to_some
    from holdfast.buckets b
    where b.kind is not null
), parked as (
    update holdfast.buckets b
    set unserved_at = now()
    from gates g
    where b.name = g.name and not g.served and b.unserved_at is null
    returning b.kind
), returned as (
    update holdfast.buckets b
    set unserved_at = null
    from gates g
    where b.name = g.name and g.served and b.unserved_at is not null
    returning b.kind
), opened as (
    delete from holdfast.buckets b
    using gates g
    where b.name = g.name and g.idle and g.served and not g.unknown_to_some and g.unserved_at is null
        and b.paused_at is null and b.capacity is null and b.rate_count is null
)
select p.kind, 'parked' from parked p
union all
select m.kind, 'parked' from made m
union all
select r.kind, 'returned' from returned r
union all
select b.kind, 'waits'
from gates g
join holdfast.buckets b on b.name = g.name
where g.unserved_at is not null and not g.served;


-- name: restart_gates
-- Whoever takes over the chores has not seen how long a kind was without a worker: its grace begins anew.
update holdfast.buckets b
set unserved_at = now()
where b.unserved_at is not null
returning b.kind;


-- name: unroute
-- Tasks that waited longer than the grace for a worker that knows their kind fail for good.
with stepped_out as (
    delete from holdfast.blocked w
    where w.ctid = any (array(
        select c.ctid
        from holdfast.buckets b
        join holdfast.blocked c on c.kind = b.kind
        where b.kind is not null and b.unserved_at <= now() - make_interval(secs => %(grace)s::double precision)
            -- While nobody is there at all, nobody is missing.
            and exists (select from holdfast.workers l where l.lost_at is null and l.lease_expires_at > now())
        limit %(limit)s
        for update of c skip locked
    ))
    returning w.id
), changed as (
    update holdfast.tasks t
    set mark = 'failed', marked_at = now(), failed_at = now(), dead_reason = 'non_retryable',
        failure_class = 'unroutable', error_code = 'TASK_PAYLOAD_UNSUPPORTED',
        error_message = 'no worker has a handler for the kind ' || t.kind, error_stack = null,
        -- The group of core/fingerprint.py for this code; 'unroutable' stands for where it came from.
        fingerprint = left(encode(sha256(convert_to(concat_ws(chr(31), t.kind, 'TASK_PAYLOAD_UNSUPPORTED', 'unroutable'), 'UTF8')), 'hex'), 16)
    from stepped_out s
    where t.id = s.id and t.mark is null
    returning t.id, t.kind, t.fingerprint, t.error_message
), causes as (
    insert into holdfast.failure_groups (fingerprint, kind, failure_class, error_code, message, first_seen_at)
    select distinct on (c.fingerprint) c.fingerprint, c.kind, 'unroutable', 'TASK_PAYLOAD_UNSUPPORTED', c.error_message, now()
    from changed c
    order by c.fingerprint
    on conflict do nothing
), met as (
    insert into holdfast.failure_deltas (failed_at, failures, fingerprint)
    select now(), count(*), c.fingerprint from changed c group by c.fingerprint
), counted as (
    insert into holdfast.settled_deltas (settled_at, tasks, run_seconds, kind, ended_as)
    select now(), count(*), 0, c.kind, 'fail' from changed c group by c.kind
)
select c.id::text from changed c;
