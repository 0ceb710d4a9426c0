-- Kinds that no live worker serves: marks them, and fails their tasks after a grace period.


-- name: mark_unserved
-- Marks kinds that no live worker serves, so that their tasks are blocked and people are told, and unmarks those that one does.
with recursive blocked_kinds as (
    -- Each kind once, by as many probes of the index as there are kinds.
    (select w.kind from holdfast.blocked w order by w.kind limit 1)
    union all
    select (select w.kind from holdfast.blocked w where w.kind > k.kind order by w.kind limit 1)
    from blocked_kinds k
    where k.kind is not null
), live as materialized (
    select w.kinds from holdfast.workers w where w.lost_at is null and w.lease_expires_at > now()
), made as (
    insert into holdfast.buckets as b (name, kind, unserved_at)
    select 'kind:' || k.kind, k.kind, now()
    from blocked_kinds k
    where k.kind is not null
        and not exists (select from live l where k.kind = any (l.kinds))
        and not exists (select from holdfast.buckets g where g.kind = k.kind)
    order by 1
    on conflict (name) do nothing
    returning b.kind
), found as materialized (
    select
        b.name, b.unserved_at, b.resumed_at,
        b.set_by is null and b.paused_at is null and b.capacity is null and b.rate_count is null
            and coalesce(b.resumed_at < now() - interval '10 s', true) as bare,
        exists (select from live l where b.kind = any (l.kinds)) as served
    from holdfast.buckets b
    where b.kind is not null
), marked as (
    update holdfast.buckets b
    set unserved_at = now()
    from found f
    where b.name = f.name and not f.served and b.unserved_at is null
    returning b.kind
), unmarked as (
    update holdfast.buckets b
    set unserved_at = null
    from found f
    where b.name = f.name and f.served and not f.bare and b.unserved_at is not null
    returning b.kind
), deleted as (
    -- The row said nothing else. It may have been given a limit or a pause meanwhile.
    delete from holdfast.buckets b
    using found f
    where b.name = f.name and f.served and f.bare
        and b.set_by is null and b.paused_at is null and b.capacity is null and b.rate_count is null
        and b.resumed_at is not distinct from f.resumed_at
    returning b.kind, f.unserved_at
)
select m.kind, 'unserved' from (select kind from marked union all select kind from made) m
union all
select u.kind, 'served' from (select kind from unmarked union all select kind from deleted where unserved_at is not null) u
union all
select b.kind, 'still unserved'
from found f
join holdfast.buckets b on b.name = f.name
where f.unserved_at is not null and not f.served;


-- name: restart_graces
-- A supervisor that takes over maintenance has not seen how long a kind was unserved: its grace period begins anew.
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
