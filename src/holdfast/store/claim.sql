-- Moves tasks from `ready` to `running`, or to `blocked` where a limit or a pause holds them back.


-- shared: heads_enlisted
        select count(*)::integer as tasks, case when count(*) > 0 then holdfast.enlist_heads(
            array_agg(w.bucket), array_agg(w.priority), array_agg(w.position), array_agg(w.id), array_agg(w.queue), array_agg(w.kind)
        ) end
        from waits w


-- name: install_claim
-- Takes up to `room` tasks out of ready, range by range in the order given (one range per queue and
-- priority, from its floor), under one new fence. Tasks that stand behind a bucket go to `blocked`
-- instead, except for those that may start at once. So do tasks of kinds that are not among `served`
-- (null stands for all kinds), where only workers that serve them look. The first row has no task but
-- `about`: the oldest number that the snapshot could not see, this claim's own number where it took
-- something, when it began, how many tasks it blocked, the kinds that it met and does not serve, the
-- queues that it left out because they are paused, and, for those who ask, whether a bucket's turn has come.
--
-- A function, so that its plan is made once a connection and follows the index whatever the statistics say: where they
-- called `ready` empty, each claim sorted all that had come since, on disk (400,000: 330 ms instead of 0.3). But one
-- statement, hence one snapshot: a floor may not pass what a second one would have shown.
create or replace function holdfast.claim(
    queues text[],
    priorities smallint[],
    froms timestamptz[],
    tos timestamptz[],
    room integer,
    served text[],
    holder uuid,
    of_generation integer,
    at_once integer,
    timeout double precision,
    with_line boolean
) returns table (
    id text, fence bigint, kind text, queue text, priority smallint, payload text, version smallint, run_at timestamptz,
    enqueued_at timestamptz, expires_at timestamptz, subject text, trace_id text, key text, bucket text,
    max_attempts smallint, timeout_seconds real, attempts integer, failures smallint, crashes smallint, polls integer,
    rate_limits smallint, isolate boolean, polled double precision[], about jsonb
)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_memoize = off
set jit = off
as $$
#variable_conflict use_column
begin
    {reads_committed}
    return query
    with token as materialized (
        select nextval('holdfast.fence') as fence
    ), picked as (
        delete from holdfast.ready r
        where r.ctid = any (array(
            select x.place
            from (
                select l.queue, l.priority, l.run_from, l.run_to,
                    -- A queue that was resumed is taken up in ten seconds, not in one rush.
                    greatest(1, room * least(1, extract(epoch from now() - q.resumed_at) / 10))::integer as most
                from unnest(queues, priorities, froms, tos) as l (queue, priority, run_from, run_to)
                -- Looked up range by range: a join would be free to give the ranges in any order.
                left join lateral (select c.paused_at, c.resumed_at from holdfast.queues c where c.name = l.queue offset 0) q on true
                where q.paused_at is null
            ) l
            cross join lateral (
                select c.ctid as place
                from holdfast.ready c
                where c.queue = l.queue
                    and c.priority = l.priority
                    and c.run_at >= l.run_from
                    and c.run_at <= least(l.run_to, now())
                order by c.run_at, c.id
                limit l.most
                for update skip locked
            ) x
            limit room
        ))
        returning r.id, r.run_at, r.timeout_seconds, r.priority, r.queue, r.kind, r.bucket, r.position
    ), doors as (
        -- Kinds and queues that are limited, paused or not known to all: usually none.
        select
            array(select b.kind from holdfast.buckets b where b.kind is not null) as kinds,
            array(select b.queue from holdfast.buckets b where b.queue is not null) as queues
    ), unknown as materialized (
        -- Each kind is compared once: a worker may serve thousands.
        select array(select k.kind from (select distinct p.kind from picked p offset 0) k where k.kind <> all (served)) as kinds
    ), seen as (
        select
            p.*,
            p.kind = any ((select d.kinds from doors d)::text[])
                or p.queue = any ((select d.queues from doors d)::text[])
                or p.kind = any ((select u.kinds from unknown u)::text[]) as shut
        from picked p
    ), placed as (
        -- Before a door, or behind a bucket alone, in its order there: usually none, and the others skip all this.
        select s.*, row_number() over (partition by s.bucket, s.shut order by s.priority, s.run_at, s.id) as nth
        from seen s
        where s.shut or s.bucket is not null
    ), leased as (
        select l.name, l.permits
        from holdfast.lease_at_once(
            (
                select array_agg(p.bucket order by p.priority, p.run_at, p.id) from placed p
                where p.position is null and not p.shut and p.kind = any (served)
            ),
            holder, of_generation, at_once
        ) l
    ), waits as (
        insert into holdfast.blocked (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_blocked}
        from placed p
        left join leased l on l.name = p.bucket
        where p.shut or p.nth > coalesce(l.permits, 0)
        returning bucket, priority, position, id, queue, kind
    ), enlisted as materialized (
        {heads_enlisted}
    ), started as (
        insert into holdfast.running (id, fence, started_at, deadline_at, worker)
        select
            p.id, (select k.fence from token k), now(),
            now() + make_interval(secs => coalesce(p.timeout_seconds, timeout)),
            holder
        from (
            select s.id, s.timeout_seconds from seen s where not s.shut and s.bucket is null
            union all
            select p.id, p.timeout_seconds from placed p join leased l on l.name = p.bucket where not p.shut and p.nth <= l.permits
        ) p
        returning id, fence
    )
    select
        null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
        null, null,
        jsonb_build_object(
            'xmin', pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
            'number', case when exists (select from picked) then pg_current_xact_id()::text::bigint end,
            'at', now(),
            'blocked', (select e.tasks from enlisted e),
            'unknown', (select u.kinds from unknown u),
            'paused', array(
                select q.name from holdfast.queues q
                where (q.paused_at is not null or q.resumed_at is not null) and q.name = any (queues)
            ),
            'due', case when with_line then holdfast.has_turn(queues, served) end
        )
    union all
    select
        t.id::text, s.fence, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
        t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, t.bucket, t.max_attempts, t.timeout_seconds,
        t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.isolate,
        case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end,
        null
    from started s
    cross join lateral (
        select c.* from holdfast.tasks c where c.id = s.id offset 0
    ) t;
