-- Moves tasks from `blocked` to `running`, with the permits that they need.


-- name: install_claim_blocked
-- Takes tasks from behind buckets, and leases to the worker the permits that they need.
--
-- A turn is the place of a bucket in line: whoever deletes its row of `line` serves it, so two never do
-- at once; and holds its lock, because `lease_at_once` asks for no turn. Turns are read by queue and kind from a floor, so that what stands behind a shut door costs
-- nothing. A door (the limit of a kind or of a queue) is locked for the length of this call, or passed over.
-- Buckets are served in turn, each as many tasks as its weight says before the next; then it goes to the end of the line.
--
-- The first row carries no task: its payload tells the permits that were leased, the buckets where more tasks
-- wait that may be claimed ahead, and the oldest turn that was met in each queue and kind.
create or replace function holdfast.claim_blocked(
    queues text[],
    kinds text[],
    floors bigint[],
    served text[],
    known text[],
    holder uuid,
    of_generation integer,
    room integer,
    timeout double precision,
    places text[],
    ahead integer[],
    floor_priorities smallint[],
    floor_positions bigint[],
    freed text[],
    counts integer[]
) returns table (
    id text, fence bigint, kind text, queue text, priority smallint, payload text, version smallint, run_at timestamptz,
    enqueued_at timestamptz, expires_at timestamptz, subject text, trace_id text, key text, bucket text,
    max_attempts smallint, timeout_seconds real, attempts integer, failures smallint, crashes smallint, polls integer,
    rate_limits smallint, isolate boolean, polled double precision[], claimed_at timestamptz, limits text[], rated boolean
)
language plpgsql
-- Planned once a connection: planning anew took ten times as long as running. And in the order of the index:
-- with a bitmap and a sort every task of a bucket would be read for the first few.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
#variable_conflict use_column
declare
    moment timestamptz := clock_timestamp();
    clock bigint := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
    paused_kinds text[];
    paused_queues text[];
    -- Limited doors that this call may lease from, with the room behind each.
    doors text[] := '{}';
    rooms integer[] := '{}';
    -- All limited doors, by kind and by queue, and whether their limit is of the kind that is leased.
    limited_kinds text[] := '{}';
    limited_queues text[] := '{}';
    leased_doors text[] := '{}';
    rated_doors text[] := '{}';
    -- The buckets whose turn it is.
    turned text[];
    turns_of bigint[];
    locked integer[];
    capacities integer[];
    weights real[];
    takes integer[];
    rated boolean[];
    -- What is started: one element a task.
    ids uuid[] := '{}';
    of_buckets text[] := '{}';
    of_kinds text[] := '{}';
    of_queues text[] := '{}';
    of_timeouts real[] := '{}';
    of_owns boolean[] := '{}';
    of_rates boolean[] := '{}';
    first_ids integer := 0;
    workers integer := 1;
    quantum integer;
    token bigint;
    leases jsonb := '{}';
    more jsonb := '[]';
    met jsonb := '[]';
