-- The order in which buckets are served: one row of `line` for each bucket with blocked tasks.


-- name: install_enlist
-- Gives a turn to those of these buckets that have tasks and no turn yet, in the name of the first task, or of the
-- first in a queue that is served. Waits for whoever is serving one of them just now, because that one may have found it full.
create or replace function holdfast.enlist(names text[], live text[] default null) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    {reads_committed}
    insert into holdfast.line as t (turn, bucket, queue, kind)
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint, n.name, w.queue, w.kind
    from (select distinct u.name from unnest(names) as u (name) where left(u.name, 6) <> 'after:') n
    cross join lateral (
        select c.queue, c.kind from holdfast.blocked c
        where c.bucket = n.name and (live is null or c.queue = any (live))
        order by c.priority, c.position, c.id
        limit 1
    ) w
    order by n.name
    -- One that is there is held until the caller commits, and so is looked at after that.
    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind
    where (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);
end
$$;


-- name: install_enlist_heads
-- Gives a turn to the buckets of tasks that have just stepped aside.
create or replace function holdfast.enlist_heads(
    buckets text[], priorities smallint[], positions bigint[], ids uuid[], queues text[], kinds text[]
) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
begin
    insert into holdfast.line as t (turn, bucket, queue, kind)
    select (extract(epoch from clock_timestamp()) * 1000000)::bigint, h.bucket, h.queue, h.kind
    from (
        -- In a lane there may be several kinds: the turn is that of the first task's, of these and of those that wait already.
        select distinct on (x.bucket) x.bucket, x.queue, x.kind
        from (
            select w.bucket, w.priority, w.position, w.id, w.queue, w.kind
            from unnest(buckets, priorities, positions, ids, queues, kinds) as w (bucket, priority, position, id, queue, kind)
            where left(w.bucket, 6) <> 'after:'
            union all
            select b.bucket, o.priority, o.position, o.id, o.queue, o.kind
            from (select distinct u.bucket from unnest(buckets) as u (bucket) where left(u.bucket, 4) = 'lane') b
            cross join lateral (
                select c.priority, c.position, c.id, c.queue, c.kind from holdfast.blocked c
                where c.bucket = b.bucket
                order by c.priority, c.position, c.id
                limit 1
            ) o
        ) x
        order by x.bucket, x.priority, x.position, x.id
    ) h
    order by h.bucket
    -- A turn that is there is held until this commits: whoever served it before could not see these tasks.
    on conflict (bucket) do update set queue = excluded.queue, kind = excluded.kind
    where t.bucket like 'lane%' and (t.queue, t.kind) is distinct from (excluded.queue, excluded.kind);
end
$$;


-- name: install_has_turn
-- Whether a bucket's turn has come, in one of these queues and of one of these kinds.
create or replace function holdfast.has_turn(queues text[], kinds text[]) returns boolean
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
begin
    return exists (
        select from holdfast.line t
        where t.queue = any (queues) and t.kind = any (kinds) and t.turn <= (extract(epoch from clock_timestamp()) * 1000000)::bigint
    );
end
$$;


-- name: enlist
-- Called after a limit was raised or tasks were put behind buckets: a bucket that was full has given up its turn.
select holdfast.enlist(%(names)s::text[]);


-- name: enlist_beside
-- Tasks left their buckets otherwise than by running: the next one of a lane may be at the head now, and those behind
-- may have waited for a claim to meet these in ready.
select holdfast.enlist(array(
    select t.bucket from holdfast.tasks t where t.id = any (%(ids)s::uuid[]) and t.bucket is not null
));


-- name: relist
-- Gives a turn to buckets that have none, page by page: whoever should have given it may have died. Or the first
-- task is in a queue that nobody serves, and holds up those in others.
with recursive live as materialized (
    select nullif(array(
        select distinct u.queue from holdfast.workers w cross join unnest(w.queues) as u (queue)
        where w.lost_at is null and w.lease_expires_at > now()
            and not exists (select from holdfast.queues q where q.name = u.queue and q.paused_at is not null)
    ), '{}') as queues
), places as (
    (select w.bucket, 1 as nth from holdfast.blocked w where w.bucket > %(after)s and left(w.bucket, 6) <> 'after:' order by w.bucket limit 1)
    union all
    select (select w.bucket from holdfast.blocked w where w.bucket > p.bucket and left(w.bucket, 6) <> 'after:' order by w.bucket limit 1), p.nth + 1
    from places p
    where p.bucket is not null and p.nth < %(limit)s
), missing as materialized (
    select p.bucket from places p
    cross join lateral (
        select w.queue, w.kind from holdfast.blocked w
        where w.bucket = p.bucket and ((select l.queues from live l) is null or w.queue = any ((select l.queues from live l)::text[]))
        order by w.priority, w.position, w.id
        limit 1
    ) h
    where p.bucket is not null and not exists (
        -- Nor one in the name of a task that is not the first any more.
        select from holdfast.line t where t.bucket = p.bucket and t.queue = h.queue and t.kind = h.kind
    )
)
select
    (select count(*) from missing),
    (select max(p.bucket) from places p where (select count(*) from places) >= %(limit)s),
    holdfast.enlist(array(select m.bucket from missing m), (select l.queues from live l));
