-- The permits of limits that workers hold: leased with a claim, set after a lost answer, freed.


-- name: install_lease_at_once
-- Leases permits for tasks that stand in ready (`names` has the bucket of each, in their order), where nobody
-- waits behind the bucket already: most of a hundred thousand keys are idle, and starting from there avoids
-- the way through blocked and line. Only limits of a key that count what runs: rates, lanes and keys
-- that are only served in turn go the long way. Answers for how many tasks of each bucket permits were leased.
create or replace function holdfast.lease_at_once(names text[], holder uuid, of_generation integer, room integer) returns table (name text, permits integer)
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    locked integer[];
begin
    {reads_committed}
    if names is null or room < 1 then
        return;
    end if;
    locked := array(
        select g.number from holdfast.bucket_locks g
        where g.number = any (array(select hashtext(n.name) & 16383 from unnest(names) as n (name)))
        for update skip locked
    );
    -- A new statement, so that it sees what the last holder of a lock wrote.
    return query
    with wanted as materialized (
        select n.name, count(*)::integer as tasks, min(n.nth) as nth
        from unnest(names) with ordinality as n (name, nth)
        where hashtext(n.name) & 16383 = any (locked)
        group by n.name
    ), fitting as materialized (
        select f.name, f.mine, least(f.permits, room - f.before)::integer as permits
        from (
            select w.name, x.permits, u.mine, sum(x.permits) over (order by w.nth) - x.permits as before
            from wanted w
            cross join lateral (
                select sum(s.permits)::integer as permits, (array_agg(s.ctid) filter (where s.worker = holder))[1] as mine
                from holdfast.permits s
                where s.bucket = w.name
                offset 0
            ) u
            left join lateral (select b.* from holdfast.buckets b where b.name = w.name offset 0) b on true
            left join lateral (
                select b.* from holdfast.buckets b where b.name = split_part(w.name, '=', 1) || '=*' offset 0
            ) r on b.name is null
            cross join lateral (
                select least(w.tasks, case when b.name is null then r.capacity else b.capacity end - coalesce(u.permits, 0)) as permits
            ) x
            where x.permits > 0 and coalesce(b.capacity, r.capacity) is not null
                and coalesce(b.paused_at, r.paused_at) is null
                and coalesce(b.rate_count, r.rate_count) is null
                and (select true from holdfast.blocked c where c.bucket = w.name limit 1) is null
        ) f
        where f.before < room
    ), more as (
        update holdfast.permits s
        set permits = s.permits + f.permits, generation = of_generation
        from fitting f
        where s.ctid = f.mine
    ), leased as (
        insert into holdfast.permits (worker, permits, generation, bucket)
        select holder, f.permits, of_generation, f.name from fitting f where f.mine is null
    )
    select f.name, f.permits from fitting f;
end
$$;


-- name: install_free_permits
-- Gives permits back. Only those of the worker's present generation: an older connection of its own may still be
-- at work, and what that one frees was counted away already.
create or replace function holdfast.free_permits(holder uuid, of_generation integer, names text[], counts integer[]) returns void
language plpgsql
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    places tid[];
    fewer integer[];
    rests integer[];
begin
    {reads_committed}
    select array_agg(x.place), array_agg(x.fewer), array_agg(x.permits - x.fewer)
    into places, fewer, rests
    from (
        select c.place, c.permits, f.permits as fewer
        from (select u.name, u.permits from unnest(names, counts) as u (name, permits) order by u.name) f
        cross join lateral (
            select s.ctid as place, s.permits from holdfast.permits s
            where s.bucket = f.name and s.worker = holder and s.generation = of_generation
            for update
        ) c
    ) x;
    delete from holdfast.permits s
    where s.ctid = any (array(select u.place from unnest(places, rests) as u (place, rest) where u.rest <= 0));
    if 0 < any (rests) then
        update holdfast.permits s
        set permits = s.permits - u.fewer
        from unnest(places, fewer, rests) as u (place, fewer, rest)
        where s.ctid = u.place and u.rest > 0;
    end if;
    perform holdfast.enlist(names);
end
$$;


-- name: free_permits
-- Names the generation of the worker, because permits of an earlier connection were already counted away.
select holdfast.free_permits(%(worker)s::uuid, %(generation)s::integer, %(names)s::text[], %(counts)s::integer[]);


-- name: set_permits
-- After an answer was lost: what the worker says that it holds is what it holds. The generation makes void
-- whatever an older connection may still do.
with kept as materialized (
    select u.name, u.permits from unnest(%(names)s::text[], %(counts)s::integer[]) as u (name, permits)
), gone as (
    delete from holdfast.permits s
    where s.worker = %(worker)s::uuid and not exists (select from kept k where k.name = s.bucket)
    returning s.bucket
), changed as (
    update holdfast.permits s
    set permits = least(s.permits, k.permits), generation = %(generation)s::integer
    from kept k
    where s.bucket = k.name and s.worker = %(worker)s::uuid
    returning s.bucket
)
select bucket from gone union all select bucket from changed;


-- name: has_permits
-- Saves counting all that an HTTP worker holds when the tasks that ended cannot have had a permit.
select exists (
    select from holdfast.permits s where s.bucket = any (%(names)s::text[]) and s.worker = %(worker)s::uuid
);


-- name: prune_rates
-- What was spent of rates so long ago that it counts no more.
delete from holdfast.rates r
where r.ctid = any (array(
    select c.ctid from holdfast.rates c where c.spent_until < now() - interval '1 hour' limit %(limit)s for update skip locked
))
returning r.bucket;