begin
    {reads_committed}
    if cardinality(freed) > 0 then
        perform holdfast.free_permits(holder, of_generation, freed, counts);
    end if;

    select
        coalesce(array_agg(b.kind) filter (where b.kind is not null and b.paused_at is not null), '{}'),
        coalesce(array_agg(b.kind) filter (where b.kind is not null and (b.capacity is not null or b.rate_count is not null or b.resumed_at > now() - interval '10 s')), '{}'),
        coalesce(array_agg(b.queue) filter (where b.queue is not null), '{}'),
        coalesce(array_agg(b.name) filter (where b.capacity is not null or b.resumed_at > now() - interval '10 s'), '{}'),
        coalesce(array_agg(b.name) filter (where b.rate_count is not null), '{}')
    into paused_kinds, limited_kinds, limited_queues, leased_doors, rated_doors
    from holdfast.buckets b
    where b.kind is not null or b.queue is not null;
    select coalesce(array_agg(q.name), '{}') into paused_queues
    from holdfast.queues q
    where q.paused_at is not null;

    if room > 0 and (cardinality(limited_kinds) > 0 or cardinality(limited_queues) > 0) then
        select greatest(1, count(*)) into workers
        from holdfast.workers w
        where w.lost_at is null and w.lease_expires_at > now() and w.queues && served;
        -- Those that have work and, as far as can be seen without a lock, room.
        doors := array(
            select b.name
            from holdfast.buckets b
            where (b.kind = any (limited_kinds) and b.kind = any (kinds) or b.queue = any (limited_queues) and b.queue = any (queues))
                and b.paused_at is null
                and (b.capacity is null or b.capacity > (select coalesce(sum(s.permits), 0) from holdfast.permits s where s.bucket = b.name))
            order by b.name
            for update skip locked
        );
        -- A new statement, so that it sees what the last holder of the lock wrote.
        select coalesce(array_agg(d.name order by d.name), '{}'), coalesce(array_agg(d.room order by d.name), '{}')
        into doors, rooms
        from (
            select
                b.name,
                least(
                    coalesce(b.capacity, 1000000) - coalesce(used.permits, 0),
                    -- Each worker its share first; what nobody else wants is there a little later.
                    ceil(b.capacity::double precision / workers)::integer,
                    case when b.resumed_at > now() - interval '10 s'
                        then power(2, extract(epoch from now() - b.resumed_at) + 2)::integer - coalesce(used.permits, 0) else 1000000 end,
                    case when b.rate_count is not null then floor(
                        b.rate_ahead - greatest(0, extract(epoch from r.spent_until - moment)) * b.rate_count / b.rate_seconds + 1e-6
                    )::integer else 1000000 end
                ) as room
            from holdfast.buckets b
            left join lateral (select sum(s.permits)::integer as permits from holdfast.permits s where s.bucket = b.name) used on true
            left join holdfast.rates r on r.bucket = b.name
            where b.name = any (doors)
        ) d
        where d.room > 0;
    end if;

    if room > 0 then
        with picked as (
            delete from holdfast.line d
            where d.ctid = any (array(
                select x.place
                from (
                    select x.place, x.turn, l.nth as range_nth, dense_rank() over (order by array_position(queues, l.queue)) as queue_nth,
                        row_number() over (partition by l.nth order by x.turn) as nth
                    from unnest(queues, kinds, floors) with ordinality as l (queue, kind, floor, nth)
                    cross join lateral (
                        select t.ctid as place, t.turn
                        from holdfast.line t
                        where t.queue = l.queue and t.kind = l.kind and t.turn >= l.floor and t.turn <= clock
                        order by t.turn
                        limit room
                        for update skip locked
                    ) x
                    where l.kind <> all (paused_kinds)
                        and l.queue <> all (paused_queues)
                        and (l.kind <> all (limited_kinds) or 'kind:' || l.kind = any (doors))
                        and (l.queue <> all (limited_queues) or 'queue:' || l.queue = any (doors))
                ) x
                -- The queues in their strict order, the kinds of one queue side by side.
                order by x.queue_nth, x.nth, x.turn
                limit room
            ))
            returning d.bucket, d.turn, d.queue, d.kind
        )
        select
            array_agg(p.bucket order by p.turn, p.bucket), array_agg(p.turn order by p.turn, p.bucket),
            (
                select jsonb_agg(jsonb_build_array(m.queue, m.kind, m.turn))
                from (select q.queue, q.kind, min(q.turn) as turn from picked q group by q.queue, q.kind) m
            )
        into turned, turns_of, met
        from picked p;
    end if;

    if turned is not null then
        locked := array(
            select g.number from holdfast.bucket_locks g
            where g.number = any (array(select hashtext(n.name) & 16383 from unnest(turned) as n (name)))
            for update skip locked
        );
        quantum := greatest(1, ceil(room::double precision / cardinality(turned)));
        -- Of each bucket: its own limit, else that of its rule, else one at a time for a lane, else none.
        select
            array_agg(o.capacity order by o.nth), array_agg(o.weight order by o.nth), array_agg(o.rated order by o.nth),
            array_agg(greatest(0, least(
                ceil(quantum * o.weight)::integer,
                o.capacity - o.used,
                case when o.paused or not o.locked then 0 end,
                o.rate_room
            )) order by o.nth)
        into capacities, weights, rated, takes
        from (
            select
                t.nth,
                coalesce(b.capacity, case when b.name is null then r.capacity end, case when t.bucket like 'lane:%' or t.bucket like 'lane!:%' then 1 end) as capacity,
                coalesce(b.weight, r.weight, 1) as weight,
                coalesce(b.paused_at, r.paused_at) is not null as paused,
                hashtext(t.bucket) & 16383 = any (locked) as locked,
                coalesce(b.rate_count, r.rate_count) is not null as rated,
                case when coalesce(b.rate_count, r.rate_count) is not null then floor(
                    coalesce(b.rate_ahead, r.rate_ahead)
                    - greatest(0, extract(epoch from f.spent_until - moment)) * coalesce(b.rate_count, r.rate_count) / coalesce(b.rate_seconds, r.rate_seconds) + 1e-6
                )::integer end as rate_room,
                coalesce((select sum(s.permits)::integer from holdfast.permits s where s.bucket = t.bucket), 0) as used
            from unnest(turned) with ordinality as t (bucket, nth)
            left join lateral (select c.* from holdfast.buckets c where c.name = t.bucket offset 0) b on true
            left join lateral (
                select c.* from holdfast.buckets c where c.name = split_part(t.bucket, '=', 1) || '=*' offset 0
            ) r on b.name is null
            left join lateral (select c.* from holdfast.rates c where c.bucket = t.bucket offset 0) f on true
        ) o;

        with found as materialized (
            select c.place, c.kind, c.queue, t.nth as bucket_nth, ceil(row_number() over (partition by t.nth order by c.priority, c.position, c.id) / t.weight) as round
            from unnest(turned, takes, weights) with ordinality as t (bucket, take, weight, nth)
            cross join lateral (
                select i.* from (
                select w.ctid as place, w.kind, w.queue, w.priority, w.position, w.id
                from holdfast.blocked w
                where w.bucket = t.bucket
                    and (w.priority, w.position) >= (
                        coalesce(floor_priorities[array_position(places, t.bucket)], 0::smallint),
                        coalesce(floor_positions[array_position(places, t.bucket)], 0)
                    )
                    and w.queue = any (queues)
                    and (known is null or w.kind = any (known))
                    and w.kind <> all (paused_kinds)
                    and w.queue <> all (paused_queues)
                    and (w.kind <> all (limited_kinds) or 'kind:' || w.kind = any (doors))
                    and (w.queue <> all (limited_queues) or 'queue:' || w.queue = any (doors))
                order by w.priority, w.position, w.id
                limit t.take
                for update skip locked
                ) i
                -- In a lane only the first of all that have not ended may start, wherever it stands; so no other is looked at.
                where t.bucket not like 'lane%' or not exists (
                    select from holdfast.tasks e
                    where e.bucket = t.bucket and e.position < i.position
                        and (e.mark is null or t.bucket like 'lane!:%' and e.mark in ('failed', 'paused'))
                )
            ) c
            where t.take > 0
        ), ranked as (
            select
                f.place, f.kind, f.queue, f.round, f.bucket_nth,
                row_number() over (partition by f.kind order by f.round, f.bucket_nth) as in_kind,
                row_number() over (partition by f.queue order by f.round, f.bucket_nth) as in_queue
            from found f
        ), chosen as (
            select r.place
            from ranked r
            where (r.kind <> all (limited_kinds) or r.in_kind <= rooms[array_position(doors, 'kind:' || r.kind)])
                and (r.queue <> all (limited_queues) or r.in_queue <= rooms[array_position(doors, 'queue:' || r.queue)])
            order by r.round, r.bucket_nth
            limit room
        ), taken as (
            delete from holdfast.blocked w
            where w.ctid = any (array(select c.place from chosen c))
            returning w.id, w.bucket, w.kind, w.queue, w.timeout_seconds
        )
        select
            coalesce(array_agg(t.id), '{}'), coalesce(array_agg(t.bucket), '{}'), coalesce(array_agg(t.kind), '{}'),
            coalesce(array_agg(t.queue), '{}'), coalesce(array_agg(t.timeout_seconds), '{}'),
            coalesce(array_agg(o.capacity is not null), '{}'), coalesce(array_agg(o.rated), '{}')
        into ids, of_buckets, of_kinds, of_queues, of_timeouts, of_owns, of_rates
        from taken t
        join unnest(turned, capacities, rated) as o (bucket, capacity, rated) on o.bucket = t.bucket;
        first_ids := cardinality(ids);
    end if;

    if cardinality(places) > 0 then
        -- Ahead of the permits that the worker holds already: nothing is leased for these.
        with taken as (
            delete from holdfast.blocked w
            where w.ctid = any (array(
                select c.place
                from unnest(places, ahead, floor_priorities, floor_positions) as p (place, tasks, floor_priority, floor_position)
                cross join lateral (
                    select a.ctid as place
                    from holdfast.blocked a
                    where a.bucket = p.place
                        and (a.priority, a.position) >= (p.floor_priority, p.floor_position)
                        and a.queue = any (served)
                        and (known is null or a.kind = any (known))
                        and a.kind <> all (paused_kinds)
                        and a.queue <> all (paused_queues)
                        and 'kind:' || a.kind <> all (rated_doors)
                        and 'queue:' || a.queue <> all (rated_doors)
                    order by a.priority, a.position, a.id
                    limit p.tasks
                    for update skip locked
                ) c
            ))
            returning w.id, w.bucket, w.kind, w.queue, w.timeout_seconds
        )
        select
            ids || coalesce(array_agg(t.id), '{}'), of_buckets || coalesce(array_agg(t.bucket), '{}'), of_kinds || coalesce(array_agg(t.kind), '{}'),
            of_queues || coalesce(array_agg(t.queue), '{}'), of_timeouts || coalesce(array_agg(t.timeout_seconds), '{}'),
            -- Only buckets that are limited or have no name of their own are claimed ahead of.
            of_owns || coalesce(array_agg(t.bucket <> t.kind || '@' || t.queue), '{}'), of_rates || coalesce(array_agg(false), '{}')
        into ids, of_buckets, of_kinds, of_queues, of_timeouts, of_owns, of_rates
        from taken t;
    end if;

    if cardinality(ids) > 0 then
        token := nextval('holdfast.fence');
        insert into holdfast.running (id, fence, started_at, deadline_at, worker)
        select u.id, token, now(), now() + make_interval(secs => coalesce(u.seconds, timeout)), holder
        from unnest(ids, of_timeouts) as u (id, seconds);

        with leased as (
            insert into holdfast.permits as s (worker, permits, generation, bucket)
            select holder, count(*), of_generation, n.name
            from unnest(of_buckets[:first_ids], of_kinds[:first_ids], of_queues[:first_ids], of_owns[:first_ids]) as u (bucket, kind, queue, own)
            cross join lateral (
                select u.bucket as name where u.own
                union all select 'kind:' || u.kind where 'kind:' || u.kind = any (leased_doors)
                union all select 'queue:' || u.queue where 'queue:' || u.queue = any (leased_doors)
            ) n
            group by n.name
            order by n.name
            on conflict (bucket, worker) do update
            set permits = s.permits + excluded.permits, generation = excluded.generation
            returning s.bucket, s.permits
        )
        select coalesce(jsonb_object_agg(l.bucket, jsonb_build_array(l.permits, b.capacity)), '{}') into leases
        from leased l
        left join holdfast.buckets b on b.name = l.bucket and b.kind is not null;

        if cardinality(rated_doors) > 0 or true = any (of_rates) then
        insert into holdfast.rates as r (spent_until, bucket)
        select moment + make_interval(secs => x.tasks * x.rate_seconds / x.rate_count), x.name
        from (
            select b.rate_seconds, b.rate_count, n.name, count(*) as tasks
            from unnest(of_buckets[:first_ids], of_kinds[:first_ids], of_queues[:first_ids], of_rates[:first_ids]) as u (bucket, kind, queue, rated)
            cross join lateral (
                select u.bucket as name, coalesce((select b.name from holdfast.buckets b where b.name = u.bucket), split_part(u.bucket, '=', 1) || '=*') as rule
                where u.rated
                union all select 'kind:' || u.kind, 'kind:' || u.kind where 'kind:' || u.kind = any (rated_doors)
                union all select 'queue:' || u.queue, 'queue:' || u.queue where 'queue:' || u.queue = any (rated_doors)
            ) n
            join holdfast.buckets b on b.name = n.rule
            group by b.rate_seconds, b.rate_count, n.name
        ) x
        order by x.name
        on conflict (bucket) do update
        set spent_until = greatest(r.spent_until, moment) + (excluded.spent_until - moment);
        end if;
    end if;

    if turned is not null then
        -- Back in line, unless it is full (whoever frees a permit offers it again) or empty.
        with heads as materialized (
            select
                t.bucket, h.queue, h.kind, t.capacity, t.rated, u.tasks is not null as served,
                -- To the end of the line by as much of its weight as was served: one of three by one chance in three.
                -- One that was passed over stays before the others, but not below the floors of those who look.
                case when random() < coalesce(u.tasks, 0) / t.weight
                    then clock + t.nth else greatest(t.turn, clock - 400000) end as turn
            from unnest(turned, turns_of, capacities, rated, weights) with ordinality as t (bucket, turn, capacity, rated, weight, nth)
            left join (
                select f.bucket, count(*) as tasks from unnest(of_buckets[:first_ids]) as f (bucket) group by f.bucket
            ) u on u.bucket = t.bucket
            cross join lateral (
                select w.queue, w.kind
                from holdfast.blocked w
                where w.bucket = t.bucket
                    and (w.priority, w.position) >= (
                        coalesce(floor_priorities[array_position(places, t.bucket)], 0::smallint),
                        coalesce(floor_positions[array_position(places, t.bucket)], 0)
                    )
                order by w.priority, w.position, w.id
                limit 1
            ) h
        ), again as (
            insert into holdfast.line (turn, bucket, queue, kind)
            select
                case when h.rated then greatest(h.turn, (
                    select (extract(epoch from r.spent_until) * 1000000)::bigint
                        - ((coalesce(b.rate_ahead, l.rate_ahead) - 1) * coalesce(b.rate_seconds, l.rate_seconds) / coalesce(b.rate_count, l.rate_count) * 1000000)::bigint
                    from holdfast.rates r
                    left join holdfast.buckets b on b.name = h.bucket
                    left join holdfast.buckets l on b.name is null and l.name = split_part(h.bucket, '=', 1) || '=*'
                    where r.bucket = h.bucket
                )) else h.turn end,
                h.bucket, h.queue, h.kind
            from heads h
            where (h.capacity is null or h.capacity > (select coalesce(sum(s.permits), 0) from holdfast.permits s where s.bucket = h.bucket))
                -- A lane that was not served waits until the task ahead of it ends; or somebody else had its lock.
                and (h.bucket not like 'lane%' or h.bucket = any (of_buckets) or hashtext(h.bucket) & 16383 <> all (locked))
            order by h.bucket
            on conflict (bucket) do nothing
        )
        select coalesce(jsonb_agg(h.bucket), '[]') into more
        from heads h
        -- Keys without a limit of their own are served in turn, each task by itself.
        where h.served and not h.rated and h.bucket not like 'lane%' and (h.capacity is not null or h.bucket = h.kind || '@' || h.queue);
    end if;
    if cardinality(places) > 0 then
        select more || coalesce(jsonb_agg(p.place), '[]') into more
        from unnest(places, floor_priorities, floor_positions) as p (place, floor_priority, floor_position)
        where exists (
            select from holdfast.blocked w
            where w.bucket = p.place and (w.priority, w.position) >= (p.floor_priority, p.floor_position)
        );
    end if;

    return query
    select
        null::text, null::bigint, null::text, null::text, null::smallint,
        jsonb_build_object('leased', leases, 'more', more, 'met', met, 'workers', workers)::text,
        null::smallint, null::timestamptz, now(), null::timestamptz, null::text, null::text, null::text, null::text, null::smallint,
        null::real, null::integer, null::smallint, null::smallint, null::integer, null::smallint, null::boolean, null::double precision[], now(), null::text[], null::boolean;
    return query
    select
        t.id::text, token, t.kind, t.queue, t.priority, t.payload::text, t.version, t.run_at,
        t.enqueued_at, t.expires_at, t.subject, t.trace_id, t.key, u.bucket, t.max_attempts, t.timeout_seconds,
        t.attempts, t.failures, t.crashes, t.polls, t.rate_limits, t.isolate, case when t.polls > 0 then array[extract(epoch from t.polling_since), t.progress, extract(epoch from t.progressed_at)]::double precision[] end, now(),
        array(
            select n.name
            from (
                select u.bucket as name where u.own
                union all select 'kind:' || u.kind where 'kind:' || u.kind = any (leased_doors)
                union all select 'queue:' || u.queue where 'queue:' || u.queue = any (leased_doors)
            ) n
        ),
        'kind:' || u.kind = any (rated_doors) or 'queue:' || u.queue = any (rated_doors) or u.rated
    from unnest(ids, of_buckets, of_kinds, of_queues, of_owns, of_rates) as u (id, bucket, kind, queue, own, rated)
    cross join lateral (
        select c.* from holdfast.tasks c where c.id = u.id offset 0
    ) t;
end
$$;


-- name: claim_blocked
-- Called only where a turn has come: all other claims need not look behind buckets.
select * from holdfast.claim_blocked(
    %(queues)s::text[], %(kinds)s::text[], %(floors)s::bigint[], %(served)s::text[], %(known)s::text[], %(worker)s::uuid, %(generation)s::integer,
    %(limit)s::integer, %(timeout)s::double precision,
    %(places)s::text[], %(ahead)s::integer[], %(floor_priorities)s::smallint[], %(floor_positions)s::bigint[], %(freed)s::text[], %(counts)s::integer[]
);