end
$$;


-- name: claim
-- A thin call: the function keeps its plans, and one round trip does the whole claim.
select * from holdfast.claim(
    %(queues)s::text[], %(priorities)s::smallint[], %(froms)s::timestamptz[], %(tos)s::timestamptz[], %(limit)s::integer,
    %(kinds)s::text[], %(worker)s::uuid, %(generation)s::integer, %(at_once)s::integer, %(timeout)s::double precision, %(line)s::boolean
);


-- name: install_block_heads
-- Moves tasks that a claim would block out of the head of ready, many at a time, once a claim has met
-- nothing else: a million of them must not cost a million claims.
create or replace function holdfast.block_heads(
    queues text[], priorities smallint[], froms timestamptz[], room integer, served text[]
) returns integer
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    moved integer;
begin
    {reads_committed}
    with heads as materialized (
        select x.place, x.kind, x.bucket, l.queue
        from unnest(queues, priorities, froms) as l (queue, priority, run_from)
        cross join lateral (
            select c.ctid as place, c.kind, c.bucket
            from holdfast.ready c
            where c.queue = l.queue and c.priority = l.priority and c.run_at >= l.run_from and c.run_at <= now()
            order by c.run_at, c.id
            limit room
        ) x
        limit room
    ), unknown as materialized (
        select array(select k.kind from (select distinct h.kind from heads h offset 0) k where k.kind <> all (served)) as kinds
    ), picked as (
        -- Only what is moved is locked: a claim that met a lock on the others would pass them over.
        delete from holdfast.ready r
        where r.ctid = any (array(
            select c.ctid
            from holdfast.ready c
            where c.ctid = any (array(
                    select h.place from heads h
                    where h.bucket is not null
                        or exists (select from holdfast.buckets b where b.kind = h.kind)
                        or exists (select from holdfast.buckets b where b.queue = h.queue)
                        or h.kind = any ((select u.kinds from unknown u)::text[])
                ))
            for update skip locked
        ))
        returning r.id, r.run_at, r.timeout_seconds, r.priority, r.queue, r.kind, r.bucket, r.position
    ), waits as (
        insert into holdfast.blocked (position, id, timeout_seconds, priority, bucket, queue, kind)
        select
            {as_blocked}
        from picked p
        returning bucket, priority, position, id, queue, kind
    ), enlisted as materialized (
        {heads_enlisted}
    )
    select e.tasks into moved from enlisted e;
    return moved;
end
$$;


-- name: block_heads
-- Apart from `claim`, so that moving many tasks does not make a claim take long.
select holdfast.block_heads(%(queues)s::text[], %(priorities)s::smallint[], %(froms)s::timestamptz[], %(limit)s::integer, %(kinds)s::text[]);


-- name: take_sweep
-- One worker at a time walks below the floor of a queue; the winner sets when the next may.
insert into holdfast.sweeps as w (queue, due_at)
select u.queue, clock_timestamp() + make_interval(secs => %(every)s::double precision)
from unnest(%(queues)s::text[]) as u (queue)
order by u.queue
on conflict (queue) do update
set due_at = excluded.due_at
where w.due_at <= clock_timestamp()
returning w.queue;
