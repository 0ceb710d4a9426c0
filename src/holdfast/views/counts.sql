-- What ended when: deltas written by settling groups, rolled up by the minute. What waits: counted as far as that is cheap,
-- and sampled now and then beyond.

-- name: prune_minutes
-- Trends reach back for days, not years, and every minute adds rows for each queue and kind.
with queues as (
    delete from holdfast.queue_minutes q
    -- A day is compared with; no more is read.
    where q.minute < coalesce(%(now)s::timestamptz, now()) - interval '2 days'
)
delete from holdfast.settled_minutes m
where m.minute < coalesce(%(now)s::timestamptz, now()) - make_interval(days => %(days)s::integer);


-- name: roll_up
-- Takes the deltas of closed minutes and adds them to the minutes and to the totals; safe to run by several at once.
with taken as (
    delete from holdfast.settled_deltas d
    where d.ctid = any (array(
        select c.ctid
        from holdfast.settled_deltas c
        where c.settled_at < date_trunc('minute', coalesce(%(now)s::timestamptz, now()))
        limit %(limit)s
        for update skip locked
    ))
    returning d.*
), sums as (
    select date_trunc('minute', t.settled_at) as minute, t.kind, t.ended_as, sum(t.tasks) as tasks, sum(t.run_seconds) as run_seconds
    from taken t
    group by 1, 2, 3
    order by 1, 2, 3
), added as (
    insert into holdfast.settled_minutes as m (minute, kind, ended_as, tasks, run_seconds)
    select s.minute, s.kind, s.ended_as, s.tasks, s.run_seconds from sums s
    on conflict (minute, kind, ended_as) do update
    set tasks = m.tasks + excluded.tasks, run_seconds = m.run_seconds + excluded.run_seconds
), summed as (
    insert into holdfast.settled_totals as t (kind, ended_as, tasks, run_seconds)
    select s.kind, s.ended_as, sum(s.tasks), sum(s.run_seconds) from sums s group by 1, 2 order by 1, 2
    on conflict (kind, ended_as) do update
    set tasks = t.tasks + excluded.tasks, run_seconds = t.run_seconds + excluded.run_seconds
)
select count(*)::integer from taken;


-- name: settled
-- What ended since the beginning; it only grows.
select x.kind, x.ended_as, sum(x.tasks)::bigint, sum(x.run_seconds)::double precision
from (
    select t.kind, t.ended_as, t.tasks, t.run_seconds from holdfast.settled_totals t
    union all
    select d.kind, d.ended_as, d.tasks, d.run_seconds from holdfast.settled_deltas d
) x
group by 1, 2
order by 1, 2;


-- name: sampled
-- Large counts are read from the last sample: counting them for each request would cost seconds.
select s.figures, s.sampled_at from holdfast.samples s where s.name = %(name)s;


-- name: sample_age
-- A sample is taken again only after many times as long as the last one took, so that its cost stays bounded.
select extract(epoch from now() - s.sampled_at)::double precision, s.took_seconds from holdfast.samples s where s.name = %(name)s;


-- name: sample
-- Records how long counting took, because that decides when the next sample is due.
insert into holdfast.samples as s (name, figures, sampled_at, took_seconds)
values (%(name)s, %(figures)s::jsonb, now(), %(took)s)
on conflict (name) do update
set figures = excluded.figures, sampled_at = excluded.sampled_at, took_seconds = excluded.took_seconds;


-- name: count_freely
-- For the count that follows in the same transaction: whole tables may be read, by one process, and groups are found by
-- hashing, whatever old statistics say. Where whole reads are off (pool.py) their price hides that of everything else:
-- eleven million were sorted on disk to be counted, 13 s instead of 4.
select
    set_config('enable_seqscan', 'on', true), set_config('enable_sort', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true);


-- name: count_waiting
-- All of it, however long that takes, by queue and kind, with the age of the oldest: for samples. In one pass over the
-- table, for which no index is of use: beside an old snapshot an index leads through the dead one by one, measured forty
-- times as long.
select
    x.queue, x.kind, sum(x.ready)::bigint, sum(x.queued - x.ready)::bigint, sum(x.behind)::bigint,
    extract(epoch from now() - min(x.first_at) filter (where x.ready > 0))::double precision
from (
    select
        r.queue || '' as queue, r.kind, count(*) as queued, count(*) filter (where r.run_at <= now()) as ready, 0 as behind,
        min(r.run_at) as first_at
    from holdfast.ready r
    group by 1, 2
    union all
    select w.queue, w.kind, 0, 0, count(*), null from holdfast.blocked w group by 1, 2
) x
group by 1, 2;


-- name: count_marked
-- The same of what has a mark.
select t.mark, t.kind, t.failure_class, t.dead_reason, count(*) from holdfast.tasks t where t.mark is not null group by 1, 2, 3, 4;


-- name: pulse
-- Workers that live and that were lost, and what completes in a second.
select
    (select count(*) from holdfast.workers w where w.lost_at is null and w.lease_expires_at > now()),
    (select count(*) from holdfast.workers w where w.lost_at is not null),
    (
        select coalesce(sum(x.tasks), 0)::double precision / 300
        from (
            select d.tasks from holdfast.settled_deltas d where d.ended_as = 'complete' and d.settled_at > now() - interval '5 minutes'
            union all
            select m.tasks from holdfast.settled_minutes m where m.ended_as = 'complete' and m.minute > now() - interval '5 minutes'
        ) x
    );
