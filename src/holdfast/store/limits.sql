-- Limits as operators and code set them. permits.sql and line.sql apply them to tasks.

-- name: set_limit
-- A limit that a person set stays when code declares another.
insert into holdfast.buckets as b (name, kind, queue, capacity, rate_count, rate_seconds, rate_burst, weight, set_by, set_at)
values (
    %(name)s, %(kind)s, %(queue)s, %(capacity)s::integer, %(rate_count)s::integer, %(rate_seconds)s::double precision,
    %(rate_burst)s::integer, %(weight)s::real, %(by)s, now()
)
on conflict (name) do update
set capacity = excluded.capacity, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
    rate_burst = excluded.rate_burst, weight = excluded.weight, set_by = excluded.set_by, set_at = excluded.set_at
where %(by)s <> 'code' or b.set_by is null or b.set_by in ('code', 'default');


-- name: set_default
-- The limit of every kind that has none of its own, for the kinds that live workers serve.
insert into holdfast.buckets as b (name, kind, capacity, rate_count, rate_seconds, rate_burst, set_by, set_at)
select 'kind:' || k.kind, k.kind, d.capacity, d.rate_count, d.rate_seconds, d.rate_burst, 'default', now()
from holdfast.buckets d
cross join (
    select distinct u.kind from holdfast.workers w cross join unnest(w.kinds) as u (kind)
    where w.lost_at is null and w.lease_expires_at > now()
) k
where d.name = 'kind:*'
order by 1
on conflict (name) do update
set capacity = excluded.capacity, rate_count = excluded.rate_count, rate_seconds = excluded.rate_seconds,
    rate_burst = excluded.rate_burst, set_by = excluded.set_by, set_at = excluded.set_at
where b.set_by is null or b.set_by = 'default';


-- name: clear_limit
-- A row that also holds a pause or a gate stays for that. With the default limit go those that came of it.
with cleared as (
    update holdfast.buckets b
    set capacity = null, rate_count = null, rate_seconds = null, rate_burst = null, weight = 1, set_by = null, set_at = null
    where b.set_by is not null and (b.name = %(name)s or %(name)s = 'kind:*' and b.set_by = 'default')
    returning b.name
)
select c.name from cleared c;


-- name: rescale
-- After a rate was changed: as many starts are owed as before, by the new rate; after it was cleared, none. And
-- buckets that stand in line for the moment at which the old rate let them are looked at now.
with matching as materialized (
    select r.bucket, r.spent_until from holdfast.rates r
    where r.bucket = %(name)s or right(%(name)s, 2) = '=*' and split_part(r.bucket, '=', 1) || '=*' = %(name)s
), gone as (
    delete from holdfast.rates r using matching m where r.bucket = m.bucket and %(factor)s::double precision = 0
), changed as (
    update holdfast.rates r
    set spent_until = now() + (m.spent_until - now()) * %(factor)s::double precision
    from matching m
    where r.bucket = m.bucket and m.spent_until > now() and %(factor)s::double precision > 0
)
update holdfast.line t
set turn = (extract(epoch from clock_timestamp()) * 1000000)::bigint
where t.bucket in (select m.bucket from matching m) and t.turn > (extract(epoch from clock_timestamp()) * 1000000)::bigint;


-- name: rate
-- Read before and after a change, because what was spent of the rate is rescaled by the two.
select b.rate_count, b.rate_seconds from holdfast.buckets b where b.name = %(name)s;


-- name: drop_bare
-- What nobody set, paused or parked any more.
delete from holdfast.buckets b
where b.name = any (%(names)s::text[])
    and b.set_by is null and b.paused_at is null and b.unserved_at is null
    and coalesce(b.resumed_at < now() - interval '10 s', true);


-- name: limits
-- Every limit with what it lets run now, who holds its permits, and how many tasks stand behind it, up to ten thousand.
select
    b.name, b.capacity, b.rate_count, b.rate_seconds, b.rate_burst, b.weight, b.set_by, b.set_at,
    coalesce(u.permits, 0)::integer, u.holders, r.spent_until,
    (
        select count(*) from (
            select from holdfast.blocked w where w.bucket = b.name or b.kind = w.kind or b.queue = w.queue limit 10000
        ) x
    )
from holdfast.buckets b
left join holdfast.rates r on r.bucket = b.name
left join lateral (
    select sum(s.permits) as permits, json_object_agg(coalesce(w.name, 'gone') || ' ' || left(s.worker::text, 13), s.permits) as holders
    from holdfast.permits s
    left join holdfast.workers w on w.id = s.worker
    where s.bucket = b.name
) u on true
where b.set_by is not null
order by b.name;
